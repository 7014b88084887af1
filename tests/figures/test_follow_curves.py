"""Follow curves: four panels that show gaps as gaps, chance beside overlap, and every number in the table."""

import pytest

from cores.made_up_series import at_step, series
from invariscope.errors import ShapeError, TooFewSamplesError
from invariscope.figures import FollowCurve, FollowCurves, draw_follow_curves
from invariscope.figures.marks import MAX_POINTS


def curve(name="seed 0", **changed):
    given = {
        "steps": (100, 200, 300),
        "sufficient": (None, 4, 3),
        "necessary": (None, None, 3),
        "energy": (9, 6, 5),
        "overlap": (0.2, 0.9, 1.0),
        "spectrum_error": (0.4, 0.05, 0.01),
        "spectrum_low": (0.3, 0.04, None),
        "spectrum_high": (0.6, 0.07, None),
    }
    return FollowCurve(name=name, **(given | changed))


def test_a_run_has_one_trace_a_panel_and_one_entry_in_the_legend():
    figure = draw_follow_curves(FollowCurves(curves=(curve(), curve("seed 1"))))
    traces = figure.plot["data"]
    assert [trace["yaxis"] for trace in traces] == ["y", "y2", "y3", "y4"] * 2
    assert [trace["showlegend"] for trace in traces] == [True, False, False, False] * 2
    assert traces[0]["y"] == [None, 4, 3]
    assert traces[1]["y"] == [None, None, 3]
    assert traces[2]["y"] == [0.2, 0.9, 1.0]
    assert traces[0]["line"]["dash"] != traces[4]["line"]["dash"]
    assert traces[0]["marker"]["symbol"] != traces[4]["marker"]["symbol"]


def test_errors_have_intervals_on_a_logarithmic_axis():
    figure = draw_follow_curves(FollowCurves(curves=(curve(),)))
    bars = figure.plot["data"][3]["error_y"]
    assert bars["array"] == pytest.approx([0.2, 0.02, 0.0])
    assert bars["arrayminus"] == pytest.approx([0.1, 0.01, 0.0])
    assert figure.plot["layout"]["yaxis4"]["type"] == "log"
    assert "type" not in figure.plot["layout"]["yaxis"]


def test_an_error_of_zero_is_counted_in_the_caption_and_stays_in_the_table():
    figure = draw_follow_curves(FollowCurves(curves=(curve(spectrum_error=(0.4, None, 0.0)),)))
    assert figure.plot["data"][3]["y"] == [0.4, None, None]
    assert "1 errors of zero" in figure.caption
    assert figure.rows[-1] == ("seed 0", 300, 3, 3, 5, 1.0, 0.0, None, None)


def test_chance_rank_and_mark_are_lines_in_their_panels_with_a_key():
    figure = draw_follow_curves(FollowCurves(curves=(curve(),), overlap_chance=3 / 64, expected_rank=3, spectrum_mark=0.03))
    shapes = [(shape["yref"], shape["y0"]) for shape in figure.plot["layout"]["shapes"]]
    assert shapes == [("y", 3), ("y2", 3), ("y3", 3 / 64), ("y4", 0.03)]
    keys = [note["text"] for note in figure.plot["layout"]["annotations"] if note["name"] == "key"]
    assert keys == ["– – the task's 3", "– – the task's 3", "– – chance 0.0469", "– – mark 0.03"]
    assert draw_follow_curves(FollowCurves(curves=(curve(),))).plot["layout"]["shapes"] == []


def test_the_text_for_those_who_do_not_see_it_has_both_ends():
    figure = draw_follow_curves(FollowCurves(curves=(curve(),), note="Trained for 300 steps."))
    assert "seed 0, step 100 to 300: sufficient rank from none to 3, necessary rank from none to 3" in figure.alt
    assert "spectrum error from 0.4 to 0.01." in figure.alt
    assert figure.caption.endswith("Trained for 300 steps.")


