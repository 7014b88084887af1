"""The figures of ``imir-dynamics``."""

from __future__ import annotations

from invariscope.experiments.imir_dynamics.config import Config
from invariscope.experiments.imir_dynamics.measure import Findings, sentence
from invariscope.figures import (
    AccuracyCurve,
    AccuracyCurves,
    Figure,
    HeatMap,
    HeatMaps,
    ScalingLaw,
    ScalingLaws,
    draw_accuracy_curves,
    draw_heat_maps,
    draw_scaling_laws,
)

__all__ = ["make_figures"]

CIRCUIT = ("α, previous token", "β, match", "γ, output")


def make_figures(config: Config, found: Findings) -> list[Figure]:
    """Every figure, in the order of the report."""
    return [_coordinates(found), _accuracy(found), _context(config, found), _grid(found)]


def _coordinates(found: Findings) -> Figure:
    curves = []
    for one in found.trajectories:
        steps = tuple(moment.step for moment in one.moments)
        for index, name in enumerate(CIRCUIT):
            values = tuple(moment.circuits[index] for moment in one.moments)
            curves.append(AccuracyCurve(panel=f"seed {one.seed}", name=name, steps=steps, values=values))
        largest = tuple(max((abs(value) for _, value in moment.largest), default=0.0) for moment in one.moments)
        curves.append(
            AccuracyCurve(panel=f"seed {one.seed}", name="largest other (size)", steps=steps, values=largest, role="control")
        )
    told = found.trajectories[0]
    return draw_accuracy_curves(
        AccuracyCurves(
            curves=tuple(curves),
            title="Recall, coordinate by coordinate",
            quantity="coordinate",
            unit_axis=False,
            subject="Coordinates of the induction circuit under descent in all of them.",
            note=f"The words are about seed {told.seed}.",
            moments=tuple((moment.step, sentence(moment, found.chance)) for moment in told.moments),
        ),
        name="coordinates",
    )


def _accuracy(found: Findings) -> Figure:
    runs = [[moment.accuracy for moment in one.moments] for one in found.trajectories]
    steps = [moment.step for moment in found.trajectories[0].moments]
    curve = AccuracyCurve.over_seeds(panel="recall", name="exact accuracy", steps=steps, runs=runs)
    return draw_accuracy_curves(
        AccuracyCurves(
            curves=(curve,),
            title="Accuracy over the whole law",
            chance=found.chance,
            subject="Share of all sequences of the task that are answered right, without sampling.",
            columns=1,
        ),
        name="accuracy",
    )


def _context(config: Config, found: Findings) -> Figure:
    first, sizes = found.emergence[-1], tuple(map(float, config.lengths))
    square = tuple(first * (size / sizes[-1]) ** 2 for size in sizes)
    return draw_scaling_laws(
        ScalingLaws(
            laws=(
                ScalingLaw(
                    panel="induction circuit",
                    name="time until recall",
                    sizes=sizes,
                    values=found.emergence,
                    slope=found.exponents[-1],
                ),
                ScalingLaw(panel="induction circuit", name="square", sizes=sizes, values=square, role="control"),
            ),
            title="Longer contexts take longer",
            x_title="pairs in the context",
            quantity="time until the loss is .5",
            note="The slope said is that between the two longest contexts.",
            columns=1,
        ),
        name="context",
    )


def _grid(found: Findings) -> Figure:
    labels = tuple(f"{value:.3g}" for value in found.axis)
    return draw_heat_maps(
        HeatMaps(
            maps=(
                HeatMap(
                    panel="time until recall",
                    rows=labels[::-1],
                    columns=labels,
                    values=(found.grid[::-1],),
                    rows_title="α at the beginning",
                    columns_title="β at the beginning",
                ),
            ),
            title="Where a training begins decides when recall comes",
            quantity="time",
            columns=1,
            subject="Time of gradient flow of α and β until the loss is .5, by where they begin.",
            note="Blank: not within a time of 3000.",
        ),
        name="beginnings",
    )
