"""Change points, crossings, rises and lags of curves whose truth is known."""

from __future__ import annotations

import math

import pytest
import torch

from invariscope.errors import ConfigError, NonFiniteError, ShapeError, TooFewSamplesError
from invariscope.numerics import change_point, crossing, lag, lag_over_seeds, steepest_rise

STEPS = torch.arange(0, 6001, 100)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sigmoid(middle: float, width: float, low: float = 0.2, high: float = 0.95) -> torch.Tensor:
    return low + (high - low) * torch.sigmoid((STEPS - middle).double() / width)


def noise(g: torch.Generator, size: float) -> torch.Tensor:
    return size * torch.randn(len(STEPS), dtype=torch.float64, generator=g)


def test_a_clean_step_is_found_between_its_two_logged_steps():
    values = torch.where(STEPS < 2000, 0.1, 0.8)
    found = change_point(STEPS, values, generator())
    assert found.step.value == 1950.0
    assert (found.step.low, found.step.high) == (1900.0, 2000.0)
    assert (found.before, found.after) == pytest.approx((0.1, 0.8))
    assert found.size == pytest.approx(0.7)
    assert found.explained == pytest.approx(1.0)
    assert "residual bootstrap of 61 logged steps" in found.step.method


def test_the_split_is_that_of_least_squares():
    g = generator(3)
    values = sigmoid(2500, 600) + noise(g, 0.1)
    found = change_point(STEPS, values, g)
    costs = [
        float((values[:i] - values[:i].mean()).pow(2).sum() + (values[i:] - values[i:].mean()).pow(2).sum())
        for i in range(2, len(STEPS) - 1)
    ]
    best = 2 + min(range(len(costs)), key=costs.__getitem__)
    assert found.step.value == float(STEPS[best - 1] + STEPS[best]) / 2
    assert found.explained == pytest.approx(1 - min(costs) / float((values - values.mean()).pow(2).sum()))


@pytest.mark.parametrize(("width", "size"), [(10.0, 0.15), (150.0, 0.05), (400.0, 0.05), (400.0, 0.15)])
def test_the_interval_covers_the_middle_of_a_noisy_sigmoid(width: float, size: float):
    g = generator(1)
    covered, trials = 0, 100
    for _ in range(trials):
        middle = 2900 + 200 * float(torch.rand((), generator=g))
        step = change_point(STEPS, sigmoid(middle, width) + noise(g, size), g, num=200).step
        assert step.low is not None
        assert step.high is not None
        covered += step.low <= middle <= step.high
    assert covered >= 90


def test_noise_widens_the_interval_and_half_of_the_level_narrows_it():
    def width(size: float, level: float = 0.95) -> float:
        step = change_point(STEPS, sigmoid(3000, 300) + noise(generator(5), size), generator(), level=level).step
        assert step.low is not None
        assert step.high is not None
        return step.high - step.low

    assert width(0.01) < width(0.1) < width(0.3)
    assert width(0.1, level=0.5) < width(0.1)


def test_a_fall_is_a_change_too_and_scale_and_offset_do_not_matter():
    values = sigmoid(3000, 100) + noise(generator(2), 0.05)
    up, down = (change_point(STEPS, curve, generator()) for curve in (values, 5 - 3 * values))
    assert up.step.value == down.step.value
    assert down.size == pytest.approx(-3 * up.size)
    assert torch.equal(up.draws, down.draws)


def test_one_outlier_at_an_end_is_no_level():
    values = torch.where(STEPS < 3000, 0.4, 0.6).double()
    values[0] = -0.4
    assert change_point(STEPS, values, generator()).step.value == 2950.0


def test_crossing_interpolates_and_can_ask_to_stay():
    steps, values = [0, 100, 200, 300, 400, 500], [0.0, 0.6, 0.2, 0.6, 0.6, 1.0]
    assert crossing(steps, values, 0.3) == pytest.approx(50.0)
    assert crossing(steps, values, 0.3, stay=2) == pytest.approx(225.0)
    assert crossing(steps, values, 0.3, stay=None) == pytest.approx(225.0)
    assert crossing(steps, values, 0.3, stay=4) is None
    assert crossing(steps, values, 1.0) == pytest.approx(500.0)
    assert crossing(steps, values, 1.01) is None
    assert crossing(steps, values, 0.0) == 0.0
    assert crossing(steps, [1.0] * 5 + [0.0], 0.5, stay=None) is None


