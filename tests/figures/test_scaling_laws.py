"""Scaling laws: logarithmic axes around the values, slopes in words, and what has no logarithm."""

import math

import pytest

from invariscope.errors import ConfigError, ShapeError, TooFewSamplesError
from invariscope.figures import ScalingLaw, ScalingLaws, draw_scaling_laws


def law(name="sampled", **changes):
    return ScalingLaw(panel="noise", name=name, **({"sizes": (16, 64, 256), "values": (0.8, 0.4, 0.2)} | changes))


def draw(*laws, **changes):
    return draw_scaling_laws(ScalingLaws(laws=laws, title="Noise", x_title="batch", quantity="share", **changes))


def test_points_reach_traces_and_table():
    figure = draw(law(slope=-0.5), law("null", role="control"), keys={"noise": "mark -0.5"}, note="Twelve draws each.")
    trace, control = figure.plot["data"]
    assert (trace["x"], trace["y"]) == ([16, 64, 256], [0.8, 0.4, 0.2])
    assert control["marker"]["symbol"].endswith("open")
    axis = figure.plot["layout"]["xaxis"]
    assert axis["type"] == figure.plot["layout"]["yaxis"]["type"] == "log"
    assert axis["range"][0] < math.log10(16) < math.log10(256) < axis["range"][1]
    assert figure.columns == ("panel", "line", "batch", "share")
    assert figure.caption == (
        "Share against batch, both axes logarithmic. Slopes: noise, sampled: slope -0.50. Twelve draws each."
    )
    assert "noise, sampled: 0.8 at 16, 0.2 at 256." in figure.alt


def test_a_slope_has_its_interval_with_digits_enough_to_see_it():
    assert "slope -0.48 [-0.52, -0.45]." in draw(law(slope=-0.48, interval=(-0.52, -0.45))).caption
    assert "slope -0.9987 [-1.0010, -0.9964]." in draw(law(slope=-0.9987, interval=(-1.001, -0.9964))).caption


@pytest.mark.parametrize(
    ("sizes", "ticks"),
    [
        ((2, 64), {"tickvals": [2, 5, 10, 20, 50], "ticktext": ["2", "5", "10", "20", "50"]}),
        ((0.05, 0.5), {"tickvals": [0.05, 0.1, 0.2, 0.5], "ticktext": ["0.05", "0.1", "0.2", "0.5"]}),
        ((1, 1000), {"dtick": 1}),
        ((2.2, 3.4), {"tickvals": [2.1, 2.7, 3.6], "ticktext": ["2.1", "2.7", "3.6"]}),
    ],
)
def test_ticks_are_whole_numbers_that_can_be_read(sizes, ticks):
    axis = draw(law(sizes=sizes, values=(0.5, 0.5))).plot["layout"]["xaxis"]
    assert {name: pytest.approx(axis[name]) if name == "tickvals" else axis[name] for name in ticks} == ticks
    assert ("dtick" in axis) == ("dtick" in ticks)
    if "tickvals" in ticks:
        assert all(axis["range"][0] <= math.log10(value) <= axis["range"][1] for value in axis["tickvals"])


def test_what_has_no_logarithm_is_refused():
    with pytest.raises(ConfigError, match="law 'sampled' with a size or value that is not positive"):
        draw(law(values=(0.8, 0.0, 0.2)))
    with pytest.raises(ConfigError, match="not positive"):
        draw(law(values=(0.8, math.inf, 0.2)))
    with pytest.raises(ShapeError, match="law 'sampled'"):
        draw(law(values=(0.8,)))
    with pytest.raises(TooFewSamplesError, match="laws"):
        draw()