def test_a_long_series_is_thinned_aloud_with_its_ends():
    num = MAX_POINTS + 10
    fields = ("sufficient", "necessary", "energy", "overlap", "spectrum_error", "spectrum_low", "spectrum_high")
    figure = draw_follow_curves(FollowCurves(curves=(curve(steps=tuple(range(num)), **dict.fromkeys(fields, (1,) * num)),)))
    assert len(figure.rows) == MAX_POINTS == len(figure.plot["data"][0]["x"])
    assert (figure.rows[0][1], figure.rows[-1][1]) == (0, num - 1)
    assert f"Thinned from up to {num} to {MAX_POINTS} checkpoints a run" in figure.caption


def test_ranks_are_whole_numbers_on_the_axis_while_there_is_room():
    assert draw_follow_curves(FollowCurves(curves=(curve(),))).plot["layout"]["yaxis2"]["dtick"] == 1
    many = draw_follow_curves(FollowCurves(curves=(curve(sufficient=(40, 4, 3)),)))
    assert "dtick" not in many.plot["layout"]["yaxis2"]


def test_nothing_and_uneven_lengths_are_refused():
    with pytest.raises(TooFewSamplesError, match="without curves; expected at least one; leave the figure out"):
        draw_follow_curves(FollowCurves(curves=()))
    with pytest.raises(ShapeError, match=r"curve 'seed 0': steps of 3, .*overlap of 2.*; expected equal lengths"):
        draw_follow_curves(FollowCurves(curves=(curve(overlap=(0.2, 0.9)),)))


def test_the_cursor_stands_at_the_last_step_and_a_slider_moves_it_through_every_panel():
    figure = draw_follow_curves(FollowCurves(curves=(curve(), curve("seed 1", steps=(100, 250, 300))), cursor=True, where="here"))
    assert [frame.label for frame in figure.frames] == ["step 100", "step 200", "step 250", "step 300"]
    assert figure.frames[2].traces == {index: {"x": [250, 250]} for index in range(8, 12)}
    cursors = figure.plot["data"][8:]
    assert [trace["yaxis"] for trace in cursors] == ["y", "y2", "y3", "y4"]
    assert all(trace["x"] == [300, 300] for trace in cursors)
    assert figure.title.endswith("(here)")
    assert "The slider moves the upright line" in figure.caption


def test_with_a_cursor_axes_stand_still_and_hold_every_number():
    figure = draw_follow_curves(FollowCurves(curves=(curve(),), cursor=True, expected_rank=6, spectrum_mark=0.001))
    layout = figure.plot["layout"]
    assert layout["xaxis4"]["range"] == [-9, 309]
    assert layout["yaxis"]["range"] == layout["yaxis2"]["range"] == [0, 7]
    assert layout["yaxis3"]["range"] == [0, 1.05]
    low, high = layout["yaxis4"]["range"]
    assert 10**low < 0.001
    assert 10**high > 0.6
    assert figure.plot["data"][-1]["y"] == pytest.approx([10**low, 10**high])
    assert "range" not in draw_follow_curves(FollowCurves(curves=(curve(),))).plot["layout"]["xaxis"]


def test_with_a_cursor_and_no_spectrum_there_is_still_a_panel():
    gone = dict.fromkeys(("spectrum_error", "spectrum_low", "spectrum_high"), (None,) * 3)
    figure = draw_follow_curves(FollowCurves(curves=(curve(**gone),), cursor=True))
    assert figure.plot["layout"]["yaxis4"]["range"] == [-1.1, 0.1]


def test_a_series_becomes_a_curve():
    found = FollowCurve.from_series(series(), name="seed 7", role="control")
    assert (found.name, found.role, found.steps) == ("seed 7", "control", (0, 50))
    assert (found.sufficient, found.necessary, found.energy) == ((None, 3), (None, 2), (5, 5))
    assert found.overlap == (0.2, 0.9)
    assert (found.spectrum_error, found.spectrum_low, found.spectrum_high) == ((0.1, 0.1), (0.08, 0.08), (0.15, 0.15))
    without = series(checkpoints=(at_step(0, spectrum_error=None),))
    assert FollowCurve.from_series(without, name="seed 7").spectrum_error == (None,)
