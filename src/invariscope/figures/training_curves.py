"""Training curves: how far each seed still is from the best possible cross-entropy, against the training step.

The excess over the optimum (in nats, on a logarithmic axis) is the Kullback-Leibler divergence from the task's true law to the
model. It is what a core's reading rests on: operators fitted on an under-trained model are biased.

>>> curve = TrainingCurve(panel="four states", name="seed 0", steps=(0, 100, 200), excess=(0.44, 0.02, 0.001))
>>> draw_training_curves(TrainingCurves(curves=(curve,))).rows[-1]
('four states', 'seed 0', 200, 0.001)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from invariscope.figures.figure import Figure
from invariscope.figures.marks import MAX_POINTS, Role, check_lengths, check_some, dash, meta, slots, thin
from invariscope.figures.panels import DASH_SIGNS, Panels, level_line, panel_key

__all__ = ["TrainingCurve", "TrainingCurves", "draw_training_curves"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCurve:
    """One model's training.

    Args:
        panel: the arm, such as the chain's name.
        name: the model, such as ``seed 0``.
        steps: optimiser steps done.
        excess: cross-entropy minus the optimum after that many steps, in nats; None where it was not measured.
        role: ``core``, or ``control`` for a model trained on something else.
    """

    panel: str
    name: str
    steps: tuple[int, ...]
    excess: tuple[float | None, ...]
    role: Role = "core"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCurves:
    """The numbers of a training figure.

    Args:
        curves: in the order of the legend.
        mark: an excess to compare with, in nats.
        mark_label: what that mark is.
        note: a sentence for the end of the caption.
    """

    curves: tuple[TrainingCurve, ...]
    mark: float | None = None
    mark_label: str = "mark"
    note: str = ""


def draw_training_curves(numbers: TrainingCurves, *, name: str = "training_curves") -> Figure:
    """Draw the excess cross-entropy against the step, one panel an arm.

    Args:
        numbers: what to draw.
        name: the figure's file name.

    Returns:
        The figure; its table has one row a drawn point. Curves above :data:`MAX_POINTS` points are thinned, and the caption
        says so.

    Raises:
        TooFewSamplesError: without any curve.
        ShapeError: where a curve has not one excess a step.
    """
    check_some(name, "curves", numbers.curves)
    for curve in numbers.curves:
        check_lengths(f"curve {curve.name!r} in {curve.panel!r}", steps=curve.steps, excess=curve.excess)
    arms = tuple(dict.fromkeys(curve.panel for curve in numbers.curves))
    slot_of = slots([(curve.name, curve.role) for curve in numbers.curves])
    panels = Panels(titles=arms, columns=min(len(arms), 3), height_pixels=300)
    layout = panels.layout(
        x={"title": {"text": "training step"}, "rangemode": "tozero"},
        y={"title": {"text": "excess (nats)"}, "type": "log", "exponentformat": "none", "dtick": 1},
    )
    if numbers.mark is not None:
        key = f"{DASH_SIGNS['dash']} {numbers.mark_label} {numbers.mark:g}"
        layout["shapes"] += [level_line(index, numbers.mark) for index in range(len(arms))]
        layout["annotations"] += [panel_key(index, key) for index in range(len(arms))]
    drawn = [thin(list(zip(curve.steps, curve.excess, strict=True))) for curve in numbers.curves]
    traces: list[dict[str, Any]] = []
    seen: set[str] = set()
    for curve, points in zip(numbers.curves, drawn, strict=True):
        slot = slot_of[curve.name]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": [step for step, _ in points],
                "y": [excess if excess is not None and excess > 0 else None for _, excess in points],
                "name": curve.name,
                "legendgroup": curve.name,
                "showlegend": curve.name not in seen,
                "line": {"dash": dash(slot), "width": 2},
                "hovertemplate": f"step %{{x}}: %{{y:.3g}} nats<extra>{curve.name}</extra>",
                "meta": meta(slot, curve.role),
                **panels.axes(arms.index(curve.panel)),
            }
        )
        seen.add(curve.name)
    return Figure(
        name=name,
        title="How close training came to the optimum",
        caption=_caption(numbers, drawn),
        alt=_alt(numbers, arms),
        plot={"data": traces, "layout": layout},
        columns=("arm", "model", "step", "excess cross-entropy (nats)"),
        rows=tuple(
            (curve.panel, curve.name, step, excess)
            for curve, points in zip(numbers.curves, drawn, strict=True)
            for step, excess in points
        ),
    )


def _caption(numbers: TrainingCurves, drawn: list[list[Any]]) -> str:
    parts = [
        "Cross-entropy above the best possible one, in nats, against the training step; one line a seed (colour and dash), "
        "logarithmic axis. Zero would be a perfect model of the task's law."
    ]
    missing = sum(excess is not None and excess <= 0 for points in drawn for _, excess in points)
    if missing:
        parts.append(f"{missing} points at or below zero have no place on a logarithmic axis; the table has them.")
    longest = max(len(curve.steps) for curve in numbers.curves)
    if longest > MAX_POINTS:
        parts.append(
            f"Thinned from up to {longest} to {MAX_POINTS} points a line, evenly; the table holds the points that are drawn."
        )
    return " ".join([*parts, numbers.note]).strip()


def _alt(numbers: TrainingCurves, arms: tuple[str, ...]) -> str:
    parts = [f"Line chart on a logarithmic axis, one panel an arm ({', '.join(arms)})."]
    for curve in numbers.curves:
        measured = [(step, excess) for step, excess in zip(curve.steps, curve.excess, strict=True) if excess is not None]
        if measured:
            (first, start), (last, end) = measured[0], measured[-1]
            parts.append(f"{curve.panel}, {curve.name}: {start:.2g} nats at step {first}, {end:.2g} at step {last}.")
    return " ".join(parts)
