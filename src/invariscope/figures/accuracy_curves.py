"""Accuracy curves: several pools of a task over training, with the phases in which they come.

One panel a group of pools, one line a pool: the median over seeds, with a band from the worst to the best. What was learnt when
is read off the order of the lines; upright bands say when each phase came. Any share that is followed over training can be
drawn beside them: how right an answer is, how well a circuit works.

>>> curve = AccuracyCurve.over_seeds(panel="held-out sums", name="one variable", steps=(0, 50), runs=((0.1, 0.5), (0.1, 0.9)))
>>> curve.values, curve.lows, curve.highs
((0.1, 0.7), (0.1, 0.5), (0.1, 0.9))
>>> figure = draw_accuracy_curves(AccuracyCurves(curves=(curve,), title="Pools", phases=(("routing", 20, 40),), chance=0.1))
>>> figure.rows[-1]
('held-out sums', 'one variable', 50, 0.7, 0.5, 0.9)
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from invariscope.figures.figure import Cell, Figure
from invariscope.figures.frames import Frame
from invariscope.figures.marks import MAX_POINTS, Role, check_lengths, check_some, dash, meta, slots, symbol, thin
from invariscope.figures.panels import DASH_SIGNS, Panels, level_line, panel_key

__all__ = ["AccuracyCurve", "AccuracyCurves", "draw_accuracy_curves"]

LABEL_ROOM = 0.075
"""Height of the name of one phase above the curves, as a share of the axis from 0 to 1."""
EDGE = 0.15
"""Share of the axis at whose ends the name of a phase stands inside, not over the middle of its band."""
FEW_POINTS = 30
"""Up to so many points, each has a symbol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyCurve:
    """One line.

    Args:
        panel: the group of pools. name: the pool or measure.
        steps: of the training.
        values: one a step, None where there is none.
        lows, highs: ends of the band, one a step; empty without a band.
        role: ``core``, or ``control`` for what the others are compared with.
    """

    panel: str
    name: str
    steps: tuple[int, ...]
    values: tuple[float | None, ...]
    lows: tuple[float | None, ...] = ()
    highs: tuple[float | None, ...] = ()
    role: Role = "core"

    @classmethod
    def over_seeds(
        cls, *, panel: str, name: str, steps: Sequence[int], runs: Sequence[Sequence[float | None]], role: Role = "core"
    ) -> AccuracyCurve:
        """The median of several runs, with a band from the least to the most; a single run has no band.

        Args:
            panel, name, steps, role: as in the class.
            runs: one sequence a seed, of one value a step; None where a seed has none.
        """
        check_some(name, "runs", runs)
        for run in runs:
            check_lengths(f"curve {name!r}", steps=steps, run=run)
        at = [[value for value in found if value is not None] for found in zip(*runs, strict=True)]
        several = len(runs) > 1
        return cls(
            panel=panel,
            name=name,
            steps=tuple(steps),
            values=tuple(statistics.median(found) if found else None for found in at),
            lows=tuple(min(found, default=None) for found in at) if several else (),
            highs=tuple(max(found, default=None) for found in at) if several else (),
            role=role,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyCurves:
    """The numbers of the figure.

    Args:
        curves: in the order of the legend.
        title: of the figure.
        quantity: what the vertical axis shows.
        chance: what guessing reaches, drawn through every panel; None: not drawn.
        mark: a value to compare with. mark_label: what it is.
        phases: name, first and last step of each; drawn through every panel that is not in ``own_phases``.
        own_phases: by panel, phases of its own, or none.
        keys: a short text by panel.
        unit_axis: whether the vertical axis goes from 0 to 1; otherwise it fits the values.
        x_title: what the steps are.
        band: what the bands are, for the caption.
        subject: the caption's first sentence. note: a sentence for its end.
        columns: panels side by side on a wide page.
        moments: step and a sentence each, for a slider that goes through the training and says them; two or more, or none.
    """

    curves: tuple[AccuracyCurve, ...]
    title: str
    quantity: str = "accuracy"
    chance: float | None = None
    mark: float | None = None
    mark_label: str = "mark"
    phases: tuple[tuple[str, float, float], ...] = ()
    own_phases: Mapping[str, tuple[tuple[str, float, float], ...]] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    unit_axis: bool = True
    x_title: str = "training step"
    band: str = "the median of all seeds, with a band from the lowest to the highest"
    subject: str = ""
    note: str = ""
    columns: int = 2
    moments: tuple[tuple[int, str], ...] = ()


def draw_accuracy_curves(numbers: AccuracyCurves, *, name: str = "accuracy_curves") -> Figure:
    """Draw shares against the training step, one panel a group.

    Args:
        numbers: what to draw.
        name: the figure's file name.

    Returns:
        The figure; its table has one row a moment in words, then one a drawn point. Lines above :data:`MAX_POINTS` points are
        thinned, and the caption says so.

    Raises:
        TooFewSamplesError: without any curve, or one without steps.
        ShapeError: where a curve has not one value, or end of its band, a step.
    """
    check_some(name, "curves", numbers.curves)
    for curve in numbers.curves:
        check_some(name, f"steps in curve {curve.name!r}", curve.steps)
        bands = {"lows": curve.lows, "highs": curve.highs} if curve.lows or curve.highs else {}
        check_lengths(f"curve {curve.name!r} in {curve.panel!r}", steps=curve.steps, values=curve.values, **bands)
    titles = tuple(dict.fromkeys(curve.panel for curve in numbers.curves))
    slot_of = slots([(curve.name, curve.role) for curve in numbers.curves])
    panels = Panels(titles=titles, columns=min(numbers.columns, len(titles)), height_pixels=260, narrow_height_pixels=230)
    layout = panels.layout(
        x=[{"title": {"text": numbers.x_title}, "range": _x_range(numbers, title)} for title in titles],
        y=[{"title": {"text": numbers.quantity}} | _y_axis(numbers, title) for title in titles],
    )
    lines = [("dash", "chance", numbers.chance), ("dot", numbers.mark_label, numbers.mark)]
    for index, title in enumerate(titles):
        drawn = [(sign, text, value) for sign, text, value in lines if value is not None]
        layout["shapes"] += [level_line(index, value, dash=sign) for sign, _, value in drawn]
        texts = [f"{DASH_SIGNS[sign]} {text} {value:.3g}" for sign, text, value in drawn]
        texts += [numbers.keys[title]] if title in numbers.keys else []
        layout["annotations"] += [panel_key(index, ", ".join(texts))] if texts else []
        for row, phase in enumerate(_phases(numbers, title)):
            layout["shapes"].append(_phase_band(index, phase))
            layout["annotations"].append(_phase_name(index, row, phase, _x_range(numbers, title)))
    drawn_curves = [(curve, thin(_points(curve))) for curve in numbers.curves]
    bands = [
        _band(curve, points, slot_of[curve.name]) | panels.axes(titles.index(curve.panel))
        for curve, points in drawn_curves
        if curve.lows
    ]
    seen: set[str] = set()
    traces: list[dict[str, Any]] = []
    for curve, points in drawn_curves:
        line = _line(curve, points, slot_of[curve.name], numbers.quantity, shown=curve.name not in seen)
        traces.append(line | panels.axes(titles.index(curve.panel)))
        seen.add(curve.name)
    rows: list[tuple[Cell, ...]] = [("in words", text, step, None, None, None) for step, text in numbers.moments]
    rows += [(curve.panel, curve.name, *point) for curve, points in drawn_curves for point in points]
    # Bands lie under all lines, and the line that moves over them.
    data = bands + traces
    first_moving = len(data)
    for index, title in enumerate(titles if numbers.moments else ()):
        low, high = _y_range(numbers, title)
        layout["yaxis" if index == 0 else f"yaxis{index + 1}"]["range"] = [low, high]
        data.append(_moment_line(numbers.moments[-1][0], low, high) | panels.axes(index))
    frames = tuple(
        Frame(label=text, traces={first_moving + index: {"x": [step, step]} for index in range(len(titles))})
        for step, text in numbers.moments
    )
    return Figure(
        name=name,
        title=numbers.title,
        caption=_caption(numbers),
        alt=_alt(numbers, titles),
        plot={"data": data, "layout": layout},
        columns=("panel", "line", numbers.x_title, numbers.quantity, "lowest", "highest"),
        rows=tuple(rows),
        frames=frames,
        slider="Training, in words" if frames else "",
    )


Point = tuple[int, float | None, float | None, float | None]


def _points(curve: AccuracyCurve) -> list[Point]:
    gaps: tuple[None, ...] = (None,) * len(curve.steps)
    return list(zip(curve.steps, curve.values, curve.lows or gaps, curve.highs or gaps, strict=True))


def _phases(numbers: AccuracyCurves, panel: str) -> tuple[tuple[str, float, float], ...]:
    return numbers.own_phases.get(panel, numbers.phases)


def _x_range(numbers: AccuracyCurves, panel: str) -> list[float]:
    steps = [step for curve in numbers.curves if curve.panel == panel for step in curve.steps]
    steps += [round(end) for _, low, high in _phases(numbers, panel) for end in (low, high)]
    # Everything from the start, but no empty half where a figure shows the middle of a training only.
    first = min(steps) if not _phases(numbers, panel) and min(steps) > 0.2 * max(steps) else 0
    room = 0.02 * (max(steps) - first or 1)
    return [round(first - room, 3), round(max(steps) + room, 3)]


def _y_axis(numbers: AccuracyCurves, panel: str) -> dict[str, Any]:
    if not numbers.unit_axis:
        return {"zeroline": True}
    headroom = LABEL_ROOM * len(_phases(numbers, panel))
    return {"range": [-0.03, round(1.05 + headroom, 3)], "tickvals": [0, 0.25, 0.5, 0.75, 1]}


def _y_range(numbers: AccuracyCurves, panel: str) -> tuple[float, float]:
    """Of a panel whose axis must stand still: as it is, or around all that is drawn."""
    given = _y_axis(numbers, panel).get("range")
    if given is not None:
        return given[0], given[1]
    ends = [
        value
        for curve in numbers.curves
        if curve.panel == panel
        for value in (*curve.values, *curve.lows, *curve.highs)
        if value is not None
    ]
    low, high = min([*ends, 0.0]), max([*ends, 0.0])
    room = 0.05 * (high - low or 1.0)
    return round(low - room, 6), round(high + room, 6)


def _moment_line(step: int, low: float, high: float) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [step, step],
        "y": [low, high],
        "name": "the moment in words",
        "showlegend": False,
        "hoverinfo": "skip",
        "line": {"dash": "dot", "width": 1.5},
        "meta": {"slot": 0, "role": "reference"},
    }


