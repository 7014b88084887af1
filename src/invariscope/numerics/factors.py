"""Streaming QR factors: all that a core needs to know of N activations and N Jacobians, in O(D^2) memory.

Algorithmic Core Extraction (arXiv:2602.22600) is the SVD of H J^T, activations times Jacobians: an N x N matrix that is
never formed. With thin QRs H = Q_H R_H and J = Q_J R_J its singular values are those of the D x D matrix R_H R_J^T:

    H J^T = Q_H (R_H R_J^T) Q_J^T = (Q_H A) diag(sigma) (Q_J B)^T,    R_H R_J^T = A diag(sigma) B^T

Only R is kept. The R of stacked rows is the R of [R; next rows], so rows arrive in chunks of any size, workers merge
theirs by one more QR, and, unlike with Gram matrices, nothing is squared: singular values keep full precision. Centring is
free: carry a column of ones; in the R of [1 | H] the mean is R[0, 1:] / R[0, 0], and R[1:, 1:] is the factor of the
centred H.

>>> rows = torch.tensor([[1.0, 0.0], [3.0, 4.0], [5.0, 2.0]])
>>> factor = QRFactor(2, centred=True)
>>> factor.update(rows[:1])
>>> factor.update(rows[1:])
>>> factor.mean.round(decimals=6).tolist()
[3.0, 2.0]
>>> (factor.factor().T @ factor.factor()).round(decimals=6).tolist()
[[8.0, 4.0], [4.0, 8.0]]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from invariscope.batch import check_finite
from invariscope.errors import ConfigError, ForeignFileError, ShapeError, TooFewSamplesError
from invariscope.numerics.linalg import as_float64, check_weights, no_autocast

__all__ = ["QRFactor", "factored_svd"]

# Turning rows into columns is two to four times faster in pieces that stay in the processor's cache (a few per cent of a fold at
# D = 576, the QR being the rest).
_TRANSPOSED_ROWS = 512

_STATE = ("triangle", "num_rows", "total_weight", "centred")


class QRFactor:
    """The triangular factor of rows that arrive one chunk after the other.

    ``R^T R = sum_i w_i (h_i - mean)(h_i - mean)^T``, or the same without the mean where not ``centred``.

    Args:
        dim: D, the dimension of a row.
        centred: whether the (weighted) mean is taken out.
        device: where the factor lives; rows are moved there.

    Attributes:
        num_rows: rows seen so far. total_weight: the sum of their weights (1 each where none are given).

    Notes:
        float64 throughout. Another chunking, or a merge, changes the result in the last digits only. At most
        2 max(4 D, 4096) rows are held between two QRs.
    """

    def __init__(self, dim: int, *, centred: bool, device: torch.device | str = "cpu") -> None:
        if dim < 1:
            raise ShapeError(f"a factor of dimension {dim}", expected="at least 1", do="pass the width of the rows")
        self.dim, self.centred, self.device = dim, centred, torch.device(device)
        self.num_rows, self.total_weight = 0, 0.0
        self._columns = dim + int(centred)
        self._capacity = max(4 * dim, 4096)
        self._triangle = torch.zeros(0, self._columns, dtype=torch.float64, device=self.device)
        self._buffer: list[Tensor] = []
        self._num_buffered = 0

    def update(self, rows: Float[Tensor, "n D"], weights: Float[Tensor, "n"] | None = None) -> None:
        """Take in more rows.

        Args:
            rows: [n, D], any dtype and device; n may be 0.
            weights: [n], non-negative; a weight of 2 is the same as giving the row twice.

        Raises:
            ShapeError, NonFiniteError: where the rows or weights are none; the factor is then as before.
            ConfigError: where a weight is negative.
        """
        if not isinstance(rows, Tensor) or rows.ndim != 2 or rows.shape[1] != self.dim:
            shape = list(rows.shape) if isinstance(rows, Tensor) else type(rows).__name__
            raise ShapeError(
                f"rows of shape {shape} for a factor of dimension {self.dim}",
                expected=f"[n, {self.dim}]",
                do="flatten batch and position into one axis, or make the factor with the rows' dimension",
            )
        rows = check_finite("rows", rows.detach())
        weights = None if weights is None else check_weights(weights, len(rows))
        # Chunk by chunk, so that a large low-precision tensor never has a float64 copy of its own size.
        for start in range(0, len(rows), self._capacity):
            part = slice(start, start + self._capacity)
            chunk = torch.empty(len(rows[part]), self._columns, dtype=torch.float64, device=self.device)
            chunk[:, : int(self.centred)] = 1.0
            chunk[:, int(self.centred) :] = rows[part].to(self.device, torch.float64)
            if weights is not None:
                chunk *= weights[part, None].sqrt().to(self.device)
            self._buffer.append(chunk)
            self._num_buffered += len(chunk)
            if self._num_buffered >= self._capacity:
                self._fold()
        self.num_rows += len(rows)
        self.total_weight += float(len(rows)) if weights is None else float(weights.sum())

    @classmethod
    def merge(cls, factors: Sequence[QRFactor]) -> QRFactor:
        """The factor of all rows that any of ``factors`` has seen; they stay as they are.

        Raises:
            TooFewSamplesError: where there are none.
            ShapeError: where they differ in dimension or in centring.
        """
        if not factors:
            raise TooFewSamplesError("no factors to merge", expected="at least one", do="pass the workers' factors")
        first = factors[0]
        for other in factors[1:]:
            if (other.dim, other.centred) != (first.dim, first.centred):
                raise ShapeError(
                    f"factors of dimension {first.dim} ({_centring(first)}) and {other.dim} ({_centring(other)})",
                    expected="one dimension and one centring",
                    do="merge only factors of the same site and the same kind",
                )
        merged = cls(first.dim, centred=first.centred, device=first.device)
        for factor in factors:
            factor._fold()
            merged._buffer.append(factor._triangle.to(merged.device))
            merged._num_buffered += len(factor._triangle)
            merged.num_rows += factor.num_rows
            merged.total_weight += factor.total_weight
            if merged._num_buffered >= merged._capacity:
                merged._fold()
        return merged

    @property
    def mean(self) -> Float[Tensor, "D"]:
        """Weighted mean of the rows, [D].

        Raises:
            TooFewSamplesError: before any row of positive weight.
            ConfigError: where the factor is not centred, and so does not know it.
        """
        if not self.centred:
            raise ConfigError(
                "the mean of a factor that is not centred", expected="centred=True", do="make the factor with centred=True"
            )
        self._check_rows()
        self._fold()
        return self._triangle[0, 1:] / self._triangle[0, 0]

    def factor(self) -> Float[Tensor, "D D"]:
        """R: upper triangular, diagonal non-negative, [D, D] in float64.

        Rows at the end are zero where fewer than D rows were seen. R is unique where the rows span all D directions; where
        they do not, R^T R is.

        Raises:
            TooFewSamplesError: before any row of positive weight.
        """
        self._check_rows()
        self._fold()
        inner = self._triangle[int(self.centred) :, int(self.centred) :]
        signs = torch.where(inner.diagonal() < 0, -1.0, 1.0).to(inner.dtype)
        full = torch.zeros(self.dim, self.dim, dtype=torch.float64, device=self.device)
        full[: len(inner)] = inner * signs[: len(inner), None]
        return full.triu()

    def state(self) -> dict[str, Tensor]:
        """Everything that :meth:`from_state` needs, as tensors to be saved."""
        self._fold()
        triangle = torch.zeros(self._columns, self._columns, dtype=torch.float64, device=self.device)
        triangle[: len(self._triangle)] = self._triangle
        return {
            "triangle": triangle,
            "num_rows": torch.tensor(self.num_rows),
            "total_weight": torch.tensor(self.total_weight, dtype=torch.float64),
            "centred": torch.tensor(self.centred),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> QRFactor:
        """The factor that :meth:`state` described.

        Raises:
            ForeignFileError: where a part is missing or the triangle is no square matrix.
        """
        missing = [name for name in _STATE if name not in state]
        if missing:
            raise ForeignFileError(
                f"a factor's state without {', '.join(missing)}",
                expected=f"the entries {', '.join(_STATE)}",
                do="save it again with QRFactor.state()",
            )
        odd = [name for name in _STATE[1:] if state[name].numel() != 1]
        if odd:
            raise ForeignFileError(
                f"a factor's state whose {odd[0]} has {state[odd[0]].numel()} entries",
                expected="one number",
                do="save it again with QRFactor.state()",
            )
        triangle, centred = state["triangle"], bool(state["centred"])
        if triangle.ndim != 2 or triangle.shape[0] != triangle.shape[1] or len(triangle) <= int(centred):
            raise ForeignFileError(
                f"a factor's state with a triangle of shape {list(triangle.shape)}",
                expected="a square matrix",
                do="save it again with QRFactor.state()",
            )
        factor = cls(len(triangle) - int(centred), centred=centred, device=triangle.device)
        factor._triangle = as_float64("triangle", triangle, ndim=2).clone()
        factor.num_rows, factor.total_weight = int(state["num_rows"]), float(state["total_weight"])
        return factor

    def _fold(self) -> None:
        if not self._buffer:
            return
        parts = [self._triangle, *self._buffer]
        num = len(self._triangle) + self._num_buffered
        # LAPACK works on columns. Stacking into its own layout and factorising in place gives torch.linalg.qr's numbers to the
        # last bit without its two further copies of all rows: two fifths less memory at the peak.
        stacked = torch.empty(self._columns, num, dtype=torch.float64, device=self.device).T
        tau = torch.empty(min(num, self._columns), dtype=torch.float64, device=self.device)
        start = 0
        for part in parts:
            for piece in part.split(_TRANSPOSED_ROWS):
                stacked[start : start + len(piece)] = piece
                start += len(piece)
        with no_autocast(stacked):
            torch.geqrf(stacked, out=(stacked, tau))
        self._triangle = stacked[: self._columns].triu().contiguous()
        self._buffer, self._num_buffered = [], 0

    def _check_rows(self) -> None:
        if self.total_weight <= 0:
            raise TooFewSamplesError(
                f"a factor that has seen {self.num_rows} rows of total weight {self.total_weight:g}",
                expected="at least one row of positive weight",
                do="call update(rows) first",
            )


def _centring(factor: QRFactor) -> str:
    return "centred" if factor.centred else "not centred"


def factored_svd(
    left: Float[Tensor, "D D"], right: Float[Tensor, "D D"]
) -> tuple[Float[Tensor, "D D"], Float[Tensor, "D"], Float[Tensor, "D D"]]:
    """SVD of a product of factors, ``left @ right.T = A diag(sigma) B.T`` (arXiv:2602.22600: R_H R_J^T).

    Args:
        left: R_H, [D, D]. right: R_J, [D, D].

    Returns:
        A [D, D], sigma [D] (largest first), B [D, D], in float64. ``left.T @ A`` spans the activation side and
        ``right.T @ B`` the adjoint side. The signs of the pairs of columns are LAPACK's: fix them after mapping back.

    Raises:
        ShapeError: where the shapes differ. NonFiniteError: where an entry is not finite.

    Notes:
        Singular values below about 1e-15 of the largest are rounding.
    """
    left, right = as_float64("left", left, ndim=2), as_float64("right", right, ndim=2)
    if left.shape != right.shape or left.shape[0] != left.shape[1]:
        raise ShapeError(
            f"factors of shape {list(left.shape)} and {list(right.shape)}",
            expected="two square matrices of one size",
            do="use the factors of one site's activations and Jacobians",
        )
    with no_autocast(left):
        a, sigma, b_transposed = torch.linalg.svd(left @ right.T)
    return a, sigma, b_transposed.T
