"""Subspaces of the residual stream: bases, signs, angles, and the overlap of two of them beside its chance level.

The overlap of two subspaces with orthonormal bases Q_a, Q_b is ``||Q_a^T Q_b||_F^2 / sqrt(k_a k_b)``: 1 for equal ones, 0
for orthogonal ones, and **not 0 for unrelated ones**: two random subspaces overlap ``sqrt(k_a k_b) / D`` on average. Cores of
different seeds overlap .025 to .033 at k = 3, D = 64 (arXiv:2602.22600), and chance is .047: that is no extra
orthogonality, and an overlap without its chance level says nothing.

>>> axes = torch.eye(4)
>>> overlap(axes[:, :2], axes[:, 1:3]), chance_overlap(2, 2, 4)
(0.5, 0.5)
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from invariscope.errors import ConfigError, RankError, ShapeError
from invariscope.estimate import Similarity
from invariscope.numerics.linalg import as_float64, no_autocast, positive_qr

__all__ = [
    "chance_overlap",
    "fix_signs",
    "orthonormal_basis",
    "overlap",
    "overlap_similarity",
    "principal_angles",
    "random_subspace",
]

_TIE = 1e-9  # relative; entries this close count as equal in the sign convention
_CHUNK = 4_000_000  # numbers drawn at once for the null


def orthonormal_basis(matrix: Float[Tensor, "D k"]) -> Float[Tensor, "D k"]:
    """Orthonormalise the columns in order: the first j columns of Q span what the first j columns of ``matrix`` span.

    Args:
        matrix: [D, k], k <= D.

    Returns:
        Q [D, k] in ``matrix``'s dtype, computed in float64; column i has a positive product with column i of ``matrix``.

    Raises:
        RankError: where the columns do not span k directions. NonFiniteError, ShapeError: for what is no matrix.

    Notes:
        A column counts as dependent below 1e-12 of its own length, or below D x 2e-16 of the longest column.
    """
    columns = as_float64("matrix", matrix, ndim=2)
    dim, rank = columns.shape
    if not 1 <= rank <= dim:
        raise RankError(f"{rank} columns in {dim} dimensions", expected=f"1 to {dim} columns", do="ask for a smaller rank")
    q, r = positive_qr(columns)
    lengths = columns.norm(dim=0)
    floor = torch.maximum(1e-12 * lengths, dim * torch.finfo(torch.float64).eps * lengths.max())
    dependent = r.diagonal() <= floor
    if bool(dependent.any()):
        first = int(dependent.nonzero()[0])
        raise RankError(
            f"a matrix of shape {[dim, rank]} whose column {first} adds no direction to those before it",
            expected=f"{rank} independent columns",
            do=f"ask for rank {first}" if first else "look at the column: it is zero",
        )
    return q.to(matrix.dtype if matrix.is_floating_point() else torch.float64)


def fix_signs(
    write: Float[Tensor, "D k"], read: Float[Tensor, "D k"] | None = None
) -> tuple[Float[Tensor, "D k"], Float[Tensor, "D k"] | None]:
    """The house's sign convention: the entry of largest magnitude in each write column is positive.

    Entries within 1e-9 (relative) of the largest are tied, and the tie goes to the lowest index, so that rounding on
    another LAPACK does not turn a column. A read column turns with its write column, which leaves coordinates times
    directions as they were.

    Args:
        write: [D, k]. read: [D, k] or None.

    Returns:
        write and read (None where None was given), in their own dtypes.

    Raises:
        ShapeError: where their shapes differ. NonFiniteError: where an entry is not finite.
    """
    size = as_float64("write", write, ndim=2).abs()
    if read is not None and as_float64("read", read, ndim=2).shape != size.shape:
        raise ShapeError(
            f"write of shape {list(write.shape)} and read of shape {list(read.shape)}",
            expected="one shape",
            do="give one read column for each write column",
        )
    if size.numel() == 0:
        return write, read
    # Counting the entries before the first tied one, because argmax may return any of several equal maxima.
    first = ((size >= size.amax(0) * (1 - _TIE)).long().cumsum(0) == 0).sum(0)
    signs = torch.where(write.gather(0, first[None])[0] < 0, -1, 1)
    return write * signs, None if read is None else read * signs


def random_subspace(dim: int, rank: int, generator: torch.Generator) -> Float[Tensor, "D k"]:
    """An orthonormal basis [D, k] (float64, on the generator's device) of a uniformly random subspace.

    Raises:
        RankError: where rank is not in 1 .. dim.
    """
    if not 1 <= rank <= dim:
        raise RankError(f"rank {rank} in {dim} dimensions", expected=f"1 to {dim}", do="ask for a smaller rank")
    normal = torch.randn(dim, rank, dtype=torch.float64, generator=generator, device=generator.device)
    return positive_qr(normal)[0]


def principal_angles(a: Float[Tensor, "D ka"], b: Float[Tensor, "D kb"]) -> Float[Tensor, "m"]:
    """Principal angles between two column spans, in radians, largest first; m = min(ka, kb).

    Args:
        a, b: any bases, [D, ka] and [D, kb].

    Raises:
        ShapeError: where D differs. RankError: where columns are dependent.

    Notes:
        Cosines are exact at large angles and sines at small ones, so each angle is the arctangent of both (after Knyazev and
        Argentati 2002, doi:10.1137/S1064827500377332): errors of 1e-15, where the arccos of singular values stops at 1e-8.
        So does scipy.linalg.subspace_angles where some angles are below 45 degrees and others above, because it then takes the
        sines of the wrong ones.
    """
    q_a, q_b = _bases(a, b)
    wide, narrow = (q_a, q_b) if q_a.shape[1] >= q_b.shape[1] else (q_b, q_a)
    with no_autocast(q_a):
        shared = wide.T @ narrow
        sines, cosines = torch.linalg.svdvals(narrow - wide @ shared), torch.linalg.svdvals(shared)
    return torch.atan2(sines, cosines.flip(0))


def overlap(a: Float[Tensor, "D ka"], b: Float[Tensor, "D kb"]) -> float:
    """``||Q_a^T Q_b||_F^2 / sqrt(ka kb)``, in [0, 1]; the inputs are orthonormalised inside.

    Args:
        a, b: any bases, [D, ka] and [D, kb].

    Raises:
        ShapeError: where D differs. RankError: where columns are dependent.
    """
    q_a, q_b = _bases(a, b)
    with no_autocast(q_a):
        return float((q_a.T @ q_b).square().sum()) / math.sqrt(q_a.shape[1] * q_b.shape[1])


def chance_overlap(ka: int, kb: int, dim: int) -> float:
    """Mean overlap of two random subspaces of dimensions ka and kb: ``sqrt(ka kb) / D``."""
    if not (1 <= ka <= dim and 1 <= kb <= dim):
        raise RankError(f"ranks {ka} and {kb} in {dim} dimensions", expected=f"1 to {dim}", do="check the ranks")
    return math.sqrt(ka * kb) / dim


def overlap_similarity(
    a: Float[Tensor, "D ka"], b: Float[Tensor, "D kb"], *, generator: torch.Generator, num_draws: int = 2000
) -> Similarity:
    """The overlap of two subspaces beside that of random ones of the same dimensions.

    Args:
        a, b: any bases, [D, ka] and [D, kb].
        generator: for the null's draws.
        num_draws: random pairs behind ``null_low``, ``null_high`` and ``null_components``.

    Returns:
        ``value`` is the overlap, ``components`` the squared cosines of the principal angles, largest first (their mean is
        the value where ka = kb), ``null_mean`` the closed form sqrt(ka kb)/D, ``null_low`` and ``null_high`` the
        central 95 % of random pairs. Nothing is fitted, so there is no hold-out value.

    Raises:
        ShapeError: where D differs. RankError: where columns are dependent. ConfigError: where num_draws < 1.
    """
    q_a, q_b = _bases(a, b)
    (dim, ka), kb = q_a.shape, q_b.shape[1]
    if num_draws < 1:
        raise ConfigError(f"{num_draws} draws", expected="at least 1", do="leave num_draws at its default of 2000")
    with no_autocast(q_a):
        cosines = torch.linalg.svdvals(q_a.T @ q_b).square().clamp_max(1.0)
    draws = _random_squared_cosines(max(ka, kb), min(ka, kb), dim, num_draws, generator)
    null = draws.sum(1) / math.sqrt(ka * kb)
    low, high = torch.quantile(null, torch.tensor([0.025, 0.975], dtype=null.dtype, device=null.device)).tolist()
    return Similarity(
        name="overlap",
        value=overlap(a, b),
        components=tuple(cosines.tolist()),
        null_mean=chance_overlap(ka, kb, dim),
        null_low=low,
        null_high=high,
        null_components=tuple(draws.mean(0).tolist()),
        dims=(dim, dim),
        rank=min(ka, kb),
        num_permutations=num_draws,
    )


def _random_squared_cosines(large: int, small: int, dim: int, num: int, generator: torch.Generator) -> Tensor:
    """Squared cosines between random subspaces, [num, small]: one may be held fixed, as only their relation matters."""
    parts, step = [], max(1, _CHUNK // (dim * small))
    for start in range(0, num, step):
        shape = (min(step, num - start), dim, small)
        normal = torch.randn(shape, dtype=torch.float64, generator=generator, device=generator.device)
        with no_autocast(normal):
            parts.append(torch.linalg.svdvals(positive_qr(normal)[0][:, :large]).square())
    return torch.cat(parts)


def _bases(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    a, b = as_float64("a", a, ndim=2), as_float64("b", b, ndim=2)
    if a.shape[0] != b.shape[0]:
        raise ShapeError(
            f"subspaces of {a.shape[0]} and {b.shape[0]} dimensions (shapes {list(a.shape)} and {list(b.shape)})",
            expected="one ambient dimension",
            do="compare models of different widths by their coordinates on the same inputs (CCA)",
        )
    return orthonormal_basis(a), orthonormal_basis(b.to(a.device))