def _phase_band(index: int, phase: tuple[str, float, float]) -> dict[str, Any]:
    suffix = "" if index == 0 else str(index + 1)
    return {
        "type": "rect",
        "name": "band",
        "layer": "below",
        "xref": f"x{suffix}",
        "yref": f"y{suffix} domain",
        "x0": phase[1],
        "x1": phase[2],
        "y0": 0,
        "y1": 1,
        # A phase that is known to the step is still seen.
        "line": {"width": 1},
    }


def _phase_name(index: int, row: int, phase: tuple[str, float, float], span: Sequence[float]) -> dict[str, Any]:
    """Above the curves, one line a phase, so that names of phases that are close do not meet."""
    suffix = "" if index == 0 else str(index + 1)
    text, low, high = phase
    share = ((low + high) / 2 - span[0]) / (span[1] - span[0])
    at, anchor = (low, "left") if share < EDGE else (high, "right") if share > 1 - EDGE else ((low + high) / 2, "center")
    return {
        "name": "phase",
        "text": text,
        "xref": f"x{suffix}",
        "yref": f"y{suffix} domain",
        "x": at,
        "y": 1,
        "xanchor": anchor,
        "yanchor": "top",
        "yshift": -1 - 14 * row,
        "borderpad": 0,
        "showarrow": False,
        "font": {"size": 11},
    }


