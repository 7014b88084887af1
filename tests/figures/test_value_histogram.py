"""Value histograms: outlines where there are values, one entry a kind, keys, and what does not fit."""

import pytest

from invariscope.errors import ShapeError, TooFewSamplesError
from invariscope.figures import ValueBars, ValueHistogram, draw_value_histogram
from invariscope.figures.value_histogram import outline_trace

EDGES = (-1.0, -0.5, 0.0, 0.5, 1.0)


def bars(counts, label="same sum", panel="output", role="core"):
    return ValueBars(panel=panel, label=label, counts=counts, role=role)


def draw(*kinds, **changes):
    return draw_value_histogram(
        ValueHistogram(edges=EDGES, bars=kinds, title="Cosines", quantity="cosine", counted="pairs", **changes)
    )


def test_an_outline_begins_and_ends_on_the_axis_where_values_are():
    trace = outline_trace(EDGES, (0, 3, 5, 0), label="same sum", slot=0, shown=True, what="pairs")
    assert (trace["x"], trace["y"]) == ([-0.5, -0.5, 0.0, 0.5], [0, 3, 5, 0])
    assert outline_trace(EDGES, (0, 0, 0, 0), label="none", slot=0, shown=True, what="pairs")["x"] == []


def test_counts_reach_traces_table_and_text():
    figure = draw(bars((0, 0, 0, 8)), bars((2, 2, 0, 0), "other sums", role="control"), keys={"output": "means 0.75 and -0.5"})
    same, other = figure.plot["data"]
    assert max(same["y"]) == 8
    assert other["meta"]["role"] == "control"
    assert figure.columns == ("panel", "kind", "from", "to", "pairs")
    assert figure.rows[3] == ("output", "same sum", 0.5, 1.0, 8)
    assert "output, same sum: 8 pairs, mean about 0.75." in figure.alt
    assert [note["text"] for note in figure.plot["layout"]["annotations"] if note["name"] == "key"] == ["means 0.75 and -0.5"]
    assert figure.plot["layout"]["yaxis"]["range"] == [0, pytest.approx(8.64)]


def test_a_kind_has_one_entry_and_each_panel_its_own_height():
    figure = draw(bars((0, 0, 0, 8)), bars((0, 0, 0, 100), panel="residual"))
    assert [trace["showlegend"] for trace in figure.plot["data"]] == [True, False]
    assert figure.plot["layout"]["yaxis2"]["range"][1] == pytest.approx(108)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match="2 counts of 'same sum' in 'output' between 5 edges; expected 4 counts"):
        draw(bars((1, 2)))
    with pytest.raises(TooFewSamplesError, match="bars"):
        draw()
