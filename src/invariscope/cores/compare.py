"""Are two cores the same? Their coordinates on the same inputs, their spans, their models' weights; each beside its chance level.

Random k-subspaces of R^D overlap k/D: an overlap of .03 at D = 64 and k = 3 is what chance gives (.047), not orthogonality.
And two codes of four states in three dimensions are linearly related whatever they are: a canonical correlation of 1 there is
algebra.

Four similarities of coordinates, from the most to the least forgiving:

- ``cca``: one up to any invertible affine map.
- ``spearman``: the same components by their ranks, so that a few large values do not carry it.
- ``procrustes``: one up to rotation, reflection and one scale.
- ``cka``: the same rows are alike on both sides; up to rotation and scale, no map is fitted.

>>> z = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
>>> found = compare_coordinates(z, z * torch.tensor([1.0, 5.0]), num_permutations=20)
>>> round(found.cca.heldout, 3), found.procrustes.heldout < 0.9, found.cka.heldout < 0.9
(1.0, True, True)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from invariscope.cores.core import Core
from invariscope.errors import ShapeError, unknown_name
from invariscope.estimate import Similarity
from invariscope.numerics.kernel_alignment import cka_similarity
from invariscope.numerics.procrustes import procrustes_similarity
from invariscope.numerics.rank_correlation import spearman_similarity
from invariscope.numerics.similarity import cca_similarity
from invariscope.numerics.subspaces import overlap_similarity

__all__ = ["CoordinateComparison", "compare_coordinates", "projector_overlap", "weight_cosine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinateComparison:
    """How alike two sets of coordinates of the same inputs are.

    Args:
        cca: canonical correlations.
        spearman: rank correlations of the canonical variates.
        procrustes: after an orthogonal map and a scale.
        cka: debiased linear centred kernel alignment.

    All have a hold-out value, and a null of permutations that repeats the whole procedure.
    """

    cca: Similarity
    spearman: Similarity
    procrustes: Similarity
    cka: Similarity


def compare_coordinates(
    z_a: Float[Tensor, "n k_a"],
    z_b: Float[Tensor, "n k_b"],
    *,
    groups: Int[Tensor, "n"] | None = None,
    generator: torch.Generator | None = None,
    num_permutations: int = 200,
) -> CoordinateComparison:
    """Compare the coordinates of two cores on the same rows, in the same order.

    Args:
        z_a, z_b: coordinates, such as ``core_coordinates`` gives them.
        groups: the sequence or template of each row; splits and permutations never break one.
        generator: of the split and the permutations; None: seed 0.
        num_permutations: repetitions of the whole procedure behind the null.

    Returns:
        The four similarities, all of the same split and the same permutations.

    Raises:
        ShapeError: where the rows differ in number. TooFewSamplesError: for too few of them.
        RankError: where a column is constant or depends on the others.
    """
    generator = generator or torch.Generator().manual_seed(0)
    found = {}
    # Each starts from the same state: one split for all, and none depends on which others are measured. CCA comes last, so that
    # it leaves the caller's generator where it would without them.
    for similarity in (cka_similarity, procrustes_similarity, spearman_similarity, cca_similarity):
        source = generator if similarity is cca_similarity else generator.clone_state()
        one = similarity(z_a, z_b, generator=source, groups=groups, num_permutations=num_permutations)
        found[one.name] = one
    return CoordinateComparison(**found)


def projector_overlap(
    core_a: Core, core_b: Core, *, span: Literal["write", "read"] = "write", generator: torch.Generator | None = None
) -> Similarity:
    """||Q_aᵀ Q_b||_F² / sqrt(k_a k_b) of the spans of two cores; chance is sqrt(k_a k_b) / D.

    Args:
        span: of the write or of the read columns; they differ for oblique cores.
        generator: of the random pairs behind the null's interval; None: seed 0.

    Raises:
        ShapeError: where the cores live in spaces of different dimension.
    """
    if span not in ("write", "read"):
        raise unknown_name("span", str(span), ("write", "read"))
    return overlap_similarity(
        getattr(core_a, span), getattr(core_b, span), generator=generator or torch.Generator().manual_seed(0)
    )


def weight_cosine(model_a: nn.Module, model_b: nn.Module) -> float:
    """Cosine between all weight matrices of two models, flattened; vectors are left out.

    Gains of layer norms are all near 1 and fake a cosine of .19 between independent models.

    Raises:
        ShapeError: where the models' matrices differ in name or shape.
    """
    matrices = [
        {name: p.detach().double() for name, p in model.named_parameters() if p.ndim >= 2} for model in (model_a, model_b)
    ]
    shapes = [{name: tuple(p.shape) for name, p in found.items()} for found in matrices]
    if shapes[0] != shapes[1]:
        differing = sorted(set(shapes[0].items()) ^ set(shapes[1].items()))
        raise ShapeError(
            f"two models whose weights differ, such as {differing[0][0]} {list(differing[0][1])}",
            expected="matrices of equal names and shapes",
            do="compare models of one configuration",
        )
    flat = [torch.cat([p.flatten() for p in found.values()]) for found in matrices]
    return float(torch.nn.functional.cosine_similarity(flat[0], flat[1], dim=0))
