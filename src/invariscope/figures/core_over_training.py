"""The core over training: its operator's eigenvalues and its states, moving to their places as a model learns.

Two planes and a slider. In the complex plane the eigenvalues of the operator in the core move towards the task's. In the plane of
the core's first two directions the mean coordinates of each state leave the places that chance gave them. A path shows the
whole way of each state, so that paper, which has no slider, tells it too.

A core's directions are free up to a rotation, so states would jump from checkpoint to checkpoint if they were drawn as they
are measured: they have to come turned onto the last checkpoint's (:func:`invariscope.cores.follow_core` does so, by orthogonal
Procrustes). Lengths are never changed: a core that grows is seen to grow.

>>> moments = (
...     CoreMoment(step=0, eigenvalues=(0.1 + 0j,), states=((0.1, 0.0), (0.0, 0.1))),
...     CoreMoment(step=50, eigenvalues=(0.4 + 0j,), states=((1.0, 0.0), (-1.0, 0.0))),
... )
>>> figure = draw_core_over_training(CoreOverTraining(moments=moments, truth=(0.4 + 0j,), names=("1", "2")))
>>> [frame.label for frame in figure.frames], figure.slider
(['step 0', 'step 50'], 'Training step')
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from invariscope.errors import ShapeError
from invariscope.figures.figure import Cell, Figure
from invariscope.figures.follow_curves import SLIDER
from invariscope.figures.frames import Frame
from invariscope.figures.marks import check_lengths, check_some, meta, symbol
from invariscope.figures.panels import Panels

if TYPE_CHECKING:
    from invariscope.cores import CoreSeries

__all__ = ["CoreMoment", "CoreOverTraining", "draw_core_over_training"]

PANELS = ("eigenvalues of the operator", "states in the plane of the core")
MARGIN = 1.18
"""Over the outermost point of all frames: room for symbols and labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreMoment:
    """The core at one step.

    Args:
        step: optimiser steps done.
        eigenvalues: of the operator in the core (no unit).
        states: mean coordinates of each state in the first two directions of the core, as many at every step, turned onto the
            last step's.
    """

    step: int
    eigenvalues: tuple[complex, ...]
    states: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreOverTraining:
    """The numbers of the figure.

    Args:
        moments: by step, two or more.
        truth: the task's eigenvalues.
        names: one a state.
        groups: a label from 0 on for each state, which decides colour and symbol; empty: all alike.
        grouped_by: what the groups are, for the caption.
        where: the site and the model, for the title.
        note: a sentence for the end of the caption.
    """

    moments: tuple[CoreMoment, ...]
    truth: tuple[complex, ...]
    names: tuple[str, ...]
    groups: tuple[int, ...] = ()
    grouped_by: str = ""
    where: str = ""
    note: str = ""

    @classmethod
    def from_series(
        cls,
        series: CoreSeries,
        *,
        groups: tuple[int, ...] = (),
        grouped_by: str = "",
        where: str = "",
        note: str = "",
    ) -> CoreOverTraining:
        """What :func:`invariscope.cores.follow_core` found, for cores of two directions or more.

        Args:
            series: with means of the tokens; they are numbered from 1.
            groups, grouped_by, where, note: as in the class.
        """
        return cls(
            moments=tuple(
                CoreMoment(
                    step=found.step,
                    eigenvalues=tuple(complex(*value) for value in found.eigenvalues),
                    states=tuple((mean[0], mean[1]) for mean in found.means),
                )
                for found in series.checkpoints
            ),
            truth=tuple(complex(*value) for value in series.expected),
            names=tuple(str(token + 1) for token in series.tokens),
            groups=groups,
            grouped_by=grouped_by,
            where=where,
            note=note,
        )


