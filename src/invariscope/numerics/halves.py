"""Paired rows in two parts, one to fit a similarity on and one to score it on, and the null that repeats the whole procedure.

A similarity that is fitted flatters on the rows that it was fitted on, so each is scored on groups that it has not seen. What
chance gives is not known in closed form, so the groups of b are shuffled inside either part, and fit and score are repeated.

>>> a = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
>>> halves = split_halves(a, 2 * a, generator=torch.Generator().manual_seed(0))
>>> len(halves.a_fit), len(halves.b_test), bool((halves.b_fit == 2 * halves.a_fit).all())
(20, 20, True)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from invariscope.errors import ConfigError, ShapeError, TooFewSamplesError
from invariscope.numerics.linalg import as_float64
from invariscope.numerics.resampling import (
    bootstrap_sums,
    group_blocks,
    group_index,
    permuted_blocks,
    quantile_interval,
    split_groups,
)

__all__ = [
    "NUM_BOOTSTRAP",
    "Halves",
    "check_num_permutations",
    "correlation_intervals",
    "group_sums",
    "null_scores",
    "paired_rows",
    "safe_ratio",
    "split_halves",
]

NUM_BOOTSTRAP = 500

_ROWS_PER_DIMENSION = 10  # in each half; below that even the hold-out correlations of equal data are noise
_GROUPS_PER_HALF = 10  # ten groups have 3.6 million orders: fewer make no null


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Halves:
    """Paired rows in two parts.

    Args:
        a_fit, b_fit: [n_fit, d1] and [n_fit, d2]. a_test, b_test: [n_test, d1] and [n_test, d2].
        groups_fit, groups_test: the group of each row.
    """

    a_fit: Float[Tensor, "n_fit d1"]
    b_fit: Float[Tensor, "n_fit d2"]
    a_test: Float[Tensor, "n_test d1"]
    b_test: Float[Tensor, "n_test d2"]
    groups_fit: Int[Tensor, "n_fit"]
    groups_test: Int[Tensor, "n_test"]

    @property
    def dims(self) -> tuple[int, int]:
        """d1, d2."""
        return self.a_fit.shape[1], self.b_fit.shape[1]


def split_halves(
    a: Float[Tensor, "n d1"],
    b: Float[Tensor, "n d2"],
    *,
    generator: torch.Generator,
    groups: Int[Tensor, "n"] | None = None,
    heldout_share: float = 0.5,
) -> Halves:
    """Hold out a share of the groups.

    Raises:
        TooFewSamplesError: where a part has fewer than 10 max(d1, d2) rows or fewer than 10 groups.
        ShapeError, NonFiniteError: for rows that are no pairs.
    """
    a, b = paired_rows(a, b)
    index = group_index(groups, len(a))[0].to(a.device)
    heldout = split_groups(index, heldout_share, generator)
    for half, doing in ((~heldout, "fitted"), (heldout, "held out")):
        _check_half(index[half], max(a.shape[1], b.shape[1]), doing)
    return Halves(
        a_fit=a[~heldout],
        b_fit=b[~heldout],
        a_test=a[heldout],
        b_test=b[heldout],
        groups_fit=index[~heldout],
        groups_test=index[heldout],
    )


def null_scores(
    halves: Halves, score: Callable[[Halves], Float[Tensor, "k"]], *, num: int, generator: torch.Generator
) -> Float[Tensor, "num k"]:
    """``score`` of ``num`` copies of ``halves`` whose groups of b are shuffled inside either part.

    Raises:
        ConfigError: where num < 1.
    """
    check_num_permutations(num)
    blocks_fit, blocks_test = group_blocks(halves.groups_fit), group_blocks(halves.groups_test)
    found = []
    for _ in range(num):
        fit = permuted_blocks(blocks_fit, len(halves.b_fit), generator).to(halves.b_fit.device)
        test = permuted_blocks(blocks_test, len(halves.b_test), generator).to(halves.b_test.device)
        found.append(score(dataclasses.replace(halves, b_fit=halves.b_fit[fit], b_test=halves.b_test[test])))
    return torch.stack(found)


def check_num_permutations(num: int) -> None:
    """Raise where a null of ``num`` repetitions is none.

    Raises:
        ConfigError: where num < 1.
    """
    if num < 1:
        raise ConfigError(f"{num} permutations", expected="at least 1", do="leave it at its default of 200")


def correlation_intervals(
    u: Float[Tensor, "n k"], v: Float[Tensor, "n k"], groups: Int[Tensor, "n"], generator: torch.Generator
) -> tuple[tuple[float, float], ...]:
    """95 % of the correlation of each pair of columns, from a bootstrap over groups (of their sums and products)."""
    u, v = u - u.mean(0), v - v.mean(0)
    sums = group_sums(torch.cat([torch.ones_like(u), u, v, u * u, v * v, u * v], dim=1), groups)
    drawn = bootstrap_sums(sums, generator=generator, num=NUM_BOOTSTRAP)
    num, *moments = drawn.split(u.shape[1], dim=1)
    mean_u, mean_v, uu, vv, uv = (moment / num for moment in moments)
    spread = ((uu - mean_u**2) * (vv - mean_v**2)).clamp_min(0.0).sqrt()
    correlations = safe_ratio(uv - mean_u * mean_v, spread).clamp(0.0, 1.0)
    return tuple(quantile_interval(column, 0.95) for column in correlations.T)


def group_sums(columns: Float[Tensor, "n m"], groups: Int[Tensor, "n"]) -> Float[Tensor, "G m"]:
    """Sum of the rows of each group."""
    index, num_groups = group_index(groups, len(columns))
    sums = torch.zeros(num_groups, columns.shape[1], dtype=columns.dtype, device=columns.device)
    return sums.index_add_(0, index.to(columns.device), columns)


def paired_rows(a: Float[Tensor, "n d1"], b: Float[Tensor, "n d2"]) -> tuple[Float[Tensor, "n d1"], Float[Tensor, "n d2"]]:
    """Both in float64 on a's device.

    Raises:
        ShapeError: where the numbers of rows differ, or a side has no column. NonFiniteError: where an entry is not finite.
    """
    a, b = as_float64("a", a, ndim=2), as_float64("b", b, ndim=2)
    if len(a) != len(b) or 0 in (a.shape[1], b.shape[1]):
        raise ShapeError(
            f"coordinates of shape {list(a.shape)} and {list(b.shape)}",
            expected="the same number of rows, and at least one column each",
            do="read both models on the same inputs and positions",
        )
    return a, b.to(a.device)


def safe_ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """The ratio, 0 where the denominator is not positive."""
    positive = denominator > 0
    return torch.where(positive, numerator / torch.where(positive, denominator, 1.0), 0.0)


def _check_half(groups: Tensor, dim: int, doing: str) -> None:
    num_rows, num_groups = len(groups), len(groups.unique())
    if num_rows < _ROWS_PER_DIMENSION * dim or num_groups < _GROUPS_PER_HALF:
        raise TooFewSamplesError(
            f"{num_rows} rows in {num_groups} groups to be {doing}, of up to {dim} dimensions",
            expected=f"at least {_ROWS_PER_DIMENSION * dim} rows and {_GROUPS_PER_HALF} groups in either part",
            do="give more samples, or a heldout_share nearer to one half",
        )
