"""Splits, bootstraps and permutations that never break a group.

Tokens of one sequence, or prompts of one template, are not independent. Splitting or resampling them one by one makes
hold-out values too good and intervals too narrow, so everything here moves whole groups. The bootstrap draws groups with
replacement and needs only their sums: a mean is ``sum_g c_g s_g / sum_g c_g w_g`` with c_g the times that group g was drawn.

>>> groups = torch.tensor([7, 7, 2, 2, 5, 5, 9, 9])
>>> heldout = split_groups(groups, 0.5, torch.Generator().manual_seed(0))
>>> int(heldout.sum()), len(groups[heldout].unique())
(4, 2)
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from invariscope.errors import ConfigError, ShapeError, TooFewSamplesError
from invariscope.estimate import Estimate
from invariscope.numerics.linalg import as_float64, check_weights, no_autocast

__all__ = [
    "bootstrap_mean",
    "bootstrap_sums",
    "estimate_mean",
    "group_blocks",
    "group_index",
    "permuted_blocks",
    "permuted_groups",
    "pool_groups",
    "quantile_interval",
    "split_groups",
]

_MAX_UNITS = 20_000  # resampled units beyond which groups are pooled: the interval's own error is then 1/sqrt(2 x 20 000)
_CHUNK = 4_000_000  # counts held at once


def group_index(groups: Int[Tensor, "n"] | None, num: int) -> tuple[Int[Tensor, "n"], int]:
    """Groups numbered from 0, and how many there are; each row is its own group where ``groups`` is None.

    Raises:
        ShapeError: where ``groups`` is not one entry a row.
    """
    if groups is None:
        return torch.arange(num), num
    if groups.ndim != 1 or len(groups) != num:
        raise ShapeError(
            f"groups of shape {list(groups.shape)} for {num} rows", expected=f"[{num}]", do="give the group of each row"
        )
    names, index = torch.unique(groups, return_inverse=True)
    return index, len(names)


def split_groups(groups: Int[Tensor, "n"], share: float, generator: torch.Generator) -> Bool[Tensor, "n"]:
    """Mark about ``share`` of the groups as held out.

    Args:
        groups: the group of each row, [n].
        share: of the groups (not of the rows), in (0, 1).
        generator: for the choice.

    Returns:
        [n], True = held out, on the groups' device. No group is on both sides.

    Raises:
        ConfigError: where share is outside (0, 1).
        TooFewSamplesError: where a side would be empty.
    """
    if not 0 < share < 1:
        raise ConfigError(f"a held-out share of {share}", expected="a number between 0 and 1", do="use 0.5")
    index, num = group_index(groups, len(groups))
    num_heldout = round(share * num)
    if not 0 < num_heldout < num:
        raise TooFewSamplesError(
            f"{num} groups of which a share of {share} is to be held out",
            expected="at least one group on either side",
            do="give more groups, or no groups where the rows are independent",
        )
    chosen = torch.zeros(num, dtype=torch.bool)
    chosen[torch.randperm(num, generator=generator, device=generator.device)[:num_heldout].cpu()] = True
    return chosen.to(groups.device)[index]


def group_blocks(groups: Int[Tensor, "n"]) -> Int[Tensor, "G s"] | None:
    """The rows of each group, one group a line, in the order in which they stand; None where sizes differ."""
    index, num = group_index(groups, len(groups))
    counts = torch.bincount(index, minlength=num)
    if num == 0 or bool((counts != counts[0]).any()):
        return None
    return index.argsort(stable=True).view(num, -1)


def permuted_blocks(blocks: Int[Tensor, "G s"] | None, num: int, generator: torch.Generator) -> Int[Tensor, "n"]:
    """:func:`permuted_groups` for groups whose blocks are known already (None: ``num`` single rows)."""
    if blocks is None:
        return torch.randperm(num, generator=generator, device=generator.device)
    order = torch.randperm(len(blocks), generator=generator, device=generator.device).to(blocks.device)
    index = torch.empty(blocks.numel(), dtype=torch.long, device=blocks.device)
    index[blocks.flatten()] = blocks[order].flatten()
    return index


def permuted_groups(groups: Int[Tensor, "n"], generator: torch.Generator) -> Int[Tensor, "n"]:
    """Row indices that shuffle the groups: ``x[index]`` has nothing in common with ``x`` but what all groups share.

    Where all groups have one size they are moved as blocks, the j-th row of a group going to the j-th row of another, so
    that the dependence inside a sequence and the effect of the position stay in the null. Otherwise single rows are
    moved, and the null is narrower than it should be where rows of a group are alike.

    Args:
        groups: the group of each row, [n]; rows of a group stand in their own order.
        generator: for the shuffle.

    Raises:
        TooFewSamplesError: where there are fewer than two groups.
    """
    if len(groups) == 0 or bool((groups == groups[0]).all()):
        raise TooFewSamplesError(
            f"{len(groups)} rows of {min(len(groups), 1)} group to be shuffled",
            expected="at least two groups",
            do="give more groups, or a group of its own to each row",
        )
    return permuted_blocks(group_blocks(groups), len(groups), generator).to(groups.device)


def pool_groups(
    index: Int[Tensor, "n"], num_groups: int, *, limit: int, generator: torch.Generator
) -> tuple[Int[Tensor, "n"], int]:
    """Pool more than ``limit`` groups at random into ``limit`` bins of equal numbers of groups.

    Bins of independent groups are independent, so a bootstrap over them estimates the same variance, at a cost that does
    not grow with n.
    """
    if num_groups <= limit:
        return index, num_groups
    bins = torch.randperm(num_groups, generator=generator, device=generator.device) % limit
    return bins.to(index.device)[index], limit


def bootstrap_sums(sums: Float[Tensor, "G m"], *, generator: torch.Generator, num: int) -> Float[Tensor, "num m"]:
    """Sums over groups drawn with replacement: ``num`` draws of G groups, [num, m]."""
    size = len(sums)
    parts, step = [], max(1, _CHUNK // size)
    for start in range(0, num, step):
        shape = (min(step, num - start), size)
        drawn = torch.randint(size, shape, generator=generator, device=generator.device).to(sums.device)
        counts = torch.zeros(shape, dtype=sums.dtype, device=sums.device)
        counts.scatter_add_(1, drawn, torch.ones((), dtype=sums.dtype, device=sums.device).expand(shape))
        with no_autocast(sums):
            parts.append(counts @ sums)
    return torch.cat(parts)


def quantile_interval(values: Float[Tensor, "num"], level: float) -> tuple[float, float]:
    """The central ``level`` of ``values``."""
    tails = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=values.dtype, device=values.device)
    low, high = torch.quantile(values, tails).tolist()
    return low, high


def bootstrap_mean(
    values: Float[Tensor, "n"],
    *,
    generator: torch.Generator,
    groups: Int[Tensor, "n"] | None = None,
    weights: Float[Tensor, "n"] | None = None,
    num: int = 1000,
    level: float = 0.95,
) -> tuple[float, float, float]:
    """Weighted mean with a percentile interval from a bootstrap over groups.

    Args:
        values: [n], in any unit.
        generator: for the draws.
        groups: what is drawn as a whole, [n]; None draws single rows.
        weights: [n], non-negative; None weighs all alike.
        num: number of draws.
        level: coverage of the interval.

    Returns:
        value, low, high.

    Raises:
        TooFewSamplesError: where there are fewer than two groups or no weight. ShapeError, NonFiniteError, ConfigError: for
            input that is none.

    Notes:
        More than 20 000 groups are pooled at random into 20 000 bins, which leaves the interval as it is.
    """
    values = as_float64("values", values, ndim=1)
    index, num_groups = group_index(groups, len(values))
    if num < 1 or not 0 < level < 1:
        raise ConfigError(f"{num} draws at level {level}", expected="num >= 1 and 0 < level < 1", do="use 1000 and .95")
    if num_groups < 2:
        raise TooFewSamplesError(
            f"{len(values)} values in {num_groups} groups", expected="at least two groups", do="measure on more groups"
        )
    weight = torch.ones_like(values) if weights is None else check_weights(weights, len(values)).to(values.device)
    if not float(weight.sum()) > 0:
        raise TooFewSamplesError(
            f"{len(values)} values that all have the weight 0",
            expected="a positive weight",
            do="give weights that sum to 1 over all values",
        )
    value = float((weight * values).sum() / weight.sum())
    index, num_units = pool_groups(index, num_groups, limit=_MAX_UNITS, generator=generator)
    # About the mean, so that equal values give an interval of width zero.
    columns = torch.stack([weight * (values - value), weight], dim=1)
    sums = torch.zeros(num_units, 2, dtype=torch.float64, device=values.device)
    sums.index_add_(0, index.to(values.device), columns)
    numerator, denominator = bootstrap_sums(sums, generator=generator, num=num).unbind(1)
    drawn = denominator > 0  # a draw may hold only groups of weight zero
    low, high = quantile_interval(numerator[drawn] / denominator[drawn], level)
    return value, value + low, value + high


def estimate_mean(
    values: Float[Tensor, "n"],
    *,
    generator: torch.Generator,
    groups: Int[Tensor, "n"] | None = None,
    weights: Float[Tensor, "n"] | None = None,
    num: int = 1000,
    level: float = 0.95,
    unit: str = "",
    chance: float | None = None,
) -> Estimate:
    """:func:`bootstrap_mean` as an :class:`Estimate`, with its unit and what chance would give.

    >>> estimate = estimate_mean(torch.tensor([1.0, 1.0]), generator=torch.Generator().manual_seed(0), unit="nats")
    >>> print(estimate, estimate.method)
    1 [1, 1] nats bootstrap over 2 rows
    """
    value, low, high = bootstrap_mean(values, generator=generator, groups=groups, weights=weights, num=num, level=level)
    _, num_groups = group_index(groups, len(values))
    return Estimate(
        value=value,
        low=low,
        high=high,
        num=len(values),
        unit=unit,
        level=level,
        method=f"bootstrap over {num_groups} {'rows' if groups is None else 'groups'}",
        chance=chance,
    )
