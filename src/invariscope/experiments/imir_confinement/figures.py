"""The figures of ``imir-confinement``."""

from __future__ import annotations

import math

from invariscope.experiments.imir_confinement.config import MODELS, Config
from invariscope.experiments.imir_confinement.measure import OPTIMISERS, Findings
from invariscope.figures import (
    AccuracyCurve,
    AccuracyCurves,
    Condition,
    ConditionDots,
    Figure,
    ScalingLaw,
    ScalingLaws,
    draw_accuracy_curves,
    draw_condition_dots,
    draw_scaling_laws,
)

__all__ = ["make_figures"]

SMALLEST = 1e-17
"""What is drawn for a share of exactly nothing."""


def make_figures(config: Config, found: Findings) -> list[Figure]:
    """Every figure, in the order of the report."""
    return [_offspan(found), _noise(config, found), _descent(found), _attraction(found)]


def _offspan(found: Findings) -> Figure:
    def logarithm(value: float) -> float:
        return math.log10(max(value, SMALLEST))

    first = next(iter(MODELS))
    tasks = [one for one in found.confined if one.model == first]
    rows = [(one.name, one.shares, True) for one in tasks]
    models = dict.fromkeys(one.model for one in found.confined)
    for model in models:
        shares = tuple(share for one in found.confined if one.model == model for share in one.shares)
        rows.append((f"all tasks: {model}", shares, True))
    rows += [(one.name, one.shares, False) for one in found.broken]
    return draw_condition_dots(
        ConditionDots(
            dots=tuple(
                Condition(
                    panel="tasks, models, and where it must fail",
                    name=name,
                    value=logarithm(max(shares)),
                    low=logarithm(min(shares)),
                    high=logarithm(max(shares)),
                    role="core" if confined else "control",
                )
                for name, shares, confined in rows
            ),
            title="How much of the exact gradient lies outside the manifold",
            caption="Largest share of its norm outside, over random points of the manifold: of each task with two layers, of "
            "each model over all tasks, and of the controls; bars reach to the smallest. -16 is rounding of float64. Open "
            "symbols: controls that Theorem 1 does not cover.",
            quantity="log10 of the share outside",
            unit="",
            span=(-17.5, 0.5),
        ),
        name="offspan",
    )


def _noise(config: Config, found: Findings) -> Figure:
    one = found.sampled
    expected = tuple(one.shares[0] * (size / one.sizes[0]) ** -0.5 for size in one.sizes)
    return draw_scaling_laws(
        ScalingLaws(
            laws=(
                ScalingLaw(
                    panel="recall",
                    name="sampled gradient",
                    sizes=one.sizes,
                    values=one.shares,
                    slope=one.slope,
                    interval=(one.low, one.high),
                ),
                ScalingLaw(panel="recall", name="one over the root", sizes=one.sizes, values=expected, role="control"),
            ),
            title="Samples leave it by their noise",
            x_title="sequences a batch",
            quantity="share outside",
            note=f"Means of {config.draws} batches at each of {len(config.seeds)} points; brackets: the least and largest.",
            columns=1,
        ),
        name="noise",
    )


def _descent(found: Findings) -> Figure:
    every = max(len(found.descent_losses) // 100, 1)
    steps = tuple(range(0, len(found.descent_losses), every))
    return draw_accuracy_curves(
        AccuracyCurves(
            curves=(
                AccuracyCurve(
                    panel="recall",
                    name="both descents",
                    steps=steps,
                    values=tuple(found.descent_losses[step] for step in steps),
                ),
            ),
            title="Two descents that are one",
            quantity="loss (nats)",
            unit_axis=False,
            subject="Exact loss under gradient descent on all weights of the full model; natural descent in the coordinates "
            f"differs by {found.loss_difference:.1g} nats at most, and by {found.coordinate_difference:.1g} in every coordinate.",
            columns=1,
        ),
        name="descent",
    )


def _attraction(found: Findings) -> Figure:
    curves = []
    for name in OPTIMISERS:
        trained = [one for one in found.attraction if one.optimiser == name]
        for panel, runs in (
            ("squared norm outside", [one.outside for one in trained]),
            ("squared norm inside", [one.inside for one in trained]),
        ):
            curves.append(AccuracyCurve.over_seeds(panel=panel, name=name, steps=trained[0].steps, runs=runs))
    return draw_accuracy_curves(
        AccuracyCurves(
            curves=tuple(curves),
            title="Does the manifold attract?",
            quantity="squared norm",
            unit_axis=False,
            subject="Squared norm of the weights outside and inside the manifold in trainings that begin outside, on sampled "
            "batches.",
            note="Theorem 1 is about gradient descent: Adam divides by the size of each weight's gradient, and leaves.",
        ),
        name="attraction",
    )
