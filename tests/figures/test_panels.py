"""Panels: inside the drawing area, not over one another, and one column on a narrow page."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.figures.panels import Panels, level_line, panel_key, rank_line


def domains(layout, num, narrow):
    for index in range(num):
        suffix = "" if index == 0 else str(index + 1)
        names = f"xaxis{suffix}", f"yaxis{suffix}"
        yield tuple(layout["meta"]["narrow"]["domains"][name] if narrow else layout[name]["domain"] for name in names)


@settings(deadline=None, derandomize=True)
@given(num=st.integers(1, 9), columns=st.integers(1, 4), narrow=st.booleans())
def test_panels_lie_inside_and_do_not_overlap(num, columns, narrow):
    layout = Panels(titles=tuple("abcdefghi"[:num]), columns=columns).layout(x={}, y={})
    places = list(domains(layout, num, narrow))
    for (left, right), (bottom, top) in places:
        assert 0 <= left < right <= 1
        assert 0 <= bottom < top <= 1
    for i, (x, y) in enumerate(places):
        for u, v in places[i + 1 :]:
            assert x[1] <= u[0] or u[1] <= x[0] or y[1] <= v[0] or v[1] <= y[0]


@given(num=st.integers(1, 6), columns=st.integers(1, 3))
@settings(deadline=None, derandomize=True)
def test_every_panel_has_the_height_asked_for(num, columns):
    panels = Panels(titles=("t",) * num, columns=columns, height_pixels=200, narrow_height_pixels=150)
    layout = panels.layout(x={}, y={})
    for narrow, height, pixels in ((False, layout["meta"]["height"], 200), (True, layout["meta"]["narrow"]["height"], 150)):
        for _, (bottom, top) in domains(layout, num, narrow):
            assert (top - bottom) * height == pytest.approx(pixels, abs=0.01)


def test_a_narrow_page_has_one_column_over_the_whole_width():
    layout = Panels(titles=("a", "b", "c"), columns=3).layout(x={}, y={})
    assert {tuple(x) for x, _ in domains(layout, 3, narrow=True)} == {(0.0, 1.0)}
    assert len({tuple(y) for _, y in domains(layout, 3, narrow=True)}) == 3


def test_settings_go_to_their_own_panel():
    layout = Panels(titles=("a", "b"), columns=2).layout(x={"dtick": 1}, y=[{"type": "log"}, {"type": "linear"}])
    assert (layout["yaxis"]["type"], layout["yaxis2"]["type"]) == ("log", "linear")
    assert layout["xaxis2"]["dtick"] == 1
    assert layout["yaxis2"]["anchor"] == "x2"
    assert [note["text"] for note in layout["annotations"]] == ["a", "b"]


def test_lines_and_keys_belong_to_their_panel():
    line = level_line(1, 0.5, "half")
    assert (line["xref"], line["yref"], line["y0"], line["y1"]) == ("x2 domain", "y2", 0.5, 0.5)
    assert line["label"]["text"] == "half"
    assert "label" not in level_line(0, 0.5)
    upright = rank_line(0, 3)
    assert (upright["xref"], upright["yref"], upright["x0"], upright["x1"]) == ("x", "y domain", 3, 3)
    assert panel_key(2, "k")["xref"] == "x3 domain"
