"""Coordinate against margin: one symbol a class, thinned aloud."""

from __future__ import annotations

import pytest

from invariscope.errors import ShapeError, TooFewSamplesError
from invariscope.figures import CoordinateScatter, ScatterPoints, draw_coordinate_scatter
from invariscope.figures.coordinate_scatter import MAX_SHOWN


def draw(*points, **changes):
    numbers = CoordinateScatter(points=points, title="Coordinate", x_title="coordinate", y_title="margin (logits)", **changes)
    return draw_coordinate_scatter(numbers)


def test_points_reach_traces_and_table():
    figure = draw(
        ScatterPoints(panel="a", label="plural", x=(1.0, 2.0), y=(3.0, 4.0)),
        ScatterPoints(panel="a", label="singular", x=(-1.0,), y=(-2.0,)),
        keys={"a": "R² 0.95"},
    )
    plural, singular = figure.plot["data"]
    assert plural["marker"]["symbol"] != singular["marker"]["symbol"]
    assert figure.rows == (("a", "plural", 1.0, 3.0), ("a", "plural", 2.0, 4.0), ("a", "singular", -1.0, -2.0))
    assert "2 points about (1.5, 3.5)" in figure.alt
    assert "a: R² 0.95." in figure.alt
    assert "Thinned" not in figure.caption
    assert figure.csv_text().splitlines()[:2] == ["model,class,coordinate,margin (logits)", "a,plural,1.0,3.0"]


def test_many_points_are_thinned_and_it_is_said():
    many = tuple(float(i) for i in range(MAX_SHOWN + 5))
    figure = draw(ScatterPoints(panel="a", label="plural", x=many, y=many))
    assert len(figure.rows) == MAX_SHOWN
    assert f"Thinned from up to {MAX_SHOWN + 5} to {MAX_SHOWN} a panel" in figure.caption
    assert (figure.rows[0][2], figure.rows[-1][2]) == (0.0, MAX_SHOWN + 4.0)


def test_classes_of_a_panel_are_thinned_by_one_factor_and_other_panels_are_not():
    many = tuple(float(i) for i in range(MAX_SHOWN))
    half = many[: MAX_SHOWN // 2]
    figure = draw(
        ScatterPoints(panel="a", label="plural", x=many, y=many),
        ScatterPoints(panel="a", label="singular", x=half, y=half),
        ScatterPoints(panel="b", label="plural", x=half, y=half),
    )
    assert [len(trace["x"]) for trace in figure.plot["data"]] == [MAX_SHOWN * 2 // 3, MAX_SHOWN // 3, MAX_SHOWN // 2]
    assert f"from up to {MAX_SHOWN * 3 // 2} to {MAX_SHOWN} a panel" in figure.caption


def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match="'plural' in 'a'"):
        draw(ScatterPoints(panel="a", label="plural", x=(1.0,), y=()))
    with pytest.raises(TooFewSamplesError, match="points"):
        draw()
