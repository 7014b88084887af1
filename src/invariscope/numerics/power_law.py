"""A power law through points: the slope of a straight line on logarithmic axes, with an interval from how well it fits.

The interval is Student's, from the residuals of the least-squares line. Where values are exact it says how far they are from
*any* power law, and not how noisy they are.

>>> found = fit_power_law((1.0, 2.0, 4.0, 8.0), (3.0, 12.1, 47.5, 192.0))
>>> round(found.slope, 2), found.low < 2.0 < found.high, found.num
(2.0, True, 4)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from invariscope.errors import ConfigError, ShapeError, TooFewSamplesError

__all__ = ["PowerLaw", "fit_power_law"]

FEWEST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLaw:
    """value = factor * size ^ slope.

    Args:
        slope: with its interval, low and high, at ``level``. factor: in the values' unit. num: points.
    """

    slope: float
    low: float
    high: float
    factor: float
    num: int
    level: float


def fit_power_law(sizes: Sequence[float], values: Sequence[float], *, level: float = 0.95) -> PowerLaw:
    """The least-squares line through the logarithms.

    Args:
        sizes, values: positive, one value a size. level: coverage of the interval.

    Raises:
        TooFewSamplesError: for fewer than three points, or one size alone. ShapeError: where there is not one value a size.
        ConfigError: for a number that has no logarithm.
    """
    from scipy import stats

    if len(sizes) != len(values):
        raise ShapeError(f"{len(values)} values of {len(sizes)} sizes", expected="one value a size", do="give both")
    if len(sizes) < FEWEST or len(set(sizes)) < 2:
        raise TooFewSamplesError(
            f"{len(sizes)} points of {len(set(sizes))} sizes", expected="three points or more, of two sizes", do="measure at more"
        )
    if not all(math.isfinite(x) and x > 0 for x in (*sizes, *values)):
        raise ConfigError("a size or value that is not positive", expected="positive numbers", do="leave it out")
    line: Any = stats.linregress([math.log(x) for x in sizes], [math.log(y) for y in values])
    reach = float(stats.t.ppf((1 + level) / 2, len(sizes) - 2)) * float(line.stderr)
    slope = float(line.slope)
    return PowerLaw(
        slope=slope, low=slope - reach, high=slope + reach, factor=math.exp(float(line.intercept)), num=len(sizes), level=level
    )