def test_steepest_rise_inside_its_window():
    steps, values = [0, 100, 200, 300, 400, 1000], [0.0, 0.3, 0.35, 0.3, 0.5, 1.0]
    found = steepest_rise(steps, values, window=100)
    assert (found.size, found.start, found.end) == (pytest.approx(0.3), 0.0, 100.0)
    assert steepest_rise(steps, values, window=200).size == pytest.approx(0.35)
    late = steepest_rise(steps, values, window=100, after=100)
    assert (late.size, late.start, late.end) == (pytest.approx(0.2), 300.0, 400.0)
    assert steepest_rise(steps, values, window=1000).size == pytest.approx(1.0)
    assert steepest_rise([0, 10, 20], [3.0, 2.0, 0.0], window=100).size == -1.0


def test_the_lag_covers_the_truth_and_is_antisymmetric():
    g = generator(4)
    covered = 0
    for _ in range(40):
        early, late = (change_point(STEPS, sigmoid(at, 150) + noise(g, 0.08), g, num=200) for at in (2600.0, 3300.0))
        found = lag(early, late)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 700 <= found.high
        assert lag(late, early).value == -found.value
    assert covered >= 37
    same = lag(early, early)
    assert same.low is not None
    assert same.high is not None
    assert same.low <= -100 < same.value == 0.0 < 100 <= same.high


def test_the_lag_over_seeds_is_students():
    early = [1000.0, 1200.0, 900.0]
    points = [change_point(STEPS, STEPS.ge(at + 500).double(), generator()) for at in early]
    found = lag_over_seeds(early, points)
    lags = torch.tensor([point.step.value - at for point, at in zip(points, early, strict=True)], dtype=torch.float64)
    assert lags.tolist() == [450.0] * 3
    assert (found.value, found.low, found.high, found.num) == (450.0, 450.0, 450.0, 3)
    spread = lag_over_seeds([0.0, 0.0], [100.0, 200.0])
    assert spread.high == pytest.approx(150 + 12.7062 * 50)  # t at 97.5 % with one degree of freedom
    assert spread.method == "Student's t over 2 seeds"


def test_what_is_no_curve_is_refused():
    with pytest.raises(TooFewSamplesError, match="a curve of 5 points; expected at least 6; log more often"):
        change_point(list(range(5)), [0.0, 0.0, 1.0, 1.0, 1.0], generator())
    with pytest.raises(ConfigError, match=r"a curve of 61 values that are all 0.5; expected a curve that changes"):
        change_point(STEPS, torch.full((61,), 0.5), generator())
    with pytest.raises(ConfigError, match="0 draws"):
        change_point(STEPS, sigmoid(3000, 10), generator(), num=0)
    with pytest.raises(NonFiniteError, match="values of shape"):
        crossing([0, 1], [0.0, math.nan], 0.5)
    with pytest.raises(ShapeError, match="3 steps and 2 values"):
        crossing([0, 1, 2], [0.0, 1.0], 0.5)
    with pytest.raises(ConfigError, match="steps that do not increase"):
        steepest_rise([0, 2, 2], [0.0, 1.0, 2.0], window=5)
    with pytest.raises(ConfigError, match="stay = 0"):
        crossing([0, 1], [0.0, 1.0], 0.5, stay=0)
    with pytest.raises(ConfigError, match="level = nan"):
        crossing([0, 1], [0.0, 1.0], math.nan)
    with pytest.raises(TooFewSamplesError, match="a window of 5 steps from step 20 on, with 3 logged from 0 to 20"):
        steepest_rise([0, 10, 20], [0.0, 1.0, 2.0], window=5, after=20)
    points = [change_point(STEPS, sigmoid(3000, 10), generator(), num=num) for num in (10, 20)]
    with pytest.raises(ShapeError, match="10 and 20 draws"):
        lag(*points)
    with pytest.raises(ConfigError, match=r"levels 0.95 and 0.9"):
        lag(points[0], change_point(STEPS, sigmoid(3000, 10), generator(), num=10, level=0.9))
    with pytest.raises(TooFewSamplesError, match="1 seeds"):
        lag_over_seeds(points[:1], points[1:])
    with pytest.raises(ShapeError, match="1 and 2 change points"):
        lag_over_seeds(points[:1], points)
