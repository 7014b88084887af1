"""Frames: what a figure with a slider refuses, writes and reads."""

from __future__ import annotations

import json
import math

import pytest

from invariscope.errors import ConfigError, ForeignFileError, NonFiniteError
from invariscope.figures import Figure, Frame
from invariscope.figures.frames import frame_from_json, frame_to_json
from invariscope.storage.atomic import read_json, write_json

AXES = {"xaxis": {"range": [0, 2]}, "yaxis": {"range": [0, 2]}}


def frame(label: str, x: float = 1.0, **fields) -> Frame:
    return Frame(label=label, traces={0: {"x": [x], "y": [1.0]} | fields})


def moving(**changes) -> Figure:
    trace = {"type": "scatter", "x": [1.0], "y": [1.0], "meta": {"slot": 0, "role": "core"}}
    given = {
        "name": "walk",
        "title": "Walk",
        "caption": "A point.",
        "alt": "A point that walks.",
        "plot": {"data": [trace], "layout": AXES},
        "columns": ("step", "x"),
        "rows": ((0, 0.5), (50, 1.0)),
        "frames": (frame("step 0", 0.5), frame("step 50")),
        "slider": "Training step",
    }
    return Figure(**(given | changes))


def test_a_moving_figure_comes_back_from_its_file(tmp_path):
    path = moving().save(tmp_path)
    assert Figure.load(path) == moving()
    written = read_json(path)
    assert written["slider"] == "Training step"
    assert written["frames"][0] == {"label": "step 0", "traces": [{"trace": 0, "x": [0.5], "y": [1.0]}]}


def test_a_figure_that_stands_still_is_written_as_before(tmp_path):
    path = moving(frames=(), slider="").save(tmp_path)
    known = {"schema_version", "name", "title", "caption", "alt", "plot", "columns", "rows"}
    assert set(read_json(path)) - {"checksum"} == known
    assert Figure.load(path).frames == ()


def test_a_frame_is_a_copy_as_json_says_it():
    given = {0: {"x": (1, 2)}}
    made = Frame(label="a", traces=given)
    given[0] = {"x": [9]}
    assert made.traces == {0: {"x": [1, 2]}}
    assert frame_from_json(json.loads(json.dumps(frame_to_json(made)))) == made


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slider": ""}, "with 2 frames and the slider ''; expected both or neither; say in words"),
        ({"frames": ()}, "with 0 frames and the slider 'Training step'; expected both or neither"),
        ({"frames": (frame("step 50"),)}, r"labels \['step 50'\]; expected two or more different ones"),
        ({"frames": (frame("a"), frame("a"))}, r"labels \['a', 'a'\]; expected two or more different ones; .*tell them apart"),
        (
            {"frames": (Frame(label="a", traces={0: {"x": [1]}}), frame("b"))},
            "'a' moves x of trace 0, frame 'b' moves x/y of trace 0; expected the same fields of the same traces",
        ),
        ({"frames": (Frame(label="a", traces={}), Frame(label="b", traces={}))}, "'a' moves nothing"),
        (
            {"frames": tuple(Frame(label=label, traces={3: {"x": [1]}}) for label in "ab")},
            "frames move trace 3; expected one of its 1 traces; count from 0",
        ),
        (
            {"frames": (frame("step 50"), frame("step 0", 0.5))},
            "trace 0 does not show the last frame, 'step 0'; expected its values.*; draw the plot with the values of the last",
        ),
    ],
)
def test_frames_that_do_not_belong_to_the_plot_are_refused(changes, message):
    with pytest.raises(ConfigError, match=f"figure 'walk'.*{message}"):
        moving(**changes)


def test_an_axis_that_would_move_along_is_named():
    trace = {"x": [1.0], "y": [1.0], "xaxis": "x", "yaxis": "y2", "meta": {"slot": 0, "role": "core"}}
    with pytest.raises(ConfigError, match=r"trace 0 moves along yaxis2, which has no range; .*; set layout\.yaxis2\.range"):
        moving(plot={"data": [trace], "layout": AXES})


def test_a_frame_moves_points_and_nothing_else():
    with pytest.raises(ConfigError, match="frame 'a' replaces 'marker' of trace 0; expected x, y, z, text, customdata; draw"):
        frame("a", marker={"color": "red"})
    with pytest.raises(NonFiniteError, match="frame 'a': NaN or infinity; expected finite numbers; write None for a gap"):
        frame("a", math.nan)


@pytest.mark.parametrize(
    "damage",
    [
        lambda value: value["frames"][0].pop("label"),
        lambda value: value["frames"][0]["traces"][0].pop("trace"),
        lambda value: value["frames"][0]["traces"][0].update(trace="0"),
        lambda value: value.update(frames=[7, 8]),
        lambda value: value.update(frames=None),
        lambda value: value.pop("slider"),
    ],
)
def test_damaged_frames_are_no_figure_of_ours(tmp_path, damage):
    path = moving().save(tmp_path)
    value = read_json(path)
    damage(value)
    write_json(path, value)
    with pytest.raises(ForeignFileError, match=r"walk\.json is no figure of ours"):
        Figure.load(path)