def draw_core_over_training(numbers: CoreOverTraining, *, name: str = "core_over_training") -> Figure:
    """Draw both planes, one frame a step, with equal and fixed axes.

    Args:
        numbers: what to draw.
        name: the figure's file name.

    Returns:
        The figure; its table has one row an eigenvalue or state and step, the task's eigenvalues first.

    Raises:
        TooFewSamplesError: without moments or states. ShapeError: where a step has not as many states as the others.
        ConfigError: for a single step, or one twice.
    """
    check_some(name, "moments", numbers.moments)
    check_some(name, "states", numbers.names)
    groups = numbers.groups or (0,) * len(numbers.names)
    check_lengths(f"figure {name!r}", names=numbers.names, groups=groups)
    for moment in numbers.moments:
        if len(moment.states) != len(numbers.names):
            raise ShapeError(
                f"step {moment.step} has {len(moment.states)} states", expected=f"{len(numbers.names)}, one a name", do="give all"
            )
    panels = Panels(titles=PANELS, columns=2, height_pixels=400, narrow_height_pixels=300)
    values = [value for moment in numbers.moments for value in moment.eigenvalues]
    places = [abs(x) for moment in numbers.moments for state in moment.states for x in state]
    farthest = max((max(abs(value.real), abs(value.imag)) for value in values), default=0.0)
    spans = (max(1.1, MARGIN * farthest), MARGIN * max(places, default=0.0) or 1.0)
    words = (("real part", "imaginary part"), ("first direction of the core", "second direction of the core"))
    layout = panels.layout(
        x=[_axis(title, span) for (title, _), span in zip(words, spans, strict=True)],
        y=[
            _axis(title, span) | {"scaleanchor": panels.axes(index)["xaxis"]}
            for index, ((_, title), span) in enumerate(zip(words, spans, strict=True))
        ],
    )
    layout["shapes"].append(
        {"type": "circle", "name": "guide", "layer": "below", "xref": "x", "yref": "y", "line": {"width": 1.25}}
        | {"x0": -1, "x1": 1, "y0": -1, "y1": 1}
    )
    still = [_truth(numbers.truth) | panels.axes(0)] if numbers.truth else []
    still.append(_paths(numbers.moments) | panels.axes(1))
    parts = [tuple(at for at, group in enumerate(groups) if group == label) for label in sorted(set(groups))]
    moving = [_eigenvalues(bool(numbers.truth)) | panels.axes(0)]
    moving += [
        _states([numbers.names[at] for at in part], slot, grouped=len(parts) > 1) | panels.axes(1)
        for slot, part in enumerate(parts)
    ]
    frames = tuple(
        Frame(
            label=f"step {moment.step}",
            traces={
                len(still): _points([(value.real, value.imag) for value in moment.eigenvalues]),
                **{len(still) + 1 + slot: _points([moment.states[at] for at in part]) for slot, part in enumerate(parts)},
            },
        )
        for moment in numbers.moments
    )
    for index, fields in frames[-1].traces.items():
        moving[index - len(still)] |= fields
    return Figure(
        name=name,
        title="The core finds its place" + (f" ({numbers.where})" if numbers.where else ""),
        caption=_caption(numbers),
        alt=_alt(numbers),
        plot={"data": still + moving, "layout": layout},
        columns=("step", "what", "name", "group", "real part, or first direction", "imaginary part, or second direction"),
        rows=tuple(_rows(numbers, groups)),
        frames=frames,
        slider=SLIDER,
    )


def _axis(title: str, span: float) -> dict[str, Any]:
    # Both axes of a plane get one grid, of squares, wide enough apart for the numbers of a phone.
    decade = 10 ** math.floor(math.log10(0.6 * span))
    step = next(step for step in (5 * decade, 2 * decade, decade) if step <= 0.6 * span)
    return {"title": {"text": title}, "range": [-span, span], "dtick": step, "zeroline": True, "constrain": "domain"}


def _points(places: Sequence[tuple[float, float]]) -> dict[str, Any]:
    return {"x": [x for x, _ in places], "y": [y for _, y in places]}


def _truth(values: Sequence[complex]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        **_points([(value.real, value.imag) for value in values]),
        "name": "the task's eigenvalues",
        "showlegend": True,
        "marker": {"symbol": "cross-thin-open", "size": 24, "line": {"width": 1.75}},
        "hovertemplate": "%{x:.4f} %{y:+.4f}i<extra>the task's</extra>",
        "meta": meta(0, "reference"),
    }


