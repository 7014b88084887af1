"""When does a logged curve change? The one step that fits it best, the first crossing of a level, the steepest rise, the lag.

A phase of learning is seen as a jump in a curve: the accuracy of a pool, the share of attention at the right place.
:func:`change_point` fits two levels, one before and one after, by least squares; where it splits is the change, whatever is
called high and whichever way the curve goes. On a curve that rises slowly this is where it passes midway between the means of
both sides, which is near, but not exactly at, its steepest point. :func:`crossing` and :func:`steepest_rise` are the same curve
read against a level and inside a window, and :func:`lag` says how much later one change is than another, with an interval.

>>> steps = torch.arange(0, 1000, 100)
>>> curve = torch.tensor([0.1, 0.1, 0.1, 0.1, 0.2, 0.9, 0.9, 0.9, 0.9, 0.9])
>>> found = change_point(steps, curve, torch.Generator().manual_seed(0))
>>> found.step.value, round(found.before, 2), round(found.after, 2)
(450.0, 0.12, 0.9)
>>> round(crossing(steps, curve, 0.5)), steepest_rise(steps, curve, window=100).start
(443, 400.0)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from invariscope.errors import ConfigError, ShapeError, TooFewSamplesError
from invariscope.estimate import Estimate
from invariscope.numerics.linalg import as_float64
from invariscope.numerics.resampling import quantile_interval

__all__ = ["ChangePoint", "Rise", "change_point", "crossing", "lag", "lag_over_seeds", "steepest_rise"]

# On either side of a change: one point alone, such as the first, is no level.
_LEAST_SIDE = 2
_LEAST_POINTS = 6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChangePoint:
    """The largest step-like change of a curve.

    Args:
        step: where, midway between the last logged step before and the first one after the change. Its interval reaches from the
            former to the latter at least: what happened between two logged steps was not seen.
        before, after: mean of the curve on either side.
        explained: share of the curve's variance that the two levels explain, in [0, 1].
        draws: [num, 2], the two logged steps around the change of each redrawn curve.
    """

    step: Estimate
    before: float
    after: float
    explained: float
    draws: Float[Tensor, "num 2"]

    def __post_init__(self) -> None:
        if self.draws.ndim != 2 or self.draws.shape[1] != 2:
            raise ShapeError(f"draws of shape {list(self.draws.shape)}", expected="[num, 2]", do="make it with change_point")

    @property
    def size(self) -> float:
        """How far the curve rises (or falls, below 0)."""
        return self.after - self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class Rise:
    """The largest rise of a curve inside a window.

    Args:
        size: how much higher the curve is at ``end``; at most 0 where it never rises.
        start, end: the two logged steps.
    """

    size: float
    start: float
    end: float


def change_point(
    steps: Int[Tensor, "n"] | Sequence[int],
    values: Float[Tensor, "n"] | Sequence[float],
    generator: torch.Generator,
    *,
    num: int = 1000,
    level: float = 0.95,
) -> ChangePoint:
    """The split into two levels with the smallest sum of squares, with a bootstrap interval.

    ``argmin_i sum_{j < i} (v_j - mean_before)^2 + sum_{j >= i} (v_j - mean_after)^2``, at least two points on either side.

    The interval is from a residual bootstrap without blocks. The smooth part of the curve is its running mean of three points;
    the residual of a point is its distance from the mean of its two neighbours, times sqrt(2/3), which gives it the variance of
    the noise (Gasser, Sroka and Jennen-Steinmetz 1986, doi:10.1093/biomet/73.3.625). Each redrawn curve is the smooth part
    plus residuals drawn independently with replacement, and is split anew.

    Args:
        steps: [n], increasing.
        values: [n], the curve, in any unit. All points weigh alike, so log evenly.
        generator: for the draws.
        num: number of draws.
        level: coverage of the interval.

    Raises:
        TooFewSamplesError: for fewer than six points.
        ConfigError: for a curve that never changes, steps that do not increase, or no draws.
        ShapeError, NonFiniteError: for what is no curve.

    Notes:
        Residuals about the two levels themselves would call the ramp of a slow rise noise and put it anywhere: such intervals
        cover a sigmoid's middle in 50 % of trials, these in 95 % or more.
    """
    steps, values = _curve(steps, values, least=_LEAST_POINTS)
    if num < 1 or not 0 < level < 1:
        raise ConfigError(f"{num} draws at level {level}", expected="num >= 1 and 0 < level < 1", do="use 1000 and .95")
    if bool((values == values[0]).all()):
        raise ConfigError(
            f"a curve of {len(values)} values that are all {float(values[0]):g}",
            expected="a curve that changes",
            do="log for longer, or leave this curve out",
        )
    first_after = int(_splits(values[None]))
    before, after = values[:first_after], values[first_after:]
    residual = (before - before.mean()).pow(2).sum() + (after - after.mean()).pow(2).sum()
    total = (values - values.mean()).pow(2).sum()
    splits = _splits(_redrawn(values, num, generator))
    draws = torch.stack([steps[splits - 1], steps[splits]], dim=1)
    low, _ = quantile_interval(draws[:, 0], level)
    _, high = quantile_interval(draws[:, 1], level)
    last_before, at = float(steps[first_after - 1]), float(steps[first_after])
    return ChangePoint(
        step=Estimate(
            value=(last_before + at) / 2,
            low=min(low, last_before),
            high=max(high, at),
            num=len(values),
            unit="steps",
            level=level,
            method=f"residual bootstrap of {len(values)} logged steps",
        ),
        before=float(before.mean()),
        after=float(after.mean()),
        explained=1 - float(residual / total),
        draws=draws,
    )


def crossing(
    steps: Int[Tensor, "n"] | Sequence[int],
    values: Float[Tensor, "n"] | Sequence[float],
    level: float,
    *,
    stay: int | None = 1,
) -> float | None:
    """The first step at which a curve reaches a level and stays there, interpolated linearly between logged steps.

    Args:
        steps: [n], increasing.
        values: [n], the curve.
        level: reached where ``value >= level``.
        stay: how many logged values in a row must be at the level, from the first on; None: all to the end.

    Returns:
        The step; the first logged one where the curve begins at the level; None where it is never reached.

    Raises:
        ConfigError: for steps that do not increase, or ``stay < 1``. ShapeError, NonFiniteError, TooFewSamplesError: for what is
            no curve.

    >>> curve = [0.0, 1.0, 0.0, 1.0]
    >>> crossing([0, 100, 200, 300], curve, 0.5), crossing([0, 100, 200, 300], curve, 0.5, stay=None)
    (50.0, 250.0)
    """
    steps, values = _curve(steps, values, least=1)
    if stay is not None and stay < 1:
        raise ConfigError(f"stay = {stay}", expected="at least 1, or None for all to the end", do="leave it at 1")
    if not math.isfinite(level):
        raise ConfigError(f"level = {level}", expected="a finite number", do="give a level in the curve's unit")
    num = len(values)
    # For each point, the first point from it on that is below the level (n where there is none).
    below = torch.where(values < level, torch.arange(num, device=values.device), num)
    next_below = below.flip(0).cummin(0).values.flip(0)
    held = next_below - torch.arange(num, device=values.device)
    found = (next_below == num) & (held > 0) if stay is None else held >= stay
    if not bool(found.any()):
        return None
    at = int(found.double().argmax())
    if at == 0:
        return float(steps[0])
    share = (level - values[at - 1]) / (values[at] - values[at - 1])
    return float(steps[at - 1] + share.clamp(0.0, 1.0) * (steps[at] - steps[at - 1]))


def steepest_rise(
    steps: Int[Tensor, "n"] | Sequence[int],
    values: Float[Tensor, "n"] | Sequence[float],
    window: float,
    *,
    after: float | None = None,
) -> Rise:
    """The largest ``v_j - v_i`` over logged steps with ``0 < step_j - step_i <= window``; the shortest of equal ones.

    Args:
        steps: [n], increasing.
        values: [n], the curve.
        window: in steps.
        after: only rises that start at this step or later; None: all.

    Raises:
        TooFewSamplesError: where no two logged steps fit into the window. ConfigError, ShapeError, NonFiniteError: for what is
            no curve.
    """
    steps, values = _curve(steps, values, least=2)
    gaps = steps[None, :] - steps[:, None]
    allowed = (gaps > 0) & (gaps <= window)
    if after is not None:
        allowed &= (steps >= after)[:, None]
    if not bool(allowed.any()):
        since = "" if after is None else f" from step {after:g} on"
        raise TooFewSamplesError(
            f"a window of {window:g} steps{since}, with {len(steps)} logged from {float(steps[0]):g} to {float(steps[-1]):g}",
            expected="two logged steps inside a window",
            do="log more often, or widen the window",
        )
    rises = torch.where(allowed, values[None, :] - values[:, None], -math.inf)
    best = rises.max()
    index = int(torch.where(rises == best, gaps, math.inf).argmin())
    start, end = divmod(index, len(steps))
    return Rise(size=float(best), start=float(steps[start]), end=float(steps[end]))


def lag(a: ChangePoint, b: ChangePoint) -> Estimate:
    """How many steps later b changes than a, with an interval from the draws of both.

    The draws are paired at random, as of independent curves. Curves logged in one training share its accidents, which makes
    the interval too wide rather than too narrow.

    Raises:
        ShapeError: where the numbers of draws differ. ConfigError: where the levels do.
    """
    if len(a.draws) != len(b.draws):
        raise ShapeError(
            f"{len(a.draws)} and {len(b.draws)} draws", expected="as many of both", do="call change_point with one num="
        )
    if a.step.level != b.step.level:
        raise ConfigError(
            f"levels {a.step.level} and {b.step.level}", expected="one level", do="call change_point with one level="
        )
    value = b.step.value - a.step.value
    # Rolled by one, so that two generators of one seed do not pair equal draws.
    later = b.draws.roll(1, dims=0)
    low, _ = quantile_interval(later[:, 0] - a.draws[:, 1], a.step.level)
    _, high = quantile_interval(later[:, 1] - a.draws[:, 0], a.step.level)
    return Estimate(
        value=value,
        low=min(low, value),
        high=max(high, value),
        num=min(a.step.num, b.step.num),
        unit="steps",
        level=a.step.level,
        method=f"residual bootstrap of both curves, {len(a.draws)} draws",
    )


def lag_over_seeds(a: Sequence[ChangePoint | float], b: Sequence[ChangePoint | float], *, level: float = 0.95) -> Estimate:
    """Mean of how many steps later b changes than a in the same training, with Student's interval over the seeds.

    Args:
        a, b: one change point (or step, such as of :func:`crossing`) a seed, in the same order.
        level: coverage of the interval.

    Raises:
        ShapeError: where the numbers differ. TooFewSamplesError: for fewer than two seeds. NonFiniteError: for infinite steps.
        ConfigError: for a level that is none.

    >>> print(lag_over_seeds([100.0, 200.0, 300.0], [150.0, 260.0, 340.0]))
    50 [25.16, 74.84] steps
    """
    if len(a) != len(b):
        raise ShapeError(f"{len(a)} and {len(b)} change points", expected="one of each a seed", do="leave out the same seeds")
    if len(a) < 2:
        raise TooFewSamplesError(f"{len(a)} seeds", expected="at least two", do="use lag for a single training")
    if not 0 < level < 1:
        raise ConfigError(f"level = {level}", expected="a number between 0 and 1", do="use .95")
    from scipy.special import stdtrit

    at = [[point.step.value if isinstance(point, ChangePoint) else float(point) for point in side] for side in (a, b)]
    lags = as_float64("lags", torch.tensor(at[1], dtype=torch.float64) - torch.tensor(at[0], dtype=torch.float64), ndim=1)
    mean, half = float(lags.mean()), float(stdtrit(len(a) - 1, (1 + level) / 2)) * float(lags.std()) / math.sqrt(len(a))
    return Estimate(
        value=mean,
        low=mean - half,
        high=mean + half,
        num=len(a),
        unit="steps",
        level=level,
        method=f"Student's t over {len(a)} seeds",
    )


def _curve(
    steps: Tensor | Sequence[int], values: Tensor | Sequence[float], *, least: int
) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"]]:
    steps = as_float64("steps", steps if isinstance(steps, Tensor) else torch.tensor(steps, dtype=torch.float64), ndim=1)
    values = as_float64("values", values if isinstance(values, Tensor) else torch.tensor(values, dtype=torch.float64), ndim=1)
    if len(steps) != len(values):
        raise ShapeError(
            f"{len(steps)} steps and {len(values)} values", expected="one value a logged step", do="give one curve and its steps"
        )
    if len(values) < least:
        raise TooFewSamplesError(f"a curve of {len(values)} points", expected=f"at least {least}", do="log more often")
    if bool((steps.diff() <= 0).any()):
        raise ConfigError("steps that do not increase", expected="each later than the one before", do="sort the curve by step")
    return steps, values.to(steps.device)


def _splits(curves: Float[Tensor, "B n"]) -> Int[Tensor, "B"]:
    """Index of the first point after the change of each curve."""
    num = curves.shape[1]
    sums = curves.cumsum(1)[:, :-1]
    k = torch.arange(1, num, dtype=curves.dtype, device=curves.device)
    means_before, means_after = sums / k, (curves.sum(1, keepdim=True) - sums) / (num - k)
    # What the two levels take off the sum of squares; the largest is the least-squares split.
    gains = k * (num - k) * (means_after - means_before) ** 2
    gains[:, : _LEAST_SIDE - 1] = gains[:, num - _LEAST_SIDE :] = -1.0
    return gains.argmax(1) + 1


def _redrawn(values: Float[Tensor, "n"], num: int, generator: torch.Generator) -> Float[Tensor, "num n"]:
    padded = torch.cat([values[:1], values, values[-1:]])
    smooth = (padded[:-2] + padded[1:-1] + padded[2:]) / 3
    residuals = (values - (padded[:-2] + padded[2:]) / 2) * math.sqrt(2 / 3)
    shape = (num, len(values))
    drawn = torch.randint(len(values), shape, generator=generator, device=generator.device).to(values.device)
    return smooth + (residuals - residuals.mean())[drawn]
