"""Similarity bars: one bar a component, its own null tick, controls hatched."""

import pytest

from invariscope.errors import ShapeError, TooFewSamplesError
from invariscope.figures import SimilarityBar, SimilarityBars, draw_similarity_bars

PAIR = SimilarityBar(panel="12", name="0 and 1", heldout=(0.99, 0.98), fitted=(0.995, 0.985), null=(0.05, 0.02))
UNTRAINED = SimilarityBar(panel="12", name="untrained", heldout=(0.7, 0.3), role="control")


def test_each_bar_carries_its_own_null():
    figure = draw_similarity_bars(SimilarityBars(bars=(PAIR, UNTRAINED)))
    bar, null, control = figure.plot["data"]
    assert (bar["type"], bar["x"], bar["y"]) == ("bar", ["1", "2"], [0.99, 0.98])
    assert (null["y"], null["offsetgroup"], null["meta"]["role"]) == ([0.05, 0.02], bar["offsetgroup"], "reference")
    assert (control["y"], control["meta"]["role"]) == ([0.7, 0.3], "control")
    assert control["marker"]["pattern"]["shape"]
    assert figure.plot["layout"]["scattermode"] == "group"


def test_the_axis_starts_at_zero_and_holds_one():
    low, high = draw_similarity_bars(SimilarityBars(bars=(PAIR,))).plot["layout"]["yaxis"]["range"]
    assert low == 0
    assert 1 < high < 1.1


def test_the_table_has_held_out_fitted_and_null():
    figure = draw_similarity_bars(SimilarityBars(bars=(PAIR, UNTRAINED)))
    assert figure.rows == (
        ("12", "0 and 1", "core", 1, 0.99, 0.995, 0.05),
        ("12", "0 and 1", "core", 2, 0.98, 0.985, 0.02),
        ("12", "untrained", "control", 1, 0.7, None, None),
        ("12", "untrained", "control", 2, 0.3, None, None),
    )


def test_the_caption_explains_ticks_only_where_there_are_some():
    assert "Ticks" in draw_similarity_bars(SimilarityBars(bars=(PAIR,))).caption
    assert "Ticks" not in draw_similarity_bars(SimilarityBars(bars=(UNTRAINED,))).caption


def test_bad_input_is_refused():
    with pytest.raises(TooFewSamplesError, match="without comparisons"):
        draw_similarity_bars(SimilarityBars(bars=()))
    crooked = SimilarityBar(panel="12", name="0 and 1", heldout=(0.9, 0.8), null=(0.1,))
    with pytest.raises(ShapeError, match="comparison '0 and 1' in '12': heldout of 2, fitted of 2, null of 1"):
        draw_similarity_bars(SimilarityBars(bars=(crooked,)))