def _eigenvalues(has_truth: bool) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "the core's eigenvalues",
        "showlegend": has_truth,
        "marker": {"symbol": "circle", "size": 12, "opacity": 0.85, "line": {"width": 1}},
        "hovertemplate": "%{x:.4f} %{y:+.4f}i<extra>the core's</extra>",
        "meta": meta(0, "core"),
    }


def _states(names: Sequence[str], slot: int, *, grouped: bool) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers+text",
        "text": list(names),
        "textposition": "top center",
        "textfont": {"size": 11},
        "name": f"states {', '.join(names)}",
        "showlegend": grouped,
        # The path and a state at the edge of the plane are part of the picture.
        "cliponaxis": False,
        "marker": {"symbol": symbol(slot, "core"), "size": 10, "line": {"width": 1}},
        "hovertemplate": "%{x:.4f}, %{y:.4f}<extra>state %{text}</extra>",
        "meta": meta(slot, "core"),
    }


def _paths(moments: Sequence[CoreMoment]) -> dict[str, Any]:
    """The way of every state in one trace, with a gap between two."""
    ways = [way for states in zip(*(moment.states for moment in moments), strict=True) for way in (*states, (None, None))]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [x for x, _ in ways],
        "y": [y for _, y in ways],
        "name": "way of each state",
        "showlegend": True,
        "hoverinfo": "skip",
        "opacity": 0.55,
        "line": {"width": 1, "dash": "dot"},
        "meta": meta(0, "reference"),
    }


def _rows(numbers: CoreOverTraining, groups: Sequence[int]) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = [(None, "the task's eigenvalue", None, None, v.real, v.imag) for v in numbers.truth]
    for moment in numbers.moments:
        rows += [(moment.step, "eigenvalue", str(index + 1), None, v.real, v.imag) for index, v in enumerate(moment.eigenvalues)]
        rows += [
            (moment.step, "state", label, group + 1 if numbers.groups else None, x, y)
            for label, group, (x, y) in zip(numbers.names, groups, moment.states, strict=True)
        ]
    return rows


def _caption(numbers: CoreOverTraining) -> str:
    alike = f" Colour and symbol: {numbers.grouped_by}." if numbers.groups and numbers.grouped_by else ""
    return (
        "Move the slider to see one checkpoint after another; axes stand still. First, in the complex plane: eigenvalues of the "
        "operator fitted in the core (dots), the task's (crosses), and the circle of modulus 1. Then the mean core coordinates "
        "of each state in the first two directions of the last checkpoint's core; every earlier core is turned onto that one by "
        "the rotation that fits best (orthogonal Procrustes, no stretching). Dotted: the way of each state from the first "
        f"checkpoint to the last.{alike} {numbers.note}"
    ).strip()


def _alt(numbers: CoreOverTraining) -> str:
    first, last = numbers.moments[0], numbers.moments[-1]
    parts = [
        f"Two planes with a slider over {len(numbers.moments)} checkpoints from step {first.step} to step {last.step}. "
        "In the complex plane the eigenvalues of the operator in the core"
        + (f"; the task's are {_text(numbers.truth)}." if numbers.truth else ".")
    ]
    parts += [f"At step {moment.step} the core's are {_text(moment.eigenvalues) or 'none'}." for moment in (first, last)]
    spreads = [max((x * x + y * y) ** 0.5 for x, y in moment.states) for moment in (first, last)]
    parts.append(
        f"In the plane of the core {len(numbers.names)} states, the outermost {spreads[0]:.2g} from its centre at step "
        f"{first.step} and {spreads[1]:.2g} at step {last.step}."
    )
    return " ".join(parts)


def _text(values: Sequence[complex]) -> str:
    return ", ".join(f"{v.real:.3f}" if abs(v.imag) < 5e-4 else f"{v.real:.3f}{v.imag:+.3f}i" for v in values)
