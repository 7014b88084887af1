"""Training curves: logarithmic, thinned aloud, and honest about what has no place on the axis."""

import pytest

from invariscope.errors import ShapeError, TooFewSamplesError
from invariscope.figures import TrainingCurve, TrainingCurves, draw_training_curves
from invariscope.figures.marks import MAX_POINTS


def curve(panel="four", name="seed 0", steps=(0, 100, 200), excess=(0.4, 0.02, 0.001)):
    return TrainingCurve(panel=panel, name=name, steps=steps, excess=excess)


def test_each_seed_is_a_line_of_its_own_dash_in_its_arms_panel():
    figure = draw_training_curves(TrainingCurves(curves=(curve(), curve(name="seed 1"), curve(panel="twelve"))))
    first, second, third = figure.plot["data"]
    assert (first["x"], first["y"]) == ([0, 100, 200], [0.4, 0.02, 0.001])
    assert first["line"]["dash"] != second["line"]["dash"]
    assert (third["yaxis"], third["line"]["dash"], third["showlegend"]) == ("y2", first["line"]["dash"], False)
    assert figure.plot["layout"]["yaxis2"]["type"] == "log"


def test_what_has_no_logarithm_is_counted_in_the_caption_and_stays_in_the_table():
    figure = draw_training_curves(TrainingCurves(curves=(curve(excess=(0.4, None, -0.0001)),)))
    assert figure.plot["data"][0]["y"] == [0.4, None, None]
    assert "1 points at or below zero" in figure.caption
    assert figure.rows[-1] == ("four", "seed 0", 200, -0.0001)


def test_long_curves_are_thinned_and_the_caption_says_so():
    num = 3 * MAX_POINTS
    figure = draw_training_curves(TrainingCurves(curves=(curve(steps=tuple(range(num)), excess=(0.1,) * num),)))
    assert len(figure.plot["data"][0]["x"]) == MAX_POINTS == len(figure.rows)
    assert figure.plot["data"][0]["x"][-1] == num - 1
    assert f"Thinned from up to {num} to {MAX_POINTS} points a line" in figure.caption
    assert "Thinned" not in draw_training_curves(TrainingCurves(curves=(curve(),))).caption


def test_the_mark_is_a_line_in_every_panel():
    figure = draw_training_curves(TrainingCurves(curves=(curve(), curve(panel="twelve")), mark=0.003))
    assert [(shape["yref"], shape["y0"]) for shape in figure.plot["layout"]["shapes"]] == [("y", 0.003), ("y2", 0.003)]
    assert [n["text"] for n in figure.plot["layout"]["annotations"] if n["name"] == "key"] == ["– – mark 0.003"] * 2


def test_the_alt_text_tells_start_and_end():
    figure = draw_training_curves(TrainingCurves(curves=(curve(excess=(None, 0.02, 0.001)),)))
    assert "four, seed 0: 0.02 nats at step 100, 0.001 at step 200." in figure.alt


def test_bad_input_is_refused():
    with pytest.raises(TooFewSamplesError, match="without curves"):
        draw_training_curves(TrainingCurves(curves=()))
    with pytest.raises(ShapeError, match="curve 'seed 0' in 'four': steps of 2, excess of 3"):
        draw_training_curves(TrainingCurves(curves=(curve(steps=(0, 1)),)))
