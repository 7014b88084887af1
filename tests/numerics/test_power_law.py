"""Slopes of power laws: exact ones exactly, noisy ones inside their interval as often as it says."""

import math

import pytest
import torch

from invariscope.errors import ConfigError, ShapeError, TooFewSamplesError
from invariscope.numerics.power_law import fit_power_law


def test_an_exact_law_is_found_exactly():
    sizes = (1.0, 3.0, 10.0, 40.0)
    found = fit_power_law(sizes, [7.0 * size**-1.5 for size in sizes])
    assert (found.slope, found.factor, found.num) == (pytest.approx(-1.5), pytest.approx(7.0), 4)
    assert found.high - found.low < 1e-6


def test_the_interval_holds_the_truth_as_often_as_it_says():
    generator = torch.Generator().manual_seed(0)
    sizes = [2.0**power for power in range(6)]
    inside = 0
    for _ in range(2000):
        noise = torch.randn(6, generator=generator, dtype=torch.float64).mul(0.2).exp().tolist()
        found = fit_power_law(sizes, [size**0.5 * error for size, error in zip(sizes, noise, strict=True)], level=0.9)
        inside += found.low < 0.5 < found.high
    assert inside / 2000 == pytest.approx(0.9, abs=0.03)


def test_what_is_no_power_law_has_a_wide_interval():
    sizes = (1.0, 2.0, 3.0, 4.0)
    bent = fit_power_law(sizes, [math.exp(size) for size in sizes])
    assert bent.high - bent.low > 0.5


def test_what_does_not_fit_is_said():
    with pytest.raises(ShapeError, match="2 values of 3 sizes"):
        fit_power_law((1, 2, 3), (1, 2))
    with pytest.raises(TooFewSamplesError, match="2 points of 2 sizes; expected three points"):
        fit_power_law((1, 2), (1, 2))
    with pytest.raises(TooFewSamplesError, match="3 points of 1 sizes"):
        fit_power_law((2, 2, 2), (1, 2, 3))
    with pytest.raises(ConfigError, match="not positive"):
        fit_power_law((1, 2, 3), (1, 0, 2))
