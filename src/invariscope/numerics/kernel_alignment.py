"""Debiased linear CKA: do two sets of coordinates make the same rows alike?

Centred kernel alignment (Kornblith et al. 2019, arXiv:1905.00414) is HSIC(K, L) / sqrt(HSIC(K, K) HSIC(L, L)) of the Gram
matrices K = a aᵀ and L = b bᵀ. With the usual HSIC it tends to 1 for independent data of more dimensions than rows; the
U-statistic of Song et al. (2012, jmlr.org/papers/v13/song12a.html, equation 5) does not. With K̃ = K but zeros on the diagonal,

    HSIC(K, L) = [tr K̃L̃ + (1ᵀK̃1)(1ᵀL̃1) / ((n-1)(n-2)) - 2 (1ᵀK̃L̃1) / (n-2)] / (n (n-3))

For linear kernels each term is in the features, tr K̃L̃ = ||aᵀb||² - Σ |a_i|²|b_i|² and K̃1 = a (aᵀ1) - |a_i|², so the cost is
n d1 d2 and no n x n matrix is made. Like Procrustes, CKA is blind to rotations and scale, not to stretching.

>>> a = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
>>> b = torch.randn(50, 60, generator=torch.Generator().manual_seed(1))
>>> round(debiased_cka(a, 2 * a + 1), 6), abs(debiased_cka(a, b)) < 0.1
(1.0, True)
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from invariscope.errors import RankError, TooFewSamplesError
from invariscope.estimate import Similarity
from invariscope.numerics.halves import Halves, null_scores, paired_rows, split_halves
from invariscope.numerics.linalg import no_autocast
from invariscope.numerics.resampling import quantile_interval

__all__ = ["cka_similarity", "debiased_cka", "debiased_hsic"]


def debiased_hsic(a: Float[Tensor, "n d1"], b: Float[Tensor, "n d2"]) -> float:
    """Song et al.'s U-statistic with linear kernels; its expectation is 0 for independent rows, so it may be negative.

    Raises:
        ShapeError, NonFiniteError: for rows that are no pairs. TooFewSamplesError: for fewer than 4 of them.
    """
    a, b = paired_rows(a, b)
    num = len(a)
    if num < 4:
        raise TooFewSamplesError(f"{num} rows for the U-statistic of HSIC", expected="at least 4", do="give more rows")
    with no_autocast(a):
        # A shift of the features changes no U-statistic, but far from the origin large numbers would cancel.
        a, b = a - a.mean(0), b - b.mean(0)
        square_a, square_b = a.square().sum(1), b.square().sum(1)
        trace = (a.T @ b).square().sum() - square_a @ square_b
        ones_a, ones_b = a @ a.sum(0) - square_a, b @ b.sum(0) - square_b
        middle = ones_a.sum() * ones_b.sum() / ((num - 1) * (num - 2))
        return float(trace + middle - 2 * (ones_a @ ones_b) / (num - 2)) / (num * (num - 3))


def debiased_cka(a: Float[Tensor, "n d1"], b: Float[Tensor, "n d2"]) -> float:
    """``HSIC(a, b) / sqrt(HSIC(a, a) HSIC(b, b))``, in [-1, 1], near 0 for independent rows.

    Raises:
        ShapeError, NonFiniteError, TooFewSamplesError: as :func:`debiased_hsic`. RankError: where a side does not vary.
    """
    own = debiased_hsic(a, a), debiased_hsic(b, b)
    for name, x, value in (("a", a, own[0]), ("b", b, own[1])):
        if value <= 1e-24 * float(x.detach().double().square().sum(1).mean()) ** 2:
            raise RankError(f"{name} that does not vary", expected="coordinates that vary", do="look at what was read")
    return max(-1.0, min(1.0, debiased_hsic(a, b) / (own[0] * own[1]) ** 0.5))


def cka_similarity(
    a: Float[Tensor, "n d1"],
    b: Float[Tensor, "n d2"],
    *,
    generator: torch.Generator,
    groups: Int[Tensor, "n"] | None = None,
    heldout_share: float = 0.5,
    num_permutations: int = 200,
) -> Similarity:
    """Debiased linear CKA on either part of the rows, beside that of shuffled pairs.

    Args:
        a, b: coordinates of the same inputs, [n, d1] and [n, d2].
        generator, groups, heldout_share, num_permutations: as in :func:`invariscope.numerics.cca_similarity`.

    Returns:
        One component. Nothing is fitted: ``value`` is that of the part which the other similarities fit on, ``heldout``
        that of the rest (below 0 counts as 0), and the null is that of the rest. Their difference is sampling error.

    Raises:
        TooFewSamplesError, ShapeError, NonFiniteError, RankError, ConfigError: as :func:`debiased_cka` and
            :func:`invariscope.numerics.cca_similarity`.

    Notes:
        The U-statistic supposes independent rows: where rows of a group are alike, only the null says what is large.
    """
    halves = split_halves(a, b, generator=generator, groups=groups, heldout_share=heldout_share)
    value, heldout = max(0.0, debiased_cka(halves.a_fit, halves.b_fit)), float(_score(halves))
    null = null_scores(halves, _score, num=num_permutations, generator=generator)[:, 0]
    low, high = quantile_interval(null, 0.95)
    return Similarity(
        name="cka",
        value=value,
        heldout=heldout,
        components=(value,),
        heldout_components=(heldout,),
        null_mean=float(null.mean()),
        null_low=low,
        null_high=high,
        null_components=(float(null.mean()),),
        num_fit=len(halves.a_fit),
        num_heldout=len(halves.a_test),
        dims=halves.dims,
        rank=1,
        num_permutations=num_permutations,
    )


def _score(halves: Halves) -> Float[Tensor, "1"]:
    return torch.tensor([max(0.0, debiased_cka(halves.a_test, halves.b_test))], dtype=torch.float64)
