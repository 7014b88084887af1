"""Worst seeds: picks, sizes and ranges by hand."""

from __future__ import annotations

from invariscope.estimate import Estimate
from invariscope.experiments.worst import end, farthest, largest, over, size


def estimate(value: float, low: float | None = None, high: float | None = None) -> Estimate:
    return Estimate(value=value, low=low, high=high, num=1)


def test_size_turns_a_negative_change_round_and_keeps_zero_inside():
    assert size(estimate(-2.0, -3.0, -1.0)) == (2.0, 1.0, 3.0)
    assert size(estimate(-1.0, -2.0, 0.5)) == (1.0, 0.0, 2.0)
    assert size(estimate(-1.0)) == (1.0, 1.0, 1.0)


def test_an_end_that_is_not_there_is_the_value():
    assert end(None, estimate(4.0)) == 4.0
    assert end(0.0, estimate(4.0)) == 0.0


def test_picks():
    assert largest([estimate(1.0), estimate(3.0), estimate(2.0)]).value == 3.0
    assert farthest(3)([3, 5, 2]) == 5
    assert farthest(3)([3, 4, 1]) == 1


def test_a_control_has_a_range_only_over_several():
    assert (over("x", [0.5], max).low, over("x", [0.5], max).high) == (None, None)
    both = over("x", [0.5, 0.7], min)
    assert (both.value, both.low, both.high) == (0.5, 0.5, 0.7)
