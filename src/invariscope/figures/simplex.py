"""Belief simplex: laws over three states as points of a triangle, the true ones beside those that a model carries.

A law (p_1, p_2, p_3) is the point of a triangle that divides it in these shares; a corner is certainty. Two panels with the
same points in the same order, the exact beliefs and those read from the core, show at a glance whether a core holds an
internal model of the world: the same cloud, with the same colours in the same places, or something else.

>>> points = SimplexPoints(panel="exact", laws=((1.0, 0.0, 0.0), (0.2, 0.2, 0.6)), states=(0, 2))
>>> figure = draw_simplex(Simplex(panels=(points,), title="Beliefs", caption="Exact."))
>>> [(trace["name"], trace["x"]) for trace in figure.plot["data"] if trace["mode"] == "markers"]
[('state 1', [0.0]), ('state 3', [0.5])]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from invariscope.errors import ShapeError
from invariscope.figures.figure import Figure
from invariscope.figures.marks import MAX_POINTS, check_lengths, check_some, meta, symbol
from invariscope.figures.panels import Panels

__all__ = ["Simplex", "SimplexPoints", "draw_simplex"]

NUM_STATES = 3
HEIGHT = 3**0.5 / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SimplexPoints:
    """One panel.

    Args:
        panel: its title.
        laws: three shares each; what a model carries may leave the triangle.
        states: of each point a state from 0 to 2, which decides its colour and symbol: the same in every panel.
    """

    panel: str
    laws: tuple[tuple[float, float, float], ...]
    states: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Simplex:
    """What the figure shows.

    Args:
        panels: side by side, in order.
        title, caption: of the figure.
        meaning: what a point's state is, for the caption and the legend's reader.
    """

    panels: tuple[SimplexPoints, ...]
    title: str
    caption: str
    meaning: str = "the state with the largest exact belief"


def draw_simplex(numbers: Simplex, *, name: str = "simplex") -> Figure:
    """Draw the panels.

    Args:
        numbers: what to draw.
        name: the figure's file name.

    Returns:
        The figure; its table has one row a point and panel.

    Raises:
        TooFewSamplesError: without any panel or point. ShapeError: where states are not one a point, or not among three.
    """
    check_some(name, "panels", numbers.panels)
    for points in numbers.panels:
        check_some(name, f"points in {points.panel!r}", points.laws)
        check_lengths(f"panel {points.panel!r}", laws=points.laws, states=points.states)
        if not set(points.states) <= set(range(NUM_STATES)):
            raise ShapeError(f"states {sorted(set(points.states))}", expected="0, 1 and 2", do="number three states from 0")
    titles = tuple(points.panel for points in numbers.panels)
    panels = Panels(titles=titles, columns=2, height_pixels=380, narrow_height_pixels=300, row_gap_pixels=60)
    hidden = {"visible": False, "showgrid": False, "zeroline": False}
    layout = panels.layout(
        x=hidden | {"range": [-0.17, 1.17], "constrain": "domain"},
        y=[
            hidden | {"range": [-0.17, 1.05], "scaleanchor": panels.axes(index)["xaxis"], "constrain": "domain"}
            for index in range(len(titles))
        ],
    )
    traces: list[dict[str, Any]] = []
    for index, points in enumerate(numbers.panels):
        traces.append(_triangle() | panels.axes(index))
        for state in sorted(set(points.states)):
            own = [law for law, at in zip(points.laws, points.states, strict=True) if at == state][:MAX_POINTS]
            traces.append(_cloud(own, state, first=index == 0) | panels.axes(index))
    states = "; ".join(f"state {state + 1} {symbol(state, 'core')}" for state in range(NUM_STATES))
    return Figure(
        name=name,
        title=numbers.title,
        caption=f"{numbers.caption} Corners are certainty; colour and symbol of a point, the same in every panel: "
        f"{numbers.meaning} ({states}).",
        alt=_alt(numbers),
        plot={"data": traces, "layout": layout},
        columns=("panel", "state", "share 1", "share 2", "share 3"),
        rows=tuple(
            (points.panel, state + 1, *law)
            for points in numbers.panels
            for law, state in zip(points.laws, points.states, strict=True)
        ),
    )


def _place(law: Sequence[float]) -> tuple[float, float]:
    """The point of the triangle that a law stands for."""
    return law[1] + law[2] / 2, law[2] * HEIGHT


def _triangle() -> dict[str, Any]:
    corners = [_place(law) for law in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 0))]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [x for x, _ in corners],
        "y": [y for _, y in corners],
        "name": "simplex",
        "showlegend": False,
        "hoverinfo": "skip",
        "line": {"width": 1.5},
        "meta": meta(0, "reference"),
    }


def _cloud(laws: Sequence[Sequence[float]], state: int, *, first: bool) -> dict[str, Any]:
    places = [_place(law) for law in laws]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [x for x, _ in places],
        "y": [y for _, y in places],
        "name": f"state {state + 1}",
        "legendgroup": f"state {state + 1}",
        "showlegend": first,
        "marker": {"symbol": symbol(state, "core"), "size": 5, "opacity": 0.6, "line": {"width": 0}},
        "customdata": [list(law) for law in laws],
        "hovertemplate": "%{customdata[0]:.3f}, %{customdata[1]:.3f}, %{customdata[2]:.3f}<extra></extra>",
        "meta": meta(state, "core"),
    }


def _alt(numbers: Simplex) -> str:
    parts = [f"Triangles with points inside, one panel each ({', '.join(points.panel for points in numbers.panels)})."]
    for points in numbers.panels:
        counts = ", ".join(f"{points.states.count(state)} of state {state + 1}" for state in range(NUM_STATES))
        parts.append(f"{points.panel}: {counts}.")
    return " ".join(parts)
