"""Follow curves: what a core is at every checkpoint, against the training step; ranks, overlap, and error of the spectrum.

Four small panels. The causal ranks say when the computation has become small, the overlap with the
last checkpoint's core when it has found its place (chance, k/D, is drawn beside it), and the spectrum error when the operator
in it has become the task's.

>>> curve = FollowCurve(
...     name="seed 0", steps=(100, 200), sufficient=(None, 3), necessary=(None, 3), energy=(9, 4), overlap=(0.4, 1.0),
...     spectrum_error=(0.3, 0.01), spectrum_low=(0.2, 0.005), spectrum_high=(0.4, 0.02),
... )
>>> draw_follow_curves(FollowCurves(curves=(curve,), overlap_chance=0.047)).rows[-1]
('seed 0', 200, 3, 3, 4, 1.0, 0.01, 0.005, 0.02)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from invariscope.figures.figure import Figure
from invariscope.figures.frames import Frame
from invariscope.figures.marks import MAX_POINTS, Role, check_lengths, check_some, dash, interval_bars, meta, slots, symbol, thin
from invariscope.figures.panels import DASH_SIGNS, Panels, level_line, panel_key

if TYPE_CHECKING:
    from invariscope.cores import CoreSeries

__all__ = ["FollowCurve", "FollowCurves", "draw_follow_curves"]

PANELS = ("rank that suffices", "rank that is necessary", "overlap with the last core", "spectrum error")
MAX_RANK_TICKS = 12
SLIDER = "Training step"
UNITS = ("directions", "directions", "overlap", "largest error")


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowCurve:
    """One run's series; every sequence holds one value a step, None where there is none.

    Args:
        name: the run, such as ``seed 0``.
        steps: of its checkpoints.
        sufficient, necessary: causal ranks.
        energy: rank by 99.9 % of the energy, in the table only: it is printed, never judged by.
        overlap: of the core's span with the last checkpoint's, in [0, 1].
        spectrum_error: largest distance of an eigenvalue from the task's. spectrum_low, spectrum_high: its interval.
        role: ``core``, or ``control`` for a model trained on something else.
    """

    name: str
    steps: tuple[int, ...]
    sufficient: tuple[int | None, ...]
    necessary: tuple[int | None, ...]
    energy: tuple[int | None, ...]
    overlap: tuple[float | None, ...]
    spectrum_error: tuple[float | None, ...]
    spectrum_low: tuple[float | None, ...]
    spectrum_high: tuple[float | None, ...]
    role: Role = "core"

    @classmethod
    def from_series(cls, series: CoreSeries, *, name: str, role: Role = "core") -> FollowCurve:
        """What :func:`invariscope.cores.follow_core` found, as one curve."""
        found = series.checkpoints
        errors = [one.spectrum_error for one in found]
        return cls(
            name=name,
            steps=tuple(one.step for one in found),
            sufficient=tuple(one.sufficient for one in found),
            necessary=tuple(one.necessary for one in found),
            energy=tuple(one.energy_999 for one in found),
            overlap=tuple(one.overlap.value for one in found),
            spectrum_error=tuple(None if error is None else error.value for error in errors),
            spectrum_low=tuple(None if error is None else error.low for error in errors),
            spectrum_high=tuple(None if error is None else error.high for error in errors),
            role=role,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowCurves:
    """The numbers of a follow figure.

    Args:
        curves: in the order of the legend.
        overlap_chance: what two random spans of these ranks overlap, k/D; None where it is not drawn.
        expected_rank: the task's own, where it is known.
        spectrum_mark: an error to compare with.
        cursor: a line through all panels that a slider moves from checkpoint to checkpoint.
        where: the site and the model, for the title.
        note: a sentence for the end of the caption.
    """

    curves: tuple[FollowCurve, ...]
    overlap_chance: float | None = None
    expected_rank: int | None = None
    spectrum_mark: float | None = None
    cursor: bool = False
    where: str = ""
    note: str = ""


def draw_follow_curves(numbers: FollowCurves, *, name: str = "follow_curves") -> Figure:
    """Draw causal ranks, overlap and spectrum error against the step, one panel each.

    Args:
        numbers: what to draw.
        name: the figure's file name.

    Returns:
        The figure; its table has one row a checkpoint. Series above :data:`MAX_POINTS` checkpoints are thinned, and the caption
        says so.

    Raises:
        TooFewSamplesError: without any curve, or one without steps.
        ShapeError: where a curve has not one value a step.
    """
    check_some(name, "curves", numbers.curves)
    for curve in numbers.curves:
        check_some(name, f"steps in curve {curve.name!r}", curve.steps)
        check_lengths(f"curve {curve.name!r}", **{field: getattr(curve, field) for field in _SEQUENCES})
    drawn = tuple(
        dataclasses.replace(curve, **{f: tuple(thin(getattr(curve, f))) for f in _SEQUENCES}) for curve in numbers.curves
    )
    slot_of = slots([(curve.name, curve.role) for curve in drawn])
    panels = Panels(titles=PANELS, columns=2, height_pixels=230)
    x = {"title": {"text": "training step"}, "rangemode": "tozero"}
    whole: dict[str, Any] = {"rangemode": "tozero", "exponentformat": "none"}
    axes = [{"title": {"text": unit}} | whole for unit in UNITS]
    axes[2]["range"] = [0, 1.05]
    # A spectrum error may stay within one decade, where a tick a decade leaves an axis without numbers.
    axes[3] |= {"type": "log", "dtick": "D2"}
    ranks = [rank or 0 for curve in drawn for rank in (*curve.sufficient, *curve.necessary)]
    for axis in axes[:2]:
        axis |= {"dtick": 1} if max(ranks) <= MAX_RANK_TICKS else {}
    layout = panels.layout(x=x, y=axes)
    for index, value, label in (
        (0, numbers.expected_rank, "the task's"),
        (1, numbers.expected_rank, "the task's"),
        (2, numbers.overlap_chance, "chance"),
        (3, numbers.spectrum_mark, "mark"),
    ):
        if value is not None:
            layout["shapes"].append(level_line(index, value))
            layout["annotations"].append(panel_key(index, f"{DASH_SIGNS['dash']} {label} {value:.3g}"))
    traces = [trace for curve in drawn for trace in _traces(curve, slot_of[curve.name], panels)]
    frames: tuple[Frame, ...] = ()
    if numbers.cursor:
        _hold_still(layout, drawn, numbers)
        steps = sorted({step for curve in drawn for step in curve.steps})
        first = len(traces)
        traces += [_cursor(index, steps[-1], layout, panels) for index in range(len(PANELS))]
        frames = tuple(
            Frame(label=f"step {step}", traces={first + index: {"x": [step, step]} for index in range(len(PANELS))})
            for step in steps
        )
    return Figure(
        name=name,
        title="The core over training" + (f" ({numbers.where})" if numbers.where else ""),
        caption=_caption(numbers),
        alt=_alt(numbers.curves),
        frames=frames,
        slider=SLIDER if frames else "",
        plot={"data": traces, "layout": layout},
        columns=(
            "model",
            "step",
            "rank that suffices",
            "rank that is necessary",
            "rank by 99.9 % of the energy",
            "overlap with the last core",
            "spectrum error",
            "spectrum error, low",
            "spectrum error, high",
        ),
        rows=tuple(
            (curve.name, *values)
            for curve in drawn
            for values in zip(*(getattr(curve, field) for field in _SEQUENCES), strict=True)
        ),
    )


_SEQUENCES = (
    "steps",
    "sufficient",
    "necessary",
    "energy",
    "overlap",
    "spectrum_error",
    "spectrum_low",
    "spectrum_high",
)


def _traces(curve: FollowCurve, slot: int, panels: Panels) -> list[dict[str, Any]]:
    # Zero has no place on the logarithmic axis.
    error = [value if value is not None and value > 0 else None for value in curve.spectrum_error]
    bars = interval_bars(
        [value or 0.0 for value in error],
        [None if value is None else low for value, low in zip(error, curve.spectrum_low, strict=True)],
        [None if value is None else high for value, high in zip(error, curve.spectrum_high, strict=True)],
    )
    traces = []
    for index, values in enumerate((curve.sufficient, curve.necessary, curve.overlap, error)):
        trace: dict[str, Any] = {
            "type": "scatter",
            "mode": "lines+markers",
            "x": list(curve.steps),
            "y": list(values),
            "name": curve.name,
            "legendgroup": curve.name,
            "showlegend": index == 0,
            "line": {"dash": dash(slot), "width": 2},
            "marker": {"symbol": symbol(slot, curve.role), "size": 7},
            "hovertemplate": f"step %{{x}}: %{{y:.3g}}<extra>{curve.name}</extra>",
            "meta": meta(slot, curve.role),
            **panels.axes(index),
        }
        if index < 2:
            # A rank is what it is until the next checkpoint says otherwise.
            trace["line"] |= {"shape": "hv"}
        if index == 3 and bars is not None:
            trace["error_y"] = bars
        traces.append(trace)
    return traces


def _hold_still(layout: dict[str, Any], curves: Sequence[FollowCurve], numbers: FollowCurves) -> None:
    """Give every axis the range of all that is drawn: axes that fit themselves to the data would move with the cursor."""
    last = max(step for curve in curves for step in curve.steps)
    errors = [
        value
        for curve in curves
        for value in (*curve.spectrum_error, *curve.spectrum_low, *curve.spectrum_high, numbers.spectrum_mark)
        if value is not None and value > 0
    ]
    ranks = [rank or 0 for curve in curves for rank in (*curve.sufficient, *curve.necessary, numbers.expected_rank)]
    decades = [math.log10(value) for value in errors] or [-1.0, 0.0]
    heights = [[0, max(ranks) + 1], [0, max(ranks) + 1], [0, 1.05], [round(min(decades) - 0.1, 3), round(max(decades) + 0.1, 3)]]
    for index, height in enumerate(heights):
        suffix = "" if index == 0 else str(index + 1)
        layout[f"xaxis{suffix}"]["range"] = [round(-0.03 * last, 3), round(1.03 * last, 3)]
        layout[f"yaxis{suffix}"]["range"] = height


def _cursor(index: int, step: int, layout: dict[str, Any], panels: Panels) -> dict[str, Any]:
    axis = layout[f"yaxis{'' if index == 0 else index + 1}"]
    # The range of a logarithmic axis is in powers of ten, its points are not.
    ends = [10**end for end in axis["range"]] if axis.get("type") == "log" else axis["range"]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [step, step],
        "y": list(ends),
        "name": "the step chosen",
        "showlegend": False,
        "hoverinfo": "skip",
        "line": {"width": 1.5},
        "meta": meta(0, "reference"),
        **panels.axes(index),
    }


def _caption(numbers: FollowCurves) -> str:
    parts = [
        "One line a run (colour, symbol and dash), one symbol a checkpoint. First the smallest rank whose core alone suffices, "
        "and the smallest whose removal reaches chance; a gap where no rank does or the model is not better than chance; then "
        "the overlap of the core's span with that of the last checkpoint, 1 for the same span, and the largest distance of an "
        "eigenvalue of the operator in the core from the task's, with its 95 % interval, on a logarithmic axis."
    ]
    if numbers.cursor:
        parts.append("The slider moves the upright line from checkpoint to checkpoint.")
    zero = sum(value is not None and value <= 0 for curve in numbers.curves for value in curve.spectrum_error)
    if zero:
        parts.append(f"{zero} errors of zero have no place on a logarithmic axis; the table has them.")
    longest = max(len(curve.steps) for curve in numbers.curves)
    if longest > MAX_POINTS:
        parts.append(
            f"Thinned from up to {longest} to {MAX_POINTS} checkpoints a run, evenly; the table holds those that are drawn."
        )
    return " ".join([*parts, numbers.note]).strip()


def _alt(curves: Sequence[FollowCurve]) -> str:
    parts = ["Four line charts against the training step: causal ranks, overlap with the last core, spectrum error."]
    for curve in curves:
        ends = [
            f"{what} from {_text(values[0])} to {_text(values[-1])}"
            for what, values in (
                ("sufficient rank", curve.sufficient),
                ("necessary rank", curve.necessary),
                ("overlap", curve.overlap),
                ("spectrum error", curve.spectrum_error),
            )
        ]
        parts.append(f"{curve.name}, step {curve.steps[0]} to {curve.steps[-1]}: {', '.join(ends)}.")
    return " ".join(parts)


def _text(value: float | None) -> str:
    return "none" if value is None else f"{value:.2g}"
