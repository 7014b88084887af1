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
    assert plural["y"] == [0, 1, 3, 0]
    assert plural["line"]["shape"] == "hv"
    assert (plural["fill"], singular["fill"]) == ("tozeroy", "none")
    assert plural["line"]["dash"] != singular["line"]["dash"]
    assert sum(row[-1] for row in figure.rows if row[1] == "singular") == 4
    assert "singular: 4 prompts, mean about -2" in figure.alt
    assert any(note["text"] == "AUC 0.990" for note in figure.plot["layout"]["annotations"])


def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match="2 counts of 'plural' in 'keep' between 4 edges; expected 3 counts"):
        draw(MarginBars(panel="keep", label="plural", counts=(1, 2)))
    with pytest.raises(TooFewSamplesError, match="bars"):
        draw()
