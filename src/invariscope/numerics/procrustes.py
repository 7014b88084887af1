"""Procrustes similarity: how far two sets of coordinates are one up to a rotation, a reflection and a scale.

Both sides are centred and divided by their root mean square, and the narrower one is filled up with zeros. With the singular
value decomposition ãᵀ b̃ = U S Vᵀ the orthogonal map that brings ã nearest to b̃ is R = U Vᵀ (Schonemann 1966,
doi:10.1007/BF02289451), and

    similarity = 1 - ||ã R - b̃||² / (||ã||² + ||b̃||²)

which on the fitted rows is ρ = tr S / (||ã|| ||b̃||). It is stricter than CCA, which lets every direction be stretched on its own:
a core whose second direction is half as long is another one here. arccos ρ is a metric (Williams et al. 2021, arXiv:2110.14739).

>>> a = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
>>> turn = torch.tensor([[0.0, 3.0], [-3.0, 0.0]])
>>> round(procrustes(a, a @ turn + 1), 6), round(procrustes(a, a * torch.tensor([1.0, 0.0])), 6)
(1.0, 0.707107)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from invariscope.errors import RankError, ShapeError, TooFewSamplesError
from invariscope.estimate import Similarity
from invariscope.numerics.halves import (
    NUM_BOOTSTRAP,
    Halves,
    group_sums,
    null_scores,
    paired_rows,
    safe_ratio,
    split_halves,
)
from invariscope.numerics.linalg import no_autocast
from invariscope.numerics.resampling import bootstrap_sums, quantile_interval

__all__ = ["ProcrustesMap", "fit_procrustes", "procrustes", "procrustes_similarity"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProcrustesMap:
    """A fitted map ``b ~ mean_b + scale_b / scale_a (a - mean_a) R``.

    Args:
        mean_a, mean_b: [d1], [d2]. scale_a, scale_b: root mean square length of the centred rows.
        rotation: R, [d1, d2]; orthogonal where d1 = d2, else a part of an orthogonal matrix.
        similarity: ρ on the fitted rows.
    """

    mean_a: Float[Tensor, "d1"]
    mean_b: Float[Tensor, "d2"]
    scale_a: float
    scale_b: float
    rotation: Float[Tensor, "d1 d2"]
    similarity: float

    def predict(self, a: Float[Tensor, "n d1"]) -> Float[Tensor, "n d2"]:
        """Where the rows of a come to lie among those of b, in float64."""
        with no_autocast(a):
            return self.mean_b + self.scale_b / self.scale_a * (a.double() - self.mean_a) @ self.rotation

    def row_terms(self, a: Float[Tensor, "n d1"], b: Float[Tensor, "n d2"]) -> Float[Tensor, "n 2"]:
        """(2 ⟨ã R, b̃⟩, ||ã||² + ||b̃||²) of each row: the ratio of their sums is the similarity.

        Raises:
            ShapeError: where the rows are not of the fitted dimensions.
        """
        a, b = paired_rows(a, b)
        if (a.shape[1], b.shape[1]) != tuple(self.rotation.shape):
            raise ShapeError(
                f"rows of {a.shape[1]} and {b.shape[1]} dimensions",
                expected=f"{self.rotation.shape[0]} and {self.rotation.shape[1]}, as fitted",
                do="score on the coordinates that were fitted",
            )
        with no_autocast(a):
            a, b = (a - self.mean_a) / self.scale_a, (b - self.mean_b) / self.scale_b
            return torch.stack([2 * ((a @ self.rotation) * b).sum(1), a.square().sum(1) + b.square().sum(1)], dim=1)

    def score(self, a: Float[Tensor, "n d1"], b: Float[Tensor, "n d2"]) -> float:
        """The similarity of these rows under the fitted map, in [-1, 1]."""
        shared, total = self.row_terms(a, b).sum(0)
        return float(safe_ratio(shared, total))


def fit_procrustes(a: Float[Tensor, "n d1"], b: Float[Tensor, "n d2"]) -> ProcrustesMap:
    """The orthogonal map and the scale that bring a nearest to b.

    Raises:
        ShapeError, NonFiniteError: for rows that are no pairs. TooFewSamplesError: for fewer than 2 of them.
        RankError: where a side does not vary.
    """
    a, b = paired_rows(a, b)
    if len(a) < 2:
        raise TooFewSamplesError(f"{len(a)} rows to fit a rotation on", expected="at least 2", do="give more rows")
    mean_a, mean_b = a.mean(0), b.mean(0)
    with no_autocast(a):
        scale_a, scale_b = (float((x - mean).square().sum(1).mean().sqrt()) for x, mean in ((a, mean_a), (b, mean_b)))
        for name, x, scale in (("a", a, scale_a), ("b", b, scale_b)):
            if scale <= 1e-12 * float(x.abs().max()):
                raise RankError(f"{name} that does not vary", expected="coordinates that vary", do="look at what was read")
        u, sigma, v_transposed = torch.linalg.svd((a - mean_a).T @ (b - mean_b) / len(a), full_matrices=False)
        rotation = u @ v_transposed
    return ProcrustesMap(
        mean_a=mean_a,
        mean_b=mean_b,
        scale_a=scale_a,
        scale_b=scale_b,
        rotation=rotation,
        similarity=min(1.0, float(sigma.sum()) / (scale_a * scale_b)),
    )


def procrustes(a: Float[Tensor, "n d1"], b: Float[Tensor, "n d2"]) -> float:
    """ρ = tr S / (||ã|| ||b̃||) of all rows, in [0, 1]; nothing is held out, so it flatters where n is small."""
    return fit_procrustes(a, b).similarity


def procrustes_similarity(
    a: Float[Tensor, "n d1"],
    b: Float[Tensor, "n d2"],
    *,
    generator: torch.Generator,
    groups: Int[Tensor, "n"] | None = None,
    heldout_share: float = 0.5,
    num_permutations: int = 200,
) -> Similarity:
    """Procrustes similarity, in sample and held out, beside that of shuffled pairs.

    Args:
        a, b: coordinates of the same inputs, [n, d1] and [n, d2].
        generator, groups, heldout_share, num_permutations: as in :func:`invariscope.numerics.cca_similarity`.

    Returns:
        One component: rotation and scales fitted on one part, ``heldout`` scored on the other (below 0 counts as 0).

    Raises:
        TooFewSamplesError, ShapeError, NonFiniteError, RankError, ConfigError: as :func:`fit_procrustes` and
            :func:`invariscope.numerics.cca_similarity`.
    """
    halves = split_halves(a, b, generator=generator, groups=groups, heldout_share=heldout_share)
    fit = fit_procrustes(halves.a_fit, halves.b_fit)
    null = null_scores(halves, _score, num=num_permutations, generator=generator)[:, 0]
    low, high = quantile_interval(null, 0.95)
    terms = fit.row_terms(halves.a_test, halves.b_test)
    drawn = bootstrap_sums(group_sums(terms, halves.groups_test), generator=generator, num=NUM_BOOTSTRAP)
    heldout = max(0.0, fit.score(halves.a_test, halves.b_test))
    return Similarity(
        name="procrustes",
        value=fit.similarity,
        heldout=heldout,
        components=(fit.similarity,),
        heldout_components=(heldout,),
        heldout_intervals=(quantile_interval(safe_ratio(drawn[:, 0], drawn[:, 1]).clamp_min(0.0), 0.95),),
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
    fit = fit_procrustes(halves.a_fit, halves.b_fit)
    return torch.tensor([max(0.0, fit.score(halves.a_test, halves.b_test))], dtype=torch.float64)
