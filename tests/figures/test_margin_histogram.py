"""Margin histograms: outlines of counts, one a class and edit."""

from __future__ import annotations

import pytest

from invariscope.errors import ShapeError, TooFewSamplesError
from invariscope.figures import MarginBars, MarginHistogram, draw_margin_histogram


def draw(*bars, **changes):
    edges = (-3.0, -1.0, 1.0, 3.0)
    return draw_margin_histogram(MarginHistogram(edges=edges, bars=bars, title="Margins", unit="logits", **changes))


def test_counts_reach_outlines_and_table():
    figure = draw(
        MarginBars(panel="keep", label="plural", counts=(0, 1, 3)),
        MarginBars(panel="keep", label="singular", counts=(4, 0, 0)),
        keys={"keep": "AUC 0.990"},
    )
    plural, singular = figure.plot["data"]
    assert (plural["x"], plural["y"]) == ([-1.0, -1.0, 1.0, 3.0], [0, 1, 3, 0])
    assert (singular["x"], singular["y"]) == ([-3.0, -3.0, -1.0], [0, 4, 0])
    assert plural["line"]["shape"] == "hv"
    assert (plural["fillpattern"]["shape"], singular["fillpattern"]["shape"]) == ("", "/")
    assert plural["line"]["dash"] != singular["line"]["dash"]
    assert sum(row[-1] for row in figure.rows if row[1] == "singular") == 4
    assert "singular: 4 prompts, mean about -2" in figure.alt
    assert "keep: AUC 0.990." in figure.alt
    assert figure.csv_text().splitlines()[1] == "keep,plural,-3.0,-1.0,0"
    assert any(note["text"] == "AUC 0.990" for note in figure.plot["layout"]["annotations"])


def test_a_gap_inside_stays_and_a_class_without_prompts_has_no_outline():
    figure = draw(
        MarginBars(panel="flip", label="plural", counts=(2, 0, 1)),
        MarginBars(panel="flip", label="singular", counts=(0, 0, 0)),
    )
    assert [trace["y"] for trace in figure.plot["data"]] == [[0, 2, 0, 1, 0], []]
    assert len(figure.rows) == 6
    assert "singular" not in figure.alt


def test_a_line_stands_at_no_preference_in_every_panel():
    bars = [MarginBars(panel=panel, label="plural", counts=(1, 0, 0)) for panel in ("keep", "flip")]
    shapes = draw(*bars).plot["layout"]["shapes"]
    assert [(shape["xref"], shape["x0"]) for shape in shapes] == [("x", 0.0), ("x2", 0.0)]


def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match="2 counts of 'plural' in 'keep' between 4 edges; expected 3 counts"):
        draw(MarginBars(panel="keep", label="plural", counts=(1, 2)))
    with pytest.raises(TooFewSamplesError, match="bars"):
        draw()
