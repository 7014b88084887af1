"""Spearman's rank correlation of matched components: are two coordinates one up to any increasing map?

ρ is the correlation of ranks (ties get their mean rank). The components of two cores come in no common order and basis, so CCA
(:func:`invariscope.numerics.similarity.fit_cca`) first rotates both sides, on the fitted part; for one component that is only its
sign. Where Spearman is much below the canonical correlation, a few large values carry the latter.

>>> ranks(torch.tensor([[5.0], [1.0], [5.0], [9.0]])).flatten().tolist()
[2.5, 1.0, 2.5, 4.0]
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from invariscope.estimate import Similarity
from invariscope.numerics.halves import Halves, correlation_intervals, null_scores, paired_rows, safe_ratio, split_halves
from invariscope.numerics.linalg import as_float64
from invariscope.numerics.resampling import quantile_interval
from invariscope.numerics.similarity import fit_cca

__all__ = ["ranks", "spearman", "spearman_similarity"]


def ranks(columns: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
    """Rank of each entry in its column, from 1; equal entries get the mean of their ranks.

    Raises:
        ShapeError, NonFiniteError: for what is no matrix of numbers.
    """
    columns = as_float64("columns", columns, ndim=2)
    found = torch.empty_like(columns)
    for k, column in enumerate(columns.T):
        _, level, counts = torch.unique(column, return_inverse=True, return_counts=True)
        found[:, k] = (counts.cumsum(0) - (counts - 1) / 2).to(found.dtype)[level]
    return found


def spearman(a: Float[Tensor, "n k"], b: Float[Tensor, "n k"]) -> Float[Tensor, "k"]:
    """Spearman's ρ of each pair of columns, in [-1, 1]; 0 where one does not vary.

    Raises:
        ShapeError: where the numbers of rows differ. NonFiniteError: where an entry is not finite.
    """
    a, b = paired_rows(a, b)
    u, v = (x - x.mean(0) for x in (ranks(a), ranks(b)))
    return safe_ratio((u * v).sum(0), u.norm(dim=0) * v.norm(dim=0)).clamp(-1.0, 1.0)


def spearman_similarity(
    a: Float[Tensor, "n d1"],
    b: Float[Tensor, "n d2"],
    *,
    generator: torch.Generator,
    groups: Int[Tensor, "n"] | None = None,
    heldout_share: float = 0.5,
    num_permutations: int = 200,
) -> Similarity:
    """Spearman's ρ of canonical variates, in sample and held out, beside that of shuffled pairs.

    Args:
        a, b: coordinates of the same inputs, [n, d1] and [n, d2].
        generator, groups, heldout_share, num_permutations: as in :func:`invariscope.numerics.cca_similarity`.

    Returns:
        ``components`` on the fitted part in the order of the canonical correlations, ``heldout_components`` on the rest
        (negative ones count as 0), ``value`` and ``heldout`` their means.

    Raises:
        TooFewSamplesError, ShapeError, NonFiniteError, RankError, ConfigError: as :func:`invariscope.numerics.cca_similarity`.

    Notes:
        The intervals hold rotation and ranks fixed and resample groups. A repetition of the null sorts 2 k columns.
    """
    halves = split_halves(a, b, generator=generator, groups=groups, heldout_share=heldout_share)
    fit = fit_cca(halves.a_fit, halves.b_fit)
    fitted = spearman(*fit.variates(halves.a_fit, halves.b_fit)).clamp_min(0.0)
    u, v = (ranks(x) for x in fit.variates(halves.a_test, halves.b_test))
    observed = spearman(u, v).clamp_min(0.0)
    null = null_scores(halves, _score, num=num_permutations, generator=generator)
    low, high = quantile_interval(null.mean(1), 0.95)
    return Similarity(
        name="spearman",
        value=float(fitted.mean()),
        heldout=float(observed.mean()),
        components=tuple(fitted.tolist()),
        heldout_components=tuple(observed.tolist()),
        heldout_intervals=correlation_intervals(u, v, halves.groups_test, generator),
        null_mean=float(null.mean()),
        null_low=low,
        null_high=high,
        null_components=tuple(null.mean(0).tolist()),
        num_fit=len(halves.a_fit),
        num_heldout=len(halves.a_test),
        dims=halves.dims,
        rank=len(observed),
        num_permutations=num_permutations,
    )


def _score(halves: Halves) -> Float[Tensor, "k"]:
    fit = fit_cca(halves.a_fit, halves.b_fit)
    return spearman(*fit.variates(halves.a_test, halves.b_test)).clamp_min(0.0)
