"""Total least squares: a linear map where the coordinates on *both* sides are measured with errors.

Least squares puts all error into z'. Where z itself is noisy (z = M x + ε: variance inside a state that carries no knowledge of
the next one) its slopes shrink. Total least squares moves both sides as little as possible until they fit exactly (Golub and
Van Loan 1980, doi:10.1137/0717073): with the singular value decomposition of the centred rows

    [z | z'] = U S Vᵀ,    V = [[V_11, V_12], [V_21, V_22]]   (V_22: k_to x k_to, the smallest singular values)
    z' = z B,  B = -V_12 V_22⁻¹,  A = Bᵀ

It supposes errors of one size in every coordinate of both sides, so unlike least squares it depends on the basis, and **it is
wrong for sampled successors**: the draw of the next token is an error of z' alone, many times that of z. Use it where z' is an
expectation (``identify_operator(..., successors="predicted")``).

>>> z = torch.tensor([[-1.0], [0.0], [1.0]], dtype=torch.float64)
>>> total_least_squares(z, 0.5 * z).round(decimals=6).tolist()
[[0.5]]
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from invariscope.errors import RankError
from invariscope.numerics.linalg import no_autocast, positive_qr

__all__ = ["solve_from_second_moments", "total_least_squares"]

_SINGULAR = 1e-12  # smallest singular value of V_22, whose largest possible one is 1


def total_least_squares(x: Float[Tensor, "n k_from"], y: Float[Tensor, "n k_to"]) -> Float[Tensor, "k_to k_from"]:
    """A of rows that are centred, in float64.

    Raises:
        RankError: where no map fits: the smallest changes would leave z with fewer directions than it has columns.

    Notes:
        By QR and SVD of the rows themselves, not of their second moments. Where fewer rows than columns or exact fits leave
        singular values tied at 0, any right basis of them gives the same map.
    """
    with no_autocast(x):
        _, factor = positive_qr(torch.cat([x, y], dim=1))
        _, _, v_transposed = torch.linalg.svd(factor, full_matrices=True)
        matrix, smallest = _solve(v_transposed.mT[:, -y.shape[1] :], x.shape[1])
    if float(smallest) <= _SINGULAR:
        raise RankError(
            f"total least squares from {x.shape[1]} to {y.shape[1]} coordinates whose errors hide a direction of z_from",
            expected="every direction of z_from to vary more than the errors do",
            do="use method='least_squares', or a smaller rank",
        )
    return matrix


def solve_from_second_moments(moments: Float[Tensor, "... m m"], k_from: int) -> Float[Tensor, "... k_to k_from"]:
    """A from second moments of the centred [z | z'] (m = k_from + k_to); for bootstrap draws, at half the digits."""
    with no_autocast(moments):
        _, vectors = torch.linalg.eigh(moments)
        return _solve(vectors[..., : moments.shape[-1] - k_from], k_from)[0]


def _solve(smallest: Tensor, k_from: int) -> tuple[Tensor, Tensor]:
    upper, lower = smallest[..., :k_from, :], smallest[..., k_from:, :]
    # A pseudo-inverse, so that one singular draw of a bootstrap does not end it; the fit itself is refused there.
    return -(upper @ torch.linalg.pinv(lower, rtol=_SINGULAR)).mT, torch.linalg.svdvals(lower)[..., -1]
