"""The number of the seed that serves a claim worst: how several seeds become one value, one interval and one control.

So one bad seed is enough to fail a claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from invariscope.estimate import Estimate
from invariscope.storage.claims import Control, Mark

__all__ = ["Measured", "end", "farthest", "largest", "over", "size"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A claim's number.

    Args:
        value, low, high: the number and its interval.
        num: models, pairs or transplants behind it. seeds: of those.
        controls: the same measurement on nulls.
        note: how to read it.
        mark: where the mark follows from the null's own law and not from a table.
    """

    value: float
    low: float | None
    high: float | None
    num: int
    seeds: Iterable[int]
    controls: Sequence[Control]
    note: str = ""
    mark: Mark | None = None


def end(limit: float | None, estimate: Estimate) -> float:
    """An end of the interval; the value itself where there is none."""
    return estimate.value if limit is None else limit


def size(estimate: Estimate) -> tuple[float, float, float]:
    """|value| and the interval of it."""
    low, high = end(estimate.low, estimate), end(estimate.high, estimate)
    ends = sorted((abs(low), abs(high)))
    return abs(estimate.value), 0.0 if low < 0 < high else ends[0], ends[1]


def largest(estimates: Sequence[Estimate]) -> Estimate:
    """The one with the largest value."""
    return max(estimates, key=lambda estimate: estimate.value)


def over(name: str, values: Sequence[float], pick: Callable[[Sequence[float]], float], mark: Mark | None = None) -> Control:
    """A control over several seeds: the one that ``pick`` takes, with their range."""
    low, high = (min(values), max(values)) if len(values) > 1 else (None, None)
    return Control(name=name, value=pick(values), low=low, high=high, mark=mark)


def farthest(target: float) -> Callable[[Sequence[float]], float]:
    """Picks the value that lies farthest from ``target``."""
    return lambda values: max(values, key=lambda value: abs(value - target))
