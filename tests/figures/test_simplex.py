"""The simplex: corners are certainty, states look alike in every panel, points outside the triangle are drawn where they are."""

from __future__ import annotations

import pytest

from invariscope.errors import ShapeError, TooFewSamplesError
from invariscope.figures import Simplex, SimplexPoints, draw_simplex

CORNERS = SimplexPoints(panel="exact", laws=((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)), states=(0, 1, 2))
OUTSIDE = SimplexPoints(panel="read", laws=((1.1, -0.1, 0.0),), states=(0,))


def clouds(figure) -> list[dict]:
    return [trace for trace in figure.plot["data"] if trace["mode"] == "markers"]


def test_corners_are_certainty():
    figure = draw_simplex(Simplex(panels=(CORNERS,), title="t", caption="c."))
    places = [(trace["x"][0], trace["y"][0]) for trace in clouds(figure)]
    assert places == [(0.0, 0.0), (1.0, 0.0), (0.5, pytest.approx(0.8660254))]
    triangle = figure.plot["data"][0]
    assert (triangle["x"][:3], triangle["meta"]["role"]) == ([0, 1, 0.5], "reference")


def test_points_outside_stay_outside_and_states_keep_their_look():
    figure = draw_simplex(Simplex(panels=(CORNERS, OUTSIDE), title="t", caption="c."))
    first, last = clouds(figure)[0], clouds(figure)[-1]
    assert last["x"] == [-0.1]
    assert last["marker"]["symbol"] == first["marker"]["symbol"]
    assert (first["showlegend"], last["showlegend"]) == (True, False)
    assert len({trace["marker"]["symbol"] for trace in clouds(figure)}) == 3


def test_table_and_words():
    figure = draw_simplex(Simplex(panels=(CORNERS, OUTSIDE), title="t", caption="c."))
    assert figure.rows[0] == ("exact", 1, 1.0, 0.0, 0.0)
    assert len(figure.rows) == 4
    assert "read: 1 of state 1" in figure.alt


def test_panels_keep_their_shape():
    figure = draw_simplex(Simplex(panels=(CORNERS, OUTSIDE), title="t", caption="c."))
    assert figure.plot["layout"]["yaxis2"]["scaleanchor"] == "x2"


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(TooFewSamplesError, match="panels"):
        draw_simplex(Simplex(panels=(), title="t", caption="c"))
    with pytest.raises(ShapeError, match="states"):
        draw_simplex(Simplex(panels=(SimplexPoints(panel="x", laws=((1.0, 0.0, 0.0),), states=(3,)),), title="t", caption="c"))
    with pytest.raises(ShapeError, match="equal lengths"):
        draw_simplex(Simplex(panels=(SimplexPoints(panel="x", laws=((1.0, 0.0, 0.0),), states=()),), title="t", caption="c"))
