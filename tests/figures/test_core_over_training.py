"""The moving core: frames hold each step's numbers, axes hold all of them, and the table too."""

from __future__ import annotations

import pytest

from cores.made_up_series import series
from invariscope.errors import ConfigError, ShapeError, TooFewSamplesError
from invariscope.figures import CoreMoment, CoreOverTraining, draw_core_over_training

STATES = (((0.1, 0.0), (0.0, 0.2), (0.1, 0.1)), ((2.0, 0.0), (0.0, -3.0), (-1.0, 1.0)))


def numbers(**changes) -> CoreOverTraining:
    moments = tuple(
        CoreMoment(step=step, eigenvalues=(0.2 + value, 0.1 + value * 1j), states=states)
        for step, value, states in zip((0, 50), (0.0, 0.3), STATES, strict=True)
    )
    given = {"moments": moments, "truth": (0.5 + 0j, 0.1 + 0.3j), "names": ("1", "2", "3"), "groups": (0, 1, 0)}
    return CoreOverTraining(**(given | changes))


def test_each_frame_has_the_eigenvalues_and_the_states_of_its_step():
    figure = draw_core_over_training(numbers())
    assert (figure.slider, [frame.label for frame in figure.frames]) == ("Training step", ["step 0", "step 50"])
    names = [trace["name"] for trace in figure.plot["data"]]
    assert names == ["the task's eigenvalues", "way of each state", "the core's eigenvalues", "states 1, 3", "states 2"]
    first, last = (frame.traces for frame in figure.frames)
    assert first[2] == {"x": [0.2, 0.1], "y": [0.0, 0.0]}
    assert last[2] == {"x": [0.5, 0.1], "y": [0.0, 0.3]}
    assert first[3] == {"x": [0.1, 0.1], "y": [0.0, 0.1]}
    assert last[4] == {"x": [0.0], "y": [-3.0]}
    assert set(first) == {2, 3, 4}


def test_axes_stand_still_are_equal_and_hold_every_step():
    layout = draw_core_over_training(numbers()).plot["layout"]
    assert layout["xaxis"]["range"] == layout["yaxis"]["range"] == [-1.1, 1.1]
    assert layout["xaxis2"]["range"] == layout["yaxis2"]["range"]
    assert layout["xaxis2"]["range"][1] == pytest.approx(1.18 * 3)
    assert layout["yaxis2"]["scaleanchor"] == "x2"
    wide = numbers(moments=(*numbers().moments, CoreMoment(step=90, eigenvalues=(-2 + 0j,), states=STATES[0])))
    assert draw_core_over_training(wide).plot["layout"]["xaxis"]["range"][0] == pytest.approx(-2.36)


def test_the_way_of_a_state_goes_through_all_its_places():
    way = next(trace for trace in draw_core_over_training(numbers()).plot["data"] if trace["name"] == "way of each state")
    assert way["x"] == [0.1, 2.0, None, 0.0, 0.0, None, 0.1, -1.0, None]
    assert way["y"][:3] == [0.0, 0.0, None]


def test_groups_differ_by_symbol_and_are_explained_and_states_carry_their_names():
    figure = draw_core_over_training(numbers(grouped_by="the group"))
    one, two = figure.plot["data"][3:]
    assert one["marker"]["symbol"] != two["marker"]["symbol"]
    assert (one["text"], two["text"]) == (["1", "3"], ["2"])
    assert "Colour and symbol: the group." in figure.caption
    alike = draw_core_over_training(numbers(groups=()))
    assert len(alike.plot["data"]) == 4
    assert "Colour and symbol" not in alike.caption


def test_the_table_holds_the_numbers_of_every_step():
    rows = draw_core_over_training(numbers()).rows
    assert rows[0] == (None, "the task's eigenvalue", None, None, 0.5, 0.0)
    assert (0, "eigenvalue", "1", None, 0.2, 0.0) in rows
    assert (50, "state", "2", 2, 0.0, -3.0) in rows
    assert len(rows) == 2 + 2 * (2 + 3)


def test_the_text_for_those_who_do_not_see_it_says_both_ends_and_the_caption_how_cores_are_aligned():
    figure = draw_core_over_training(numbers(note="One model."))
    assert "step 0 to step 50" in figure.alt
    assert "At step 50 the core's are 0.500, 0.100+0.300i." in figure.alt
    assert "the outermost 0.2 from its centre at step 0 and 3 at step 50" in figure.alt
    assert "orthogonal Procrustes" in figure.caption
    assert figure.caption.endswith("One model.")


def test_a_series_becomes_the_numbers_of_the_figure():
    found = CoreOverTraining.from_series(series(), groups=(0, 1), where="here")
    assert found.names == ("1", "3")
    assert found.truth == (0.5 + 0j, 0.1 + 0.2j)
    assert [moment.step for moment in found.moments] == [0, 50]
    assert found.moments[1].eigenvalues == (0.4 + 0j, 0.1 + 0.1j)
    assert found.moments[1].states == ((1.0, 2.0), (-1.0, -2.0))
    assert draw_core_over_training(found).title == "The core finds its place (here)"


def test_nothing_too_few_states_and_a_single_step_are_refused():
    with pytest.raises(TooFewSamplesError, match="without moments; expected at least one"):
        draw_core_over_training(numbers(moments=()))
    with pytest.raises(TooFewSamplesError, match="without states"):
        draw_core_over_training(numbers(names=(), groups=()))
    with pytest.raises(ShapeError, match="step 0 has 3 states; expected 2, one a name"):
        draw_core_over_training(numbers(names=("1", "2"), groups=()))
    with pytest.raises(ShapeError, match="names of 3, groups of 1"):
        draw_core_over_training(numbers(groups=(0,)))
    with pytest.raises(ConfigError, match=r"labels \['step 0'\]; expected two or more"):
        draw_core_over_training(numbers(moments=numbers().moments[:1]))
