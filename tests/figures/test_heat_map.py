"""Heat maps: cells, scales, numbers in small ones, a frame a step, and what does not fit."""

import pytest

from invariscope.errors import ConfigError, ShapeError, TooFewSamplesError
from invariscope.figures import HeatMap, HeatMaps, draw_heat_maps
from invariscope.figures.heat_map import MAX_WRITTEN
from invariscope.figures.marks import MAX_POINTS

BLOCK = ((8.0, -2.0), (-1.5, 7.0))


def one(*values, panel="scores", rows=("a", "b"), columns=("a", "b"), **changes):
    return HeatMap(panel=panel, rows=rows, columns=columns, values=values or (BLOCK,), **changes)


def draw(*maps, **changes):
    return draw_heat_maps(HeatMaps(maps=maps, **({"title": "Identity", "quantity": "score", "scale": "diverging"} | changes)))


def test_cells_reach_trace_table_and_text():
    figure = draw(one())
    [trace] = figure.plot["data"]
    assert trace["z"] == [[8.0, -2.0], [-1.5, 7.0]]
    assert (trace["zmin"], trace["zmax"]) == (-8.0, 8.0)
    assert trace["meta"]["scale"] == "diverging"
    assert trace["texttemplate"] == "%{z:.1f}"
    assert not trace["showscale"]
    assert figure.rows[2] == ("scores", "b", "a", -1.5)
    assert "largest 8 in row a, column a; smallest -2 in row a, column b" in figure.alt
    assert figure.plot["layout"]["yaxis"]["range"] == [1.5, -0.5]


def test_large_maps_have_a_scale_and_no_numbers():
    labels = tuple(map(str, range(MAX_WRITTEN + 1)))
    values = tuple(tuple(float(row == column) for column in range(len(labels))) for row in range(len(labels)))
    [trace] = draw(one(values, rows=labels, columns=labels), scale="sequential").plot["data"]
    assert trace["showscale"]
    assert "colorbar" in trace
    assert "texttemplate" not in trace
    assert (trace["zmin"], trace["zmax"]) == (0.0, 1.0)


def test_a_scale_is_common_or_each_panel_s_own():
    small = one(((1.0, -1.0), (0.0, 0.5)), panel="small")
    assert [trace["zmax"] for trace in draw(one(), small).plot["data"]] == [8.0, 8.0]
    figure = draw(one(), small, own_limits=True)
    assert [trace["zmax"] for trace in figure.plot["data"]] == [8.0, 1.0]
    keys = [note["text"] for note in figure.plot["layout"]["annotations"] if note["name"] == "key"]
    assert keys == ["± 8", "± 1"]
    assert [trace["zmin"] for trace in draw(one(), limits=(-3.0, 3.0)).plot["data"]] == [-3.0]


def test_each_step_is_a_frame_and_the_last_one_is_drawn():
    later = ((1.0, 0.0), (0.0, 1.0))
    figure = draw(one(BLOCK, later), steps=(0, 50))
    assert [frame.label for frame in figure.frames] == ["step 0", "step 50"]
    assert figure.frames[0].traces[0]["z"] == [[8.0, -2.0], [-1.5, 7.0]]
    assert figure.plot["data"][0]["z"] == [[1.0, 0.0], [0.0, 1.0]]
    assert figure.columns == ("map", "step", "row", "column", "score")
    assert len(figure.rows) == 8
    assert figure.slider


def test_blank_cells_are_no_rows_and_equal_labels_are_told_apart():
    figure = draw(one(((1.0, None), (2.0, 3.0)), rows=("=", "="), columns=("x", "y")))
    assert figure.rows == (("scores", "0: =", "x", 1.0), ("scores", "1: =", "x", 2.0), ("scores", "1: =", "y", 3.0))
    assert "Blank: no value." in figure.caption


def test_a_long_table_is_an_even_choice():
    labels = tuple(map(str, range(60)))
    figure = draw(one(((0.5,) * 60,) * 60, rows=labels, columns=labels))
    assert len(figure.rows) <= MAX_POINTS
    assert f"an even choice of {MAX_POINTS} of 3600 values" in figure.caption
    ticks = figure.plot["layout"]["xaxis"]["tickvals"]
    assert ticks == list(range(0, 60, 5))


@pytest.mark.parametrize(
    ("maps", "changes", "error", "message"),
    [
        ((), {}, TooFewSamplesError, "maps"),
        ((one(((1.0, 2.0),)),), {}, ShapeError, "'scores': a matrix of 1 rows of 2 cells; expected 2 rows of 2"),
        ((one(BLOCK, BLOCK),), {}, ShapeError, "'scores' has 2 matrices; expected 1, one a step"),
        ((one(),), {"scale": "rainbow"}, ConfigError, "scale 'rainbow'; expected sequential or diverging"),
        ((one(),), {"limits": (1.0, 0.0)}, ConfigError, "limits"),
        ((one(),), {"limits": (0.0, 1.0), "own_limits": True}, ConfigError, "with own_limits"),
    ],
)
def test_what_does_not_fit_is_refused(maps, changes, error, message):
    with pytest.raises(error, match=message):
        draw(*maps, **changes)
