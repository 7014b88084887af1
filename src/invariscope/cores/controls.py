"""Controls: subspaces of equal rank that know less than the core, made from the samples that the core was extracted from.

- ``random``: directions drawn at random, several times. What any subspace does.
- ``pca``: the leading principal components of the activations. What variance alone finds.
- ``gradient``: the leading directions of the Jacobians alone. What sensitivity alone finds.

Two more where the class of every activation is known; with class shares p_c, class means m_c and the mean m, both rest on the
C - 1 directions in which the means differ:

- ``mean_difference``: the span of the m_c - m, orthonormal. What supervision alone finds.
- ``leace``: least-squares concept erasure (Belrose et al. 2023, arXiv:2306.03819, theorem 4.3). With W = Σ^-1/2 whitening the
  activations and U an orthonormal basis of the column space of W Σ_xz, P = W⁺ U Uᵀ W: of all projectors after whose removal
  no linear classifier beats chance, the one that changes activations least. It is oblique: read = W U, write = W⁺ U.

Where the core has more than C - 1 dimensions both are filled up with random directions (for ``leace`` in white coordinates,
so that the removal still erases); where it has fewer, the leading ones are taken. ``provenance.rank_rule`` says which.

>>> from invariscope.cores.moments import Moments
>>> moments = Moments(2)
>>> rows, labels = torch.tensor([[0.0, 0.0], [2.0, 1.0], [4.0, 0.0], [6.0, 1.0]]), torch.tensor([0, 0, 1, 1])
>>> moments.update(rows, torch.ones(4, 2), labels)
>>> core = moments.controls(1, ["mean_difference"], generator=torch.Generator())["mean_difference"][0]
>>> core.write.T.round(decimals=6).tolist(), core.provenance.rank_rule
([[1.0, 0.0]], 'given')

The untrained model is no subspace of this model: build it with :func:`invariscope.models.untrained` and run the same measurement.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from invariscope.cores.class_sums import ClassSums
from invariscope.cores.core import Core, Provenance
from invariscope.errors import ConfigError, RankError, unknown_name
from invariscope.numerics.linalg import no_autocast, positive_qr
from invariscope.numerics.subspaces import fix_signs, random_subspace

__all__ = ["ALL_CONTROLS", "CONTROLS", "LABEL_CONTROLS", "build_control", "describe_filling", "fill_up"]

CONTROLS = ("random", "pca", "gradient")
LABEL_CONTROLS = ("mean_difference", "leace")
ALL_CONTROLS = CONTROLS + LABEL_CONTROLS

# Directions with a smaller share of the largest standard deviation are rounding: whitening would amplify them.
_MIN_SPREAD = 1e-10
# Class means that differ less than this share of their largest difference are equal.
_MIN_DIFFERENCE = 1e-9


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

    @property
    def classes(self) -> ClassSums | None:
        """Class means, where labels are known."""
        ...

    def describe(self, projection: str, rank_rule: str) -> Provenance:
        """Provenance of what is made from the samples."""
        ...


def build_control(moments: Factors, name: str, rank: int, *, num_random: int, generator: torch.Generator) -> list[Core]:
    """The controls called ``name``: one core, or ``num_random`` of them.

    Raises:
        UnknownNameError: for an unknown name. RankError: for a rank above the dimension, or for ``leace`` above the number of
            directions in which the activations vary. ConfigError: for ``mean_difference`` or ``leace`` without labels.
    """
    if name not in ALL_CONTROLS:
        raise unknown_name("control", name, ALL_CONTROLS)
    if not 1 <= rank <= moments.dim:
        raise RankError(
            f"controls of rank {rank}", expected=f"1 to {moments.dim}, the site's dimension", do="use the core's rank"
        )
    if name == "random":
        drawn = [random_subspace(moments.dim, rank, generator) for _ in range(num_random)]
        return [_orthogonal(moments, name, basis, torch.zeros(0, dtype=torch.float64)) for basis in drawn]
    if name in LABEL_CONTROLS:
        build = _mean_difference if name == "mean_difference" else _leace
        return [build(moments, _class_differences(moments, name), rank, generator)]
    factor = moments.activation_factor() if name == "pca" else moments.jacobian_factor()
    with no_autocast(factor):
        _, sigma, directions = torch.linalg.svd(factor)
    return [_orthogonal(moments, name, directions[:rank].T, sigma)]


def fill_up(basis: Float[Tensor, "D m"], rank: int, generator: torch.Generator) -> Float[Tensor, "D k"]:
    """``rank`` orthonormal columns: the first of ``basis`` (orthonormal), then random directions orthogonal to it."""
    dim, known = basis.shape
    if known >= rank:
        return basis[:, :rank]
    normal = torch.randn(dim, rank - known, dtype=torch.float64, generator=generator, device=generator.device).to(basis.device)
    with no_autocast(basis):
        for _ in range(2):  # once more, because the first subtraction leaves rounding in the given directions
            normal = positive_qr(normal - basis @ (basis.T @ normal))[0]
    return torch.cat([basis, normal], dim=1)


def describe_filling(known: int, rank: int, what: str) -> str:
    """The rank rule of a control that knows ``known`` directions and was asked for ``rank``."""
    if known > rank:
        return f"given: the leading {rank} of {known} {what}"
    return "given" if known == rank else f"given: {known} {what}, filled up with {rank - known} random directions"


def _class_differences(moments: Factors, name: str) -> Float[Tensor, "D C"]:
    """sqrt(p_c) (m_c - m): squared and summed, the covariance between the classes."""
    classes = moments.classes
    if classes is None or classes.num_classes < 2:
        raise ConfigError(
            f"the control {name!r} from samples of {'unknown' if classes is None else classes.num_classes} classes",
            expected="at least two classes, and the label of every sample",
            do="pass labels= to Moments.update or Batch.labels to collect_moments; or ask for the controls "
            + ", ".join(CONTROLS),
        )
    used = classes.weights > 0
    shares = classes.weights[used] / classes.weights.sum()
    return ((classes.means[used] - moments.mean) * shares.sqrt()[:, None]).T


def _leading(columns: Float[Tensor, "D C"]) -> tuple[Float[Tensor, "D m"], Float[Tensor, "C"]]:
    """Orthonormal basis of the column span, the direction with the largest differences first, and the singular values."""
    with no_autocast(columns):
        u, sigma, _ = torch.linalg.svd(columns, full_matrices=False)
    # The means of C classes about their common mean span C - 1 directions at most.
    known = min(int((sigma > _MIN_DIFFERENCE * sigma[0]).sum()), columns.shape[1] - 1)
    return u[:, :known], sigma


_WHAT = "directions of class means"


def _mean_difference(moments: Factors, differences: Tensor, rank: int, generator: torch.Generator) -> Core:
    basis, sigma = _leading(differences)
    rule = describe_filling(basis.shape[1], rank, _WHAT)
    return _orthogonal(moments, "mean_difference", fill_up(basis, rank, generator), sigma, rule)


def _leace(moments: Factors, differences: Tensor, rank: int, generator: torch.Generator) -> Core:
    classes = moments.classes
    assert classes is not None
    factor = moments.activation_factor()
    with no_autocast(factor):
        _, spread, axes = torch.linalg.svd(factor / math.sqrt(float(classes.weights.sum())))
        varying = spread > _MIN_SPREAD * spread[0]
        spread, axes = spread[varying], axes[varying].T
        if rank > len(spread):
            raise RankError(
                f"the control 'leace' of rank {rank} where activations vary in {len(spread)} directions",
                expected=f"at most {len(spread)}",
                do="ask for a smaller rank, or give more samples",
            )
        # In the m principal axes W and its inverse are diagonal.
        basis, sigma = _leading((axes.T @ differences) / spread[:, None])
        rule = describe_filling(basis.shape[1], rank, _WHAT)
        basis = fill_up(basis, rank, generator)
        write, read = fix_signs(axes @ (basis * spread[:, None]), axes @ (basis / spread[:, None]))
    assert read is not None
    return Core(read=read, write=write, mean=moments.mean, singular_values=sigma, provenance=moments.describe("leace", rule))


def _orthogonal(moments: Factors, name: str, basis: Tensor, sigma: Tensor, rule: str = "given") -> Core:
    write, _ = fix_signs(basis, None)
    return Core(read=write, write=write, mean=moments.mean, singular_values=sigma, provenance=moments.describe(name, rule))