def _band(curve: AccuracyCurve, points: Sequence[Point], slot: int) -> dict[str, Any]:
    there = [(step, low, high) for step, _, low, high in points if low is not None and high is not None]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [step for step, *_ in there] + [step for step, *_ in reversed(there)],
        "y": [high for *_, high in there] + [low for _, low, _ in reversed(there)],
        "name": curve.name,
        "legendgroup": curve.name,
        "showlegend": False,
        "hoverinfo": "skip",
        "fill": "toself",
        "line": {"width": 0},
        "meta": meta(slot, curve.role),
    }


def _line(curve: AccuracyCurve, points: Sequence[Point], slot: int, quantity: str, *, shown: bool) -> dict[str, Any]:
    few = len(points) <= FEW_POINTS
    return {
        "type": "scatter",
        "mode": "lines+markers" if few else "lines",
        "x": [step for step, *_ in points],
        "y": [value for _, value, *_ in points],
        "name": curve.name,
        "legendgroup": curve.name,
        "showlegend": shown,
        "line": {"dash": dash(slot if curve.role == "core" else slot + 1), "width": 2},
        **({"marker": {"symbol": symbol(slot, curve.role), "size": 7}} if few else {}),
        "hovertemplate": f"step %{{x}}: {quantity} %{{y:.3f}}<extra>{curve.name}</extra>",
        "meta": meta(slot, curve.role),
    }


def _caption(numbers: AccuracyCurves) -> str:
    quantity = numbers.quantity[:1].upper() + numbers.quantity[1:]
    parts = [numbers.subject or f"{quantity} against the {numbers.x_title}; one line a pool (colour and dash)."]
    if any(curve.lows for curve in numbers.curves):
        parts.append(f"Each line is {numbers.band}.")
    names = dict.fromkeys(name for phases in (numbers.phases, *numbers.own_phases.values()) for name, *_ in phases)
    if names:
        parts.append(f"Upright bands: {', '.join(names)}.")
    if numbers.moments:
        parts.append("The slider moves the upright line through the training and says in words what stands there.")
    longest = max(len(curve.steps) for curve in numbers.curves)
    if longest > MAX_POINTS:
        parts.append(f"Thinned from up to {longest} to {MAX_POINTS} points a line, evenly; the table holds those that are drawn.")
    return " ".join([*parts, numbers.note]).strip()


def _alt(numbers: AccuracyCurves, titles: tuple[str, ...]) -> str:
    parts = [f"Line chart of {numbers.quantity} against the {numbers.x_title}, one panel each for {', '.join(titles)}."]
    for curve in numbers.curves:
        there = [(step, value) for step, value in zip(curve.steps, curve.values, strict=True) if value is not None]
        if there:
            (first, start), (last, end) = there[0], there[-1]
            parts.append(f"{curve.panel}, {curve.name}: {start:.2g} at step {first}, {end:.2g} at step {last}.")
    parts += [f"{name.capitalize()} from step {low:.0f} to {high:.0f}." for name, low, high in numbers.phases]
    for panel, phases in numbers.own_phases.items():
        parts += [f"{panel}: {name} from step {low:.0f} to {high:.0f}." for name, low, high in phases]
    parts += [f"Chance {numbers.chance:.3g}."] if numbers.chance is not None else []
    return " ".join(parts)
