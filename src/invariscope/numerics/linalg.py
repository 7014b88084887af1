"""The house rules of linear algebra: float64, no autocast, finite input, and a QR that has only one answer.

A float32 Gram matrix of activations loses its fifth direction to 3e-4, and a QR is unique only up to the sign of each
row of R, which LAPACKs choose differently. So every function of :mod:`invariscope.numerics` takes its input through
:func:`as_float64`, works inside :func:`no_autocast`, and factorises with :func:`positive_qr`: R has a non-negative
diagonal, so column i of Q points along column i of the matrix. :func:`centred_qr` is the same about the mean, that is,
whitening, which canonical correlations and least squares share.

>>> q, r = positive_qr(torch.tensor([[-3.0, 0.0], [0.0, 2.0]], dtype=torch.float64))
>>> r.diagonal().tolist()
[3.0, 2.0]
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from invariscope.batch import check_finite
from invariscope.errors import ConfigError, RankError, ShapeError, TooFewSamplesError

__all__ = ["as_float64", "centred_qr", "check_weights", "no_autocast", "positive_qr"]

# A column whose part outside the earlier columns is smaller than this share of its length is rounding, not a direction:
# QR in float64 leaves about 1e-15, and whitening with a smaller pivot would amplify that noise beyond 1e-4.
_DEPENDENT = 1e-12


def as_float64(name: str, tensor: Tensor, *, ndim: int) -> Tensor:
    """``tensor`` in float64 on its own device, detached from the graph, after checking what it is.

    Args:
        name: what messages call it.
        tensor: any real tensor.
        ndim: how many axes it must have.

    Raises:
        ShapeError: where it is no tensor or has another number of axes.
        NonFiniteError: where an entry is NaN or infinite.
    """
    if not isinstance(tensor, Tensor):
        raise ShapeError(f"{name} of type {type(tensor).__name__}", expected="a torch.Tensor", do=f"pass torch.as_tensor({name})")
    if tensor.ndim != ndim:
        raise ShapeError(
            f"{name} of shape {list(tensor.shape)}",
            expected=f"{ndim} axes" if ndim != 1 else "1 axis",
            do="flatten the leading axes or select what you want to measure",
        )
    return check_finite(name, tensor.detach()).to(torch.float64)


def check_weights(weights: Float[Tensor, "n"], num: int) -> Float[Tensor, "n"]:
    """``weights`` in float64, after checking that there is one non-negative weight for each of ``num`` rows.

    Raises:
        ShapeError, NonFiniteError: for what is no list of weights. ConfigError: where one is negative.
    """
    weights = as_float64("weights", weights, ndim=1)
    if len(weights) != num:
        raise ShapeError(f"{len(weights)} weights for {num} rows", expected="one weight a row", do="give weights of shape [n]")
    if bool((weights < 0).any()):
        raise ConfigError(
            f"weights of which the smallest is {float(weights.min()):g}",
            expected="non-negative weights",
            do="give rows to be left out the weight 0",
        )
    return weights


def no_autocast(tensor: Tensor) -> torch.autocast:
    """A context in which matrix products on ``tensor``'s device keep their precision."""
    return torch.autocast(device_type=tensor.device.type, enabled=False)


def positive_qr(matrix: Float[Tensor, "... n k"]) -> tuple[Float[Tensor, "... n m"], Float[Tensor, "... m k"]]:
    """Thin QR with a non-negative diagonal of R, which makes it unique where the columns are independent."""
    with no_autocast(matrix):
        q, r = torch.linalg.qr(matrix, mode="reduced")
        signs = torch.where(r.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0).to(r.dtype)
        return q * signs[..., None, :], r * signs[..., :, None]


def centred_qr(name: str, rows: Float[Tensor, "n k"]) -> tuple[Float[Tensor, "k"], Float[Tensor, "n k"], Float[Tensor, "k k"]]:
    """Whitening of float64 rows: ``rows - mean = Q R``, so that ``(rows - mean) R^-1`` has orthonormal columns.

    Args:
        name: what messages call them.
        rows: [n, k] with n > k.

    Returns:
        mean [k], Q [n, k], R [k, k] (upper triangular, positive diagonal).

    Raises:
        TooFewSamplesError: where n <= k.
        RankError: where a column is constant or a combination of the columns before it.
    """
    num, dim = rows.shape
    if num <= dim:
        raise TooFewSamplesError(
            f"{name} with {num} rows of dimension {dim}",
            expected=f"at least {dim + 1} rows, because the mean takes one",
            do="give more samples or fewer dimensions",
        )
    with no_autocast(rows):
        mean = rows.mean(0)
        q, r = positive_qr(rows - mean)
        dependent = r.diagonal() <= _DEPENDENT * rows.norm(dim=0)
    if bool(dependent.any()):
        column = int(dependent.nonzero()[0])
        raise RankError(
            f"{name} of shape {[num, dim]}, whose column {column} is constant or a combination of the columns before it",
            expected=f"{dim} independent columns, but there are {dim - int(dependent.sum())}",
            do="ask for a smaller rank, or leave the column out",
        )
    return mean, q, r
