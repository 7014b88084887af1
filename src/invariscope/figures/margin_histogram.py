"""Margin histograms: how the margin of an answer is spread over prompts of each class, unedited and under each edit.

Keep should leave two classes apart as they were, remove lay them on one another at the middle, flip exchange them. Accuracy alone
hides a margin that has shrunk to nothing; here it is seen.

>>> bars = MarginBars(panel="flip", label="plural", counts=(3, 0, 1))
>>> figure = draw_margin_histogram(MarginHistogram(edges=(-3, -1, 1, 3), bars=(bars,), title="Margins", unit="logits"))
>>> figure.rows[0]
('flip', 'plural', -3, -1, 3)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from invariscope.errors import ShapeError
from invariscope.figures.figure import Figure
from invariscope.figures.marks import check_some
from invariscope.figures.panels import Panels, panel_key, rank_line
from invariscope.figures.value_histogram import outline_trace

__all__ = ["MarginBars", "MarginHistogram", "draw_margin_histogram"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginBars:
    """Prompts of one class under one edit.

    Args:
        panel: the edit. label: the class. counts: prompts a bin.
    """

    panel: str
    label: str
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginHistogram:
    """What the figure shows.

    Args:
        edges: of the bins, one more than counts, the same in every panel.
        bars: by panel and class, in the order of the legend.
        title: of the figure. unit: of the margin.
        keys: a short text by panel, such as the area under the curve there.
        note: a sentence for the end of the caption.
    """

    edges: tuple[float, ...]
    bars: tuple[MarginBars, ...]
    title: str
    unit: str
    keys: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


def draw_margin_histogram(numbers: MarginHistogram, *, name: str = "margin_histogram") -> Figure:
    """Draw one panel an edit, one outline a class.

    Args:
        numbers: what to draw.
        name: the figure's file name.

    Returns:
        The figure; its table has one row a class, panel and bin.

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
    labels = list(dict.fromkeys(bars.label for bars in numbers.bars))
    panels = Panels(titles=titles, columns=2, height_pixels=190, narrow_height_pixels=190)
    most = max(count for bars in numbers.bars for count in bars.counts)
    layout = panels.layout(
        x={"title": {"text": f"margin ({numbers.unit})"}, "range": [numbers.edges[0], numbers.edges[-1]]},
        y={"title": {"text": "prompts"}, "range": [0, 1.08 * max(most, 1)]},
    )
    for index, title in enumerate(titles):
        layout["shapes"].append(rank_line(index, 0.0))
        if title in numbers.keys:
            layout["annotations"].append(panel_key(index, numbers.keys[title]))
    traces: list[dict[str, Any]] = []
    seen: set[str] = set()
    for bars in numbers.bars:
        trace = outline_trace(
            numbers.edges,
            bars.counts,
            label=bars.label,
            slot=labels.index(bars.label),
            shown=bars.label not in seen,
            what="prompts",
        )
        traces.append(trace | panels.axes(titles.index(bars.panel)))
        seen.add(bars.label)
    bins = list(zip(numbers.edges[:-1], numbers.edges[1:], strict=True))
    return Figure(
        name=name,
        title=numbers.title,
        caption=f"Held-out prompts by margin, {numbers.unit}; one outline a class (colour, dash and "
        f"hatching), one panel an edit; the "
        f"dotted upright is no preference. The outermost bins hold what lies beyond them. {numbers.note}".strip(),
        alt=_alt(numbers, bins),
        plot={"data": traces, "layout": layout},
        columns=("edit", "class", "from", "to", "prompts"),
        rows=tuple(
            (bars.panel, bars.label, *edge, count) for bars in numbers.bars for edge, count in zip(bins, bars.counts, strict=True)
        ),
    )


def _alt(numbers: MarginHistogram, bins: list[tuple[float, float]]) -> str:
    parts = ["Histograms of margins, one panel an edit."]
    for bars in numbers.bars:
        total = sum(bars.counts)
        if total:
            centre = sum(count * (low + high) / 2 for count, (low, high) in zip(bars.counts, bins, strict=True)) / total
            parts.append(f"{bars.panel}, {bars.label}: {total} prompts, mean about {centre:.2g}.")
    parts += [f"{panel}: {text}." for panel, text in numbers.keys.items()]
    return " ".join(parts)
