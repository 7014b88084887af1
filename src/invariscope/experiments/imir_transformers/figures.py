"""The figures of ``imir-transformers``."""

from __future__ import annotations

from collections.abc import Sequence

from invariscope.experiments.imir_transformers.config import Config
from invariscope.experiments.imir_transformers.findings import HeadFinding, LanguageFindings, TrainingFindings
from invariscope.figures import (
    AccuracyCurve,
    AccuracyCurves,
    Figure,
    HeatMap,
    HeatMaps,
    draw_accuracy_curves,
    draw_heat_maps,
)
from invariscope.manifold import InductionMoment

__all__ = ["make_figures"]

NAMES = {"α": "α, previous token", "β": "β, match", "γ": "γ, output", "δ": "δ, memory"}
ANSWERS = {
    "rare": "rare questions",
    "common": "common questions",
    "conflict_memory": "conflicts, by memory",
    "conflict_context": "conflicts, by the context",
}


def make_figures(config: Config, trainings: Sequence[TrainingFindings], language: LanguageFindings | None) -> list[Figure]:
    """Every figure, in the order of the report."""
    found = [_coordinates(config, trainings), _answers(config, trainings)]
    return found if language is None else [*found, _heads(language)]


def _coordinates(config: Config, trainings: Sequence[TrainingFindings]) -> Figure:
    """One training a share, in words; all seeds would hide which coordinate moves when."""
    first = [one for one in trainings if one.seed == config.seeds[0]]
    curves = [
        AccuracyCurve(
            panel=_panel(one.rare_share),
            name=NAMES[name],
            steps=tuple(moment.step for moment in one.series.moments),
            values=tuple(_value(moment, name) for moment in one.series.moments),
            role="control" if name == "δ" else "core",
        )
        for one in first
        for name in NAMES
    ]
    told = first[0]
    return draw_accuracy_curves(
        AccuracyCurves(
            curves=tuple(curves),
            title="Coordinates of induction and memory over training",
            quantity="coordinate above its null",
            unit_axis=False,
            subject="α, β, γ of one pair of heads and δ of an ordinary transformer, in nats of a score or logit; "
            f"seed {config.seeds[0]}.",
            note=f"The words are about {_panel(told.rare_share)}.",
            moments=tuple(zip((moment.step for moment in told.series.moments), told.series.sentences(), strict=True)),
        ),
        name="coordinates",
    )


def _panel(rare_share: float) -> str:
    return f"f_r = {rare_share:g}"


def _value(moment: InductionMoment, name: str) -> float | None:
    return next((one.value for one in moment.coordinates if one.name == name), None)


def _answers(config: Config, trainings: Sequence[TrainingFindings]) -> Figure:
    curves = []
    for share in config.rare_shares:
        series = [one.series for one in trainings if one.rare_share == share]
        steps = [moment.step for moment in series[0].moments]
        for field, name in ANSWERS.items():
            runs = [[getattr(moment, field) for moment in one.moments] for one in series]
            role = "control" if field == "conflict_context" else "core"
            curves.append(AccuracyCurve.over_seeds(panel=_panel(share), name=name, steps=steps, runs=runs, role=role))
    return draw_accuracy_curves(
        AccuracyCurves(
            curves=tuple(curves),
            title="What is answered, and by what",
            quantity="share of answers",
            subject="Accuracy on rare and on common questions, and what answers where context and memory disagree.",
        ),
        name="answers",
    )


def _heads(found: LanguageFindings) -> Figure:
    layers = sorted({head.layer for head in found.heads}, reverse=True)
    numbers = sorted({head.head for head in found.heads})
    at = {(head.layer, head.head): head for head in found.heads}
    scores = {
        "α of embeddings": "alpha",
        "α of what is read": "alpha_read",
        "attention to the previous token": "previous",
        "γ, in sd of its null": "gamma",
        "largest α β": "match",
        "attention as an induction head": "induction",
    }
    maps = tuple(
        HeatMap(
            panel=panel,
            rows=tuple(map(str, layers)),
            columns=tuple(map(str, numbers)),
            values=(tuple(tuple(_shade(at.get((layer, number)), field) for number in numbers) for layer in layers),),
            rows_title="layer",
            columns_title="head",
        )
        for panel, field in scores.items()
    )
    return draw_heat_maps(
        HeatMaps(
            maps=maps,
            title=f"The heads of {found.name}, by weights and by what they attend to",
            quantity="score of the panel",
            own_limits=True,
            square=False,
            columns=3,
            subject="Coordinates from the weights beside mean attention on repeated random tokens.",
            note="Scores below their null are drawn as 0.",
        ),
        name="heads",
    )


def _shade(head: HeadFinding | None, field: str) -> float | None:
    return None if head is None else max(float(getattr(head, field)), 0.0)
