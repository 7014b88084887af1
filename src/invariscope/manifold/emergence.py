"""Gradient flow in the manifold's coordinates, and when a loss falls: emergence times and their laws.

The flow dθ/dt = -G⁻¹ ∂L/∂θ is followed by an adaptive Runge-Kutta scheme of orders 3 and 2 (Bogacki and Shampine 1989), each
point of a batch with its own step, so that thousands of initial conditions cost little more than one.

>>> times = torch.tensor([0.0, 1.0, 2.0])
>>> float(crossing_time(times, torch.tensor([1.0, 0.6, 0.2]), 0.5))
1.25
>>> [round(value, 3) for value in local_exponents([1, 2, 4], [3.0, 12.0, 48.0])]
[2.0, 2.0]
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from invariscope.errors import ConfigError
from invariscope.manifold.dynamics import ReducedLoss, Trajectory

__all__ = ["crossing_time", "emergence_times", "flow", "local_exponents"]


def flow(
    reduced: ReducedLoss,
    theta: Float[Tensor, "N dim"],
    *,
    until_loss: float,
    longest: float,
    tolerance: float = 1e-4,
    frozen: Sequence[int] = (),
    watched: ReducedLoss | None = None,
) -> Trajectory:
    """Follow the flow of each point until its loss is below ``until_loss``, or for the time ``longest``.

    Args:
        reduced: the loss. theta: where to start.
        watched: another loss of the same manifold that is kept and stopped by, such as that of rare sequences alone.
        tolerance: of a step, absolute in each coordinate and relative to its size.
        frozen: coordinates that stay as they are.

    Returns:
        Times, losses and coordinates after each accepted step; a point that has ended stays where it is.

    Raises:
        ConfigError: for a time or a tolerance that is not positive.
    """
    if longest <= 0 or tolerance <= 0:
        raise ConfigError(f"longest = {longest}, tolerance = {tolerance}", expected="positive numbers", do="raise it")
    moving = torch.ones(reduced.manifold.dim, dtype=theta.dtype)
    moving[list(frozen)] = 0.0
    if frozen:
        support = ((moving != 0) | (theta != 0).any(0)).nonzero()[:, 0].tolist()
        reduced = reduced.restricted(support)
        watched = None if watched is None else watched.restricted(support)

    def slope(point: Tensor) -> tuple[Tensor, Tensor]:
        found, losses = reduced.gradient(point)
        return -found * moving, losses

    def seen(point: Tensor, losses: Tensor) -> Tensor:
        if watched is None:
            return losses
        with torch.no_grad():
            return watched(point)

    time = torch.zeros(len(theta), dtype=theta.dtype)
    first, losses = slope(theta)
    losses = seen(theta, losses)
    step = 1e-3 / first.abs().amax(1).clamp_min(1e-9)
    kept = [(time, losses, theta)]
    while bool((running := (losses > until_loss) & (time < longest)).any()):
        step = torch.minimum(step, longest - time).clamp_min(0.0)
        h = torch.where(running, step, 0.0)[:, None]
        second, _ = slope(theta + 0.5 * h * first)
        third, _ = slope(theta + 0.75 * h * second)
        ahead = theta + h * (2 / 9 * first + 1 / 3 * second + 4 / 9 * third)
        fourth, reached = slope(ahead)
        error = h * (-5 / 72 * first + 1 / 12 * second + 1 / 9 * third - 1 / 8 * fourth)
        size = (error / (tolerance * (1 + ahead.abs()))).abs().amax(1)
        good = running & (size <= 1) & reached.isfinite()
        growth = (0.9 * size.clamp_min(1e-8) ** (-1 / 3)).clamp(0.2, 5.0)
        time = torch.where(good, time + h[:, 0], time)
        theta = torch.where(good[:, None], ahead, theta)
        first = torch.where(good[:, None], fourth, first)
        losses = torch.where(good, seen(ahead, reached), losses)
        step = torch.where(running, step * growth, step)
        if bool(good.any()):
            kept.append((time, losses, theta))
    times, every, points = zip(*kept, strict=True)
    return Trajectory(times=torch.stack(times), losses=torch.stack(every), coordinates=torch.stack(points))


def emergence_times(
    reduced: ReducedLoss,
    theta: Float[Tensor, "N dim"],
    *,
    loss: float = 0.5,
    longest: float = 1e5,
    tolerance: float = 1e-4,
    frozen: Sequence[int] = (),
    watched: ReducedLoss | None = None,
) -> Float[Tensor, "N"]:
    """When the flow of each point first has a loss below ``loss``; infinite where it has not by ``longest``.

    Args:
        reduced, theta, tolerance, frozen, watched: as for :func:`flow`.
    """
    found = flow(reduced, theta, until_loss=loss, longest=longest, tolerance=tolerance, frozen=frozen, watched=watched)
    return torch.stack([crossing_time(found.times[:, n], found.losses[:, n], loss) for n in range(len(theta))])


def crossing_time(times: Float[Tensor, "S"], losses: Float[Tensor, "S"], level: float) -> Float[Tensor, ""]:
    """When a curve first falls to ``level``, linear between its points; infinite where it never does."""
    below = (losses <= level).nonzero()
    if not len(below):
        return torch.tensor(math.inf, dtype=losses.dtype)
    at = int(below[0])
    if at == 0:
        return times[0]
    share = (losses[at - 1] - level) / (losses[at - 1] - losses[at])
    return times[at - 1] + share * (times[at] - times[at - 1])


def local_exponents(sizes: Sequence[float], values: Sequence[float]) -> list[float]:
    """d log value / d log size between neighbours."""
    pairs = list(zip(sizes, values, strict=True))
    return [math.log(after[1] / before[1]) / math.log(after[0] / before[0]) for before, after in itertools.pairwise(pairs)]
