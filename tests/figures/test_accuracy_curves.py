"""Accuracy curves: bands over seeds, phases of all panels or of one, and what does not fit."""

import pytest

from invariscope.errors import ShapeError, TooFewSamplesError
from invariscope.figures import AccuracyCurve, AccuracyCurves, draw_accuracy_curves
from invariscope.figures.marks import MAX_POINTS


def curve(panel="held", name="0 variables", **changes):
    return AccuracyCurve(panel=panel, name=name, **({"steps": (0, 50, 100), "values": (0.1, 0.5, 1.0)} | changes))


def draw(*curves, **changes):
    return draw_accuracy_curves(AccuracyCurves(curves=curves, title="Pools", **changes))


def test_a_band_goes_from_the_worst_to_the_best_seed():
    runs = ((0.1, 0.2, None), (0.3, 0.9, None), (0.2, 0.4, 0.7))
    made = AccuracyCurve.over_seeds(panel="held", name="one", steps=(0, 50, 100), runs=runs)
    assert (made.values, made.lows, made.highs) == ((0.2, 0.4, 0.7), (0.1, 0.2, 0.7), (0.3, 0.9, 0.7))
    assert AccuracyCurve.over_seeds(panel="held", name="one", steps=(0,), runs=((0.4,),)).lows == ()
    band, line = draw(made).plot["data"]
    assert band["fill"] == "toself"
    assert band["y"] == [0.3, 0.9, 0.7, 0.7, 0.2, 0.1]
    assert line["y"] == [0.2, 0.4, 0.7]
    assert draw(made).rows[1] == ("held", "one", 50, 0.4, 0.2, 0.9)
    assert "with a band from the lowest to the highest" in draw(made).caption
    assert "band" not in draw(curve()).caption


def test_phases_are_shaded_and_named_in_every_panel():
    figure = draw(curve(), curve(panel="seen"), phases=(("addition", 10, 20), ("routing", 60, 80)))
    bands = [shape for shape in figure.plot["layout"]["shapes"] if shape["type"] == "rect"]
    assert [(band["x0"], band["x1"], band["xref"]) for band in bands] == [
        *((10, 20, "x"), (60, 80, "x")),
        *((10, 20, "x2"), (60, 80, "x2")),
    ]
    names = [note["text"] for note in figure.plot["layout"]["annotations"] if note["name"] == "phase"]
    assert names == ["addition", "routing"] * 2
    assert "Upright bands: addition, routing." in figure.caption
    assert "Routing from step 60 to 80." in figure.alt


def test_a_panel_may_have_phases_of_its_own_or_none():
    figure = draw(curve(), curve(panel="seen"), phases=(("addition", 10, 20),), own_phases={"seen": ()})
    assert [shape["xref"] for shape in figure.plot["layout"]["shapes"] if shape["type"] == "rect"] == ["x"]
    figure = draw(curve(), curve(panel="seen"), own_phases={"seen": (("jump", 30, 40),)})
    assert [shape["x0"] for shape in figure.plot["layout"]["shapes"] if shape["type"] == "rect"] == [30]
    assert "Upright bands: jump." in figure.caption
    assert "seen: jump from step 30 to 40." in figure.alt


def test_one_line_has_one_entry_in_the_legend_and_controls_look_otherwise():
    figure = draw(curve(), curve(panel="seen"), curve(name="shuffled", role="control"))
    assert [trace["showlegend"] for trace in figure.plot["data"]] == [True, False, True]
    assert figure.plot["data"][2]["marker"]["symbol"].endswith("open")
    assert figure.plot["data"][2]["meta"]["role"] == "control"


def test_chance_and_mark_are_lines_with_a_key():
    figure = draw(curve(), chance=0.017, mark=0.99)
    lines = [shape for shape in figure.plot["layout"]["shapes"] if shape["type"] == "line"]
    assert [line["y0"] for line in lines] == [0.017, 0.99]
    [key] = [note["text"] for note in figure.plot["layout"]["annotations"] if note["name"] == "key"]
    assert "chance 0.017" in key
    assert "mark 0.99" in key


def test_long_lines_are_thinned_and_the_caption_says_so():
    num = MAX_POINTS + 7
    figure = draw(curve(steps=tuple(range(num)), values=(0.5,) * num))
    assert len(figure.plot["data"][0]["x"]) <= MAX_POINTS
    assert len(figure.rows) == len(figure.plot["data"][0]["x"])
    assert f"Thinned from up to {num}" in figure.caption


def test_a_slider_says_moments_in_words_and_moves_a_line_through_every_panel():
    figure = draw(
        curve(steps=(0, 50), values=(-1.0, 3.0)),
        curve(panel="seen", steps=(0, 50), values=(0.1, 0.9)),
        unit_axis=False,
        moments=((0, "Step 0: nothing."), (50, "Step 50: all.")),
    )
    assert [frame.label for frame in figure.frames] == ["Step 0: nothing.", "Step 50: all."]
    moving = [trace for trace in figure.plot["data"] if trace["meta"]["role"] == "reference"]
    assert [(trace["x"], trace["yaxis"]) for trace in moving] == [([50, 50], "y"), ([50, 50], "y2")]
    assert moving[0]["y"] == figure.plot["layout"]["yaxis"]["range"] == pytest.approx([-1.2, 3.2])
    assert moving[1]["y"] == pytest.approx([-0.045, 0.945])
    assert {tuple(fields["x"]) for fields in figure.frames[0].traces.values()} == {(0, 0)}
    assert len(figure.frames[0].traces) == 2
    assert figure.rows[:2] == (
        ("in words", "Step 0: nothing.", 0, None, None, None),
        ("in words", "Step 50: all.", 50, None, None, None),
    )
    assert "The slider moves the upright line" in figure.caption
    assert draw(curve()).frames == ()


def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match="curve '0 variables' in 'held'"):
        draw(curve(values=(0.1,)))
    with pytest.raises(ShapeError, match="curve 'one'"):
        AccuracyCurve.over_seeds(panel="held", name="one", steps=(0, 1), runs=((0.1,),))
    with pytest.raises(TooFewSamplesError, match="curves"):
        draw()
