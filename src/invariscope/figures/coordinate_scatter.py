"""Coordinate against margin: does one number inside the model say how strongly it will answer, also within a class?

>>> points = ScatterPoints(panel="tiny", label="plural", x=(1.0, 2.0), y=(0.5, 1.5))
>>> numbers = CoordinateScatter(points=(points,), title="Coordinate", x_title="coordinate", y_title="margin (logits)")
>>> draw_coordinate_scatter(numbers).rows
(('tiny', 'plural', 1.0, 0.5), ('tiny', 'plural', 2.0, 1.5))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from invariscope.figures.figure import Figure
from invariscope.figures.marks import check_lengths, check_some, meta, symbol, thin
from invariscope.figures.panels import Panels, panel_key

__all__ = ["CoordinateScatter", "ScatterPoints", "draw_coordinate_scatter"]

MAX_SHOWN = 600
"""Points a panel: more lie on one another."""
FEW = 200
"""Points a panel above which symbols shrink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterPoints:
    """Prompts of one class.

    Args:
        panel: the model. label: the class. x, y: one entry a prompt.
    """

    panel: str
    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinateScatter:
    """What the figure shows.

    Args:
        points: by panel and class.
        title: of the figure. x_title, y_title: of the axes, with units.
        keys: a short text by panel, such as R².
        note: a sentence for the end of the caption.
    """

    points: tuple[ScatterPoints, ...]
    title: str
    x_title: str
    y_title: str
    keys: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


def draw_coordinate_scatter(numbers: CoordinateScatter, *, name: str = "coordinate_scatter") -> Figure:
    """Draw one panel a model, one symbol a class.

    Args:
        numbers: what to draw.
        name: the figure's file name.

    Returns:
        The figure; its table has one row a point. Above :data:`MAX_SHOWN` points a panel they are thinned, every class by the
        same factor; the caption says so and the table holds the points that are drawn.

    Raises:
        TooFewSamplesError: without any points. ShapeError: where x and y differ in length.
    """
    check_some(name, "points", numbers.points)
    for points in numbers.points:
        check_lengths(f"{points.label!r} in {points.panel!r}", x=points.x, y=points.y)
    titles = tuple(dict.fromkeys(points.panel for points in numbers.points))
    labels = list(dict.fromkeys(points.label for points in numbers.points))
    panels = Panels(titles=titles, columns=2, height_pixels=300)
    layout = panels.layout(x={"title": {"text": numbers.x_title}}, y={"title": {"text": numbers.y_title}})
    for index, title in enumerate(titles):
        if title in numbers.keys:
            layout["annotations"].append(panel_key(index, numbers.keys[title]))
    traces: list[dict[str, Any]] = []
    rows: list[tuple[str, str, float, float]] = []
    seen: set[str] = set()
    totals = {title: sum(len(points.x) for points in numbers.points if points.panel == title) for title in titles}
    for points in numbers.points:
        slot = labels.index(points.label)
        drawn = thin(list(zip(points.x, points.y, strict=True)), limit=_share(len(points.x), totals[points.panel]))
        rows += [(points.panel, points.label, x, y) for x, y in drawn]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [x for x, _ in drawn],
                "y": [y for _, y in drawn],
                "name": points.label,
                "legendgroup": points.label,
                "showlegend": points.label not in seen,
                "marker": {
                    "symbol": symbol(slot, "core"),
                    "size": 7 if totals[points.panel] <= FEW else 5,
                    "opacity": 0.7,
                    "line": {"width": 0},
                },
                "hovertemplate": f"%{{x:.3g}}, %{{y:.3g}}<extra>{points.label}</extra>",
                "meta": meta(slot, "core"),
                **panels.axes(titles.index(points.panel)),
            }
        )
        seen.add(points.label)
    most = max(totals.values())
    thinned = ""
    if most > MAX_SHOWN:
        thinned = f" Thinned from up to {most} to {MAX_SHOWN} a panel, evenly; the table holds the points that are drawn."
    return Figure(
        name=name,
        title=numbers.title,
        caption=f"One symbol a held-out prompt; colour and symbol are its class.{thinned} {numbers.note}".strip(),
        alt=_alt(numbers),
        plot={"data": traces, "layout": layout},
        columns=("model", "class", numbers.x_title, numbers.y_title),
        rows=tuple(rows),
    )


def _share(own: int, total: int) -> int:
    """How many of a class's points a panel has room for; two at least, the first and the last."""
    return own if total <= MAX_SHOWN else max(own * MAX_SHOWN // total, 2)


def _alt(numbers: CoordinateScatter) -> str:
    parts = [f"Scatter plots of {numbers.y_title} against {numbers.x_title}."]
    for points in numbers.points:
        if points.x:
            x, y = (sum(values) / len(values) for values in (points.x, points.y))
            parts.append(f"{points.panel}, {points.label}: {len(points.x)} points about ({x:.2g}, {y:.2g}).")
    parts += [f"{panel}: {text}." for panel, text in numbers.keys.items()]
    return " ".join(parts)
