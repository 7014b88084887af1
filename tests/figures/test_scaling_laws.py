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


def test_what_has_no_logarithm_is_refused():
    with pytest.raises(ConfigError, match="law 'sampled' with a size or value that is not positive"):
        draw(law(values=(0.8, 0.0, 0.2)))
    with pytest.raises(ConfigError, match="not positive"):
        draw(law(values=(0.8, math.inf, 0.2)))
    with pytest.raises(ShapeError, match="law 'sampled'"):
        draw(law(values=(0.8,)))
    with pytest.raises(TooFewSamplesError, match="laws"):
        draw()
