"""Value histograms: how values of several kinds are spread, such as cosines of pairs that belong together and of shuffled ones.

Means hide whether two kinds overlap. One panel a place where both are measured, one outline a kind.

>>> bars = tuple(
...     ValueBars(panel="pre-activations", label=label, counts=counts, role=role)
...     for label, counts, role in (("same sum", (0, 0, 8), "core"), ("other sums", (3, 5, 0), "control"))
... )
>>> numbers = ValueHistogram(edges=(-1, -0.3, 0.3, 1), bars=bars, title="Cosines", quantity="cosine", counted="pairs")
>>> draw_value_histogram(numbers).rows[2]
('pre-activations', 'same sum', 0.3, 1, 8)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from invariscope.errors import ShapeError
from invariscope.figures.figure import Figure
from invariscope.figures.marks import Role, check_some, dash, meta, pattern, slots
from invariscope.figures.panels import Panels, panel_key

__all__ = ["ValueBars", "ValueHistogram", "draw_value_histogram", "outline_trace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueBars:
    """Values of one kind in one panel.

    Args:
        panel: where they were measured. label: their kind. counts: values a bin.
        role: ``core``, or ``control`` for what it is compared with.
    """

    panel: str
    label: str
    counts: tuple[int, ...]
    role: Role = "core"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueHistogram:
    """What the figure shows.

    Args:
        edges: of the bins, one more than counts, the same in every panel; the outermost bins hold what lies beyond them.
        bars: by panel and kind, in the order of the legend.
        title: of the figure.
        quantity: what the horizontal axis shows, with its unit. counted: what the vertical axis counts, such as ``pairs``.
        keys: a short text by panel, such as the means there.
        columns: panels side by side on a wide page.
        note: a sentence for the end of the caption.
    """

    edges: tuple[float, ...]
    bars: tuple[ValueBars, ...]
    title: str
    quantity: str
    counted: str
    keys: Mapping[str, str] = field(default_factory=dict)
    columns: int = 2
    note: str = ""


def draw_value_histogram(numbers: ValueHistogram, *, name: str = "value_histogram") -> Figure:
    """Draw one panel a place, one outline a kind of value.

    Args:
        numbers: what to draw.
        name: the figure's file name.

    Returns:
        The figure; its table has one row a panel, kind and bin.

    Raises:
        TooFewSamplesError: without any bars. ShapeError: where counts are not one a bin.
    """
    check_some(name, "bars", numbers.bars)
    for bars in numbers.bars:
        if len(bars.counts) != len(numbers.edges) - 1:
            raise ShapeError(
                f"{len(bars.counts)} counts of {bars.label!r} in {bars.panel!r} between {len(numbers.edges)} edges",
                expected=f"{len(numbers.edges) - 1} counts",
                do="give one count a bin",
            )
    titles = tuple(dict.fromkeys(bars.panel for bars in numbers.bars))
    slot_of = slots([(bars.label, bars.role) for bars in numbers.bars])
    panels = Panels(titles=titles, columns=numbers.columns, height_pixels=210, narrow_height_pixels=190)
    layout = panels.layout(
        x={"title": {"text": numbers.quantity}, "range": [numbers.edges[0], numbers.edges[-1]]},
        y=[{"title": {"text": numbers.counted}, "range": [0, 1.08 * _most(numbers, title)]} for title in titles],
    )
    layout["annotations"] += [
        panel_key(index, numbers.keys[title]) for index, title in enumerate(titles) if title in numbers.keys
    ]
    traces: list[dict[str, Any]] = []
    seen: set[str] = set()
    for bars in numbers.bars:
        trace = outline_trace(
            numbers.edges,
            bars.counts,
            label=bars.label,
            slot=slot_of[bars.label],
            role=bars.role,
            shown=bars.label not in seen,
            what=numbers.counted,
        )
        traces.append(trace | panels.axes(titles.index(bars.panel)))
        seen.add(bars.label)
    bins = list(zip(numbers.edges[:-1], numbers.edges[1:], strict=True))
    counted = numbers.counted.capitalize()
    return Figure(
        name=name,
        title=numbers.title,
        caption=f"{counted} by {numbers.quantity}; one outline a kind (colour, dash and hatching). {numbers.note}".strip(),
        alt=_alt(numbers, bins),
        plot={"data": traces, "layout": layout},
        columns=("panel", "kind", "from", "to", numbers.counted),
        rows=tuple(
            (bars.panel, bars.label, *edge, count) for bars in numbers.bars for edge, count in zip(bins, bars.counts, strict=True)
        ),
    )


def outline_trace(
    edges: Sequence[float], counts: Sequence[int], *, label: str, slot: int, shown: bool, what: str, role: Role = "core"
) -> dict[str, Any]:
    """One histogram as an outline with a hatching, still without its panel.

    Args:
        edges, counts: of its bins, from below.
        label: in the legend, where it is ``shown``.
        slot, role: of the palette.
        what: what is counted.
    """
    # Where two kinds lie on one another, one is seen through the other's hatching.
    hatched = pattern(slot, role) if slot == 0 or role == "control" else pattern(slot - 1, "control")
    return {
        "type": "scatter",
        "mode": "lines",
        **_outline(edges, counts),
        "name": label,
        "legendgroup": label,
        "showlegend": shown,
        "line": {"shape": "hv", "width": 2, "dash": dash(slot if role == "core" else slot + 1)},
        "fill": "tozeroy",
        "fillpattern": {"shape": hatched, "size": 6},
        "hovertemplate": f"from %{{x:.2f}}: %{{y}} {what}<extra>{label}</extra>",
        "meta": meta(slot, role),
    }


def _outline(edges: Sequence[float], counts: Sequence[int]) -> dict[str, list[float]]:
    """The steps from the first to the last bin that holds a value: beyond, a line on the axis would hide the other kind's."""
    filled = [index for index, count in enumerate(counts) if count]
    if not filled:
        return {"x": [], "y": []}
    first, last = filled[0], filled[-1]
    # A step holds from its left edge; the two ends stand on the axis.
    return {"x": [edges[first], *edges[first : last + 2]], "y": [0, *counts[first : last + 1], 0]}


def _most(numbers: ValueHistogram, panel: str) -> int:
    return max(1, *(count for bars in numbers.bars if bars.panel == panel for count in bars.counts))


def _alt(numbers: ValueHistogram, bins: list[tuple[float, float]]) -> str:
    panels = list(dict.fromkeys(bars.panel for bars in numbers.bars))
    parts = [f"Histograms of {numbers.quantity}, one panel each for {', '.join(panels)}."]
    for bars in numbers.bars:
        total = sum(bars.counts)
        if total:
            centre = sum(count * (low + high) / 2 for count, (low, high) in zip(bars.counts, bins, strict=True)) / total
            parts.append(f"{bars.panel}, {bars.label}: {total} {numbers.counted}, mean about {centre:.2g}.")
    parts += [f"{panel}: {text}." for panel, text in numbers.keys.items()]
    return " ".join(parts)
