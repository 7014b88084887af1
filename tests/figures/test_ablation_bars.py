"""Ablation bars: bars, intervals and references as given, the core told from its controls without colour."""

import pytest

from invariscope.errors import ConfigError, TooFewSamplesError
from invariscope.figures import Ablation, AblationBars, draw_ablation_bars

BARS = (
    Ablation(panel="four", edit="full", name="core", role="core", value=0.926, low=0.92, high=0.93),
    Ablation(panel="four", edit="keep", name="core", role="core", value=0.927, low=0.921, high=0.932),
    Ablation(panel="four", edit="full", name="random", value=0.926),
    Ablation(panel="four", edit="keep", name="random", value=1.31),
    Ablation(panel="twelve", edit="keep", name="random", value=2.4),
)


def test_bars_stand_in_their_arm_and_group_with_their_intervals():
    figure = draw_ablation_bars(AblationBars(bars=BARS))
    core, random, other = figure.plot["data"]
    assert (core["x"], core["y"]) == (["full", "keep"], [0.926, 0.927])
    assert core["error_y"]["array"] == pytest.approx([0.004, 0.005])
    assert "error_y" not in random
    assert (other["xaxis"], other["y"], other["showlegend"]) == ("x2", [2.4], False)
    assert figure.plot["layout"]["xaxis"]["categoryarray"] == ["full", "keep"]


def test_the_core_is_solid_and_controls_are_hatched():
    core, random, _ = draw_ablation_bars(AblationBars(bars=BARS)).plot["data"]
    assert core["marker"]["pattern"]["shape"] == ""
    assert random["marker"]["pattern"]["shape"]
    assert (core["meta"]["role"], random["meta"]["role"]) == ("core", "control")


def test_references_are_drawn_where_they_are_known_and_named_with_their_value():
    figure = draw_ablation_bars(AblationBars(bars=BARS, chance={"four": 1.3584}, optimum={"four": 0.9258, "twelve": 2.0215}))
    lines = [(shape["yref"], shape["y0"], shape["line"]["dash"]) for shape in figure.plot["layout"]["shapes"]]
    assert lines == [("y", 1.3584, "dash"), ("y", 0.9258, "dot"), ("y2", 2.0215, "dot")]
    keys = [note["text"] for note in figure.plot["layout"]["annotations"] if note["name"] == "key"]
    assert keys == ["– – chance 1.358, · · · optimum 0.9258", "· · · optimum 2.022"]
    assert "four: full 0.926, keep 0.927, chance 1.358, optimum 0.9258." in figure.alt


def test_the_table_has_a_row_a_bar():
    figure = draw_ablation_bars(AblationBars(bars=BARS, chance={"four": 1.3584}))
    assert figure.rows[0] == ("four", "full", "core", "core", 0.926, 0.92, 0.93, 1.3584, None)
    assert figure.rows[-1] == ("twelve", "keep", "random", "control", 2.4, None, None, None, None)
    assert figure.columns[4] == "cross-entropy (nats)"


def test_bad_input_is_refused():
    with pytest.raises(TooFewSamplesError, match="without bars"):
        draw_ablation_bars(AblationBars(bars=()))
    with pytest.raises(ConfigError, match="role 'reference' of 'x'"):
        draw_ablation_bars(AblationBars(bars=(Ablation(panel="a", edit="keep", name="x", value=1.0, role="reference"),)))
