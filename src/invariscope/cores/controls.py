"""Controls: subspaces of equal rank that know less than the core, made from the samples that the core was extracted from.

- ``random``: directions drawn at random, several times. What any subspace does.
- ``pca``: the leading principal components of the activations. What variance alone finds.
- ``gradient``: the leading directions of the Jacobians alone. What sensitivity alone finds.

The untrained model is no subspace of this model: build it with :func:`invariscope.models.untrained` and run the same measurement.
"""

from __future__ import annotations

from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from invariscope.cores.core import Core, Provenance
from invariscope.errors import RankError, unknown_name
from invariscope.numerics.linalg import no_autocast
from invariscope.numerics.subspaces import fix_signs, random_subspace

__all__ = ["CONTROLS", "build_control"]

CONTROLS = ("random", "pca", "gradient")


class Factors(Protocol):
    """What a control needs to know of the samples (:class:`invariscope.cores.moments.Moments`)."""

    dim: int

    @property
    def mean(self) -> Float[Tensor, "D"]:
        """Mean activation."""
        ...

    def activation_factor(self) -> Float[Tensor, "D D"]:
        """R_H."""
        ...

    def jacobian_factor(self) -> Float[Tensor, "D D"]:
        """R_J."""
        ...

    def describe(self, projection: str, rank_rule: str) -> Provenance:
        """Provenance of what is made from the samples."""
        ...


def build_control(moments: Factors, name: str, rank: int, *, num_random: int, generator: torch.Generator) -> list[Core]:
    """The controls called ``name``: one core, or ``num_random`` of them.

    Raises:
        UnknownNameError: for an unknown name. RankError: for a rank above the dimension.
    """
    if name not in CONTROLS:
        raise unknown_name("control", name, CONTROLS)
    if not 1 <= rank <= moments.dim:
        raise RankError(
            f"controls of rank {rank}", expected=f"1 to {moments.dim}, the site's dimension", do="use the core's rank"
        )
    if name == "random":
        drawn = [random_subspace(moments.dim, rank, generator) for _ in range(num_random)]
        return [_orthogonal(moments, name, basis, torch.zeros(0, dtype=torch.float64)) for basis in drawn]
    factor = moments.activation_factor() if name == "pca" else moments.jacobian_factor()
    with no_autocast(factor):
        _, sigma, directions = torch.linalg.svd(factor)
    return [_orthogonal(moments, name, directions[:rank].T, sigma)]


def _orthogonal(moments: Factors, name: str, basis: Tensor, sigma: Tensor) -> Core:
    write, _ = fix_signs(basis, None)
    return Core(read=write, write=write, mean=moments.mean, singular_values=sigma, provenance=moments.describe(name, "given"))
