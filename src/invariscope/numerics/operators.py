"""Linear operators on core coordinates: the map z -> z' that a model carries out, and its spectrum with intervals.

On pairs (z, z'), such as the coordinates of consecutive tokens, least squares about both means gives

    z' - mean_to = A (z - mean_from) + residual

If a core codes the state of a Markov chain linearly, the eigenvalues of A are those of the transition matrix without
the 1 (arXiv:2602.22600), whatever the basis of the core: a change of basis is a similarity transform. They come with a bootstrap
interval over sequences, and the fit with its R^2 on held-out sequences.

>>> generator = torch.Generator().manual_seed(0)
>>> z = torch.randn(1000, 2, generator=generator, dtype=torch.float64)
>>> operator = fit_operator(z, z @ torch.tensor([[0.6, -0.3], [0.3, 0.6]], dtype=torch.float64).T)
>>> [f"{value:.3f}" for value in operator.eigenvalues.tolist()], round(operator.r2_heldout.value, 6)
(['0.600+0.300j', '0.600-0.300j'], 1.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.optimize
import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor

from invariscope.errors import ConfigError, NonFiniteError, RankError, ShapeError, TooFewSamplesError, unknown_name
from invariscope.estimate import Estimate
from invariscope.numerics.errors_in_variables import solve_from_second_moments, total_least_squares
from invariscope.numerics.linalg import as_float64, centred_qr, no_autocast
from invariscope.numerics.resampling import bootstrap_sums, group_index, pool_groups, quantile_interval, split_groups

__all__ = ["METHODS", "Method", "Operator", "eigenvalue_error", "fit_operator", "match_eigenvalues"]

Method = Literal["least_squares", "total_least_squares"]
METHODS = ("least_squares", "total_least_squares")
_MIN_GROUPS = 10
_ROW_MOMENTS = 2**21  # numbers computed at once on the way to the groups' moments
_GROUP_MOMENTS = 2**24  # numbers kept for the bootstrap: 128 MB


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operator:
    """A linear map fitted on coordinates.

    Args:
        matrix: A, [k_to, k_from].
        mean_from, mean_to: [k_from], [k_to].
        eigenvalues: of A, [k] complex128, by real part, then by imaginary part, both descending; empty if A is not square.
        r2: share of the variance of z' explained on the fitted pairs, all components together.
        r2_heldout: the same for a fit on some of the groups, scored on the others against their fit's mean.
        interval: (real_low, real_high, imag_low, imag_high) of each eigenvalue at 95 %; empty where none was asked for.
        bootstrap_eigenvalues: [num_bootstrap, k], each draw in the order of ``eigenvalues`` (optimal assignment).
        num_pairs, num_groups: what the fit stands on.
    """

    matrix: Float[Tensor, "k_to k_from"]
    mean_from: Float[Tensor, "k_from"]
    mean_to: Float[Tensor, "k_to"]
    eigenvalues: Complex[Tensor, "k"]
    r2: float
    r2_heldout: Estimate
    interval: tuple[tuple[float, float, float, float], ...]
    bootstrap_eigenvalues: Complex[Tensor, "num_bootstrap k"]
    num_pairs: int
    num_groups: int

    def __post_init__(self) -> None:
        if self.matrix.shape != (len(self.mean_to), len(self.mean_from)):
            raise ShapeError(
                f"a matrix of shape {list(self.matrix.shape)} with means of shape {list(self.mean_to.shape)} and "
                f"{list(self.mean_from.shape)}",
                expected=f"[{len(self.mean_to)}, {len(self.mean_from)}]",
                do="make it with fit_operator",
            )

    def predict(self, z: Float[Tensor, "... k_from"]) -> Float[Tensor, "... k_to"]:
        """``mean_to + A (z - mean_from)``, computed in float64, in z's dtype and on its device.

        Raises:
            ShapeError: where z has another dimension.
        """
        if z.shape[-1] != len(self.mean_from):
            raise ShapeError(
                f"coordinates of shape {list(z.shape)}",
                expected=f"[..., {len(self.mean_from)}]",
                do="pass coordinates of the core that the operator was fitted on",
            )
        with no_autocast(z):
            centred = z.to(torch.float64) - self.mean_from.to(z.device)
            predicted = self.mean_to.to(z.device) + centred @ self.matrix.to(z.device).T
        return predicted.to(z.dtype if z.is_floating_point() else torch.float64)

    def error(self, expected: Complex[Tensor, "k"] | Sequence[complex]) -> Estimate:
        """Largest distance between matched eigenvalues of A and ``expected``, with its bootstrap interval.

        A distance is not negative, so noise enlarges it: the upper end errs on the safe side.

        Raises:
            ShapeError: where there are not k expected eigenvalues.
        """
        value = eigenvalue_error(self.eigenvalues, expected)
        draws = [eigenvalue_error(draw, expected) for draw in self.bootstrap_eigenvalues]
        low = high = None
        if draws:
            low, high = quantile_interval(torch.tensor(draws, dtype=torch.float64), 0.95)
            low, high = min(low, value), max(high, value)
        return Estimate(value=value, low=low, high=high, num=self.num_pairs, method=_method(self.num_groups, len(draws)))


def fit_operator(
    z_from: Float[Tensor, "n k_from"],
    z_to: Float[Tensor, "n k_to"],
    *,
    generator: torch.Generator | None = None,
    groups: Int[Tensor, "n"] | None = None,
    heldout_share: float = 0.5,
    num_bootstrap: int = 200,
    method: Method = "least_squares",
) -> Operator:
    """Least squares on pairs, about both means: ``A = argmin sum_i ||(z'_i - mean') - A (z_i - mean)||^2``.

    Args:
        z_from, z_to: paired coordinates, [n, k_from] and [n, k_to].
        generator: for the split and the draws; None: a new one with seed 0.
        groups: the sequence of each pair, [n], which neither the split nor the bootstrap breaks; None: pairs are independent.
        heldout_share: share of the groups that R^2 is scored on; the returned map is fitted on all pairs.
        num_bootstrap: draws behind the intervals; 0: no intervals.
        method: ``least_squares``, or ``total_least_squares`` where z_from has errors as large as those of z_to
            (:mod:`invariscope.numerics.errors_in_variables`: not for sampled successors).

    Raises:
        ShapeError: where the numbers of pairs differ. NonFiniteError: where an entry is not finite.
        TooFewSamplesError: below 10 groups, or below k_from + 1 pairs in the fitted part.
        RankError: where a column of z_from is constant or depends on the others, or z_to does not vary.
        ConfigError: where heldout_share or num_bootstrap is out of range. UnknownNameError: for another method.

    Notes:
        Solved by QR, not by normal equations. The bootstrap needs each group's second moments only, taken in white
        coordinates, so its cost hardly depends on n; more than 20 000 groups (fewer for large k) are pooled at random. A draw in
        which z_from spans fewer directions gets the smallest solution.
    """
    if method not in METHODS:
        raise unknown_name("method", str(method), METHODS)
    x, y = as_float64("z_from", z_from, ndim=2), as_float64("z_to", z_to, ndim=2).to(z_from.device)
    index, num_groups = group_index(groups, len(x))
    _check(x, y, num_groups, num_bootstrap)
    index = index.to(x.device)
    if generator is None:
        generator = torch.Generator().manual_seed(0)
    r2_heldout = _heldout_r2(x, y, index, split_groups(index, heldout_share, generator), num_bootstrap, generator, method)
    mean_from, q, r = centred_qr("z_from", x)
    mean_to = y.mean(0)
    centred = y - mean_to
    with no_autocast(x):
        if method == "least_squares":
            white = q.T @ centred
            matrix = torch.linalg.solve_triangular(r, white, upper=True).T
        else:
            matrix = total_least_squares(x - mean_from, centred)
            white = r @ matrix.T
        r2 = 1 - float((centred - q @ white).square().sum() / centred.square().sum())
    square = matrix.shape[0] == matrix.shape[1]
    eigenvalues = _sorted_eigenvalues(matrix) if square else torch.zeros(0, dtype=torch.complex128)
    draws = torch.zeros(num_bootstrap, len(eigenvalues), dtype=torch.complex128)
    if square and num_bootstrap:
        for i, draw in enumerate(_bootstrap_eigenvalues(q, r, centred, index, num_groups, num_bootstrap, generator, method)):
            draws[i] = draw[match_eigenvalues(draw, eigenvalues)[0]]
    return Operator(
        matrix=matrix,
        mean_from=mean_from,
        mean_to=mean_to,
        eigenvalues=eigenvalues,
        r2=r2,
        r2_heldout=r2_heldout,
        interval=tuple((*quantile_interval(column.real, 0.95), *quantile_interval(column.imag, 0.95)) for column in draws.T)
        if num_bootstrap
        else (),
        bootstrap_eigenvalues=draws,
        num_pairs=len(x),
        num_groups=num_groups,
    )


def match_eigenvalues(
    fitted: Complex[Tensor, "k"] | Sequence[complex], expected: Complex[Tensor, "k"] | Sequence[complex]
) -> tuple[Int[Tensor, "k"], Float[Tensor, "k"]]:
    """Optimal assignment of fitted to expected eigenvalues: the order with the smallest sum of distances.

    Returns:
        order [k], so that ``fitted[order]`` stands beside ``expected``, and the distances [k] in the complex plane.

    Raises:
        ShapeError: where their numbers differ. NonFiniteError: where one is not finite.

    >>> order, distances = match_eigenvalues([0.5 + 0j, 0.7 - 0.2j, 0.7 + 0.2j], [0.75 + 0.2j, 0.75 - 0.2j, 0.5])
    >>> order.tolist(), [round(distance, 3) for distance in distances.tolist()]
    ([2, 1, 0], [0.05, 0.05, 0.0])
    """
    a, b = (torch.as_tensor(values, dtype=torch.complex128).detach().cpu() for values in (fitted, expected))
    if a.ndim != 1 or a.shape != b.shape:
        raise ShapeError(
            f"{list(a.shape)} fitted and {list(b.shape)} expected eigenvalues",
            expected="one fitted eigenvalue for each expected one",
            do="fit the operator on a core of the rank that the task's spectrum has",
        )
    if not bool(torch.isfinite(torch.view_as_real(torch.stack([a, b]))).all()):
        raise NonFiniteError("eigenvalues that are NaN or infinite", expected="finite numbers", do="look at the fit")
    distances = (a[:, None] - b[None, :]).abs()
    rows, columns = scipy.optimize.linear_sum_assignment(distances.numpy())
    order = torch.from_numpy(rows[np.argsort(columns)])
    return order, distances[order, torch.arange(len(b))]


def eigenvalue_error(
    fitted: Complex[Tensor, "k"] | Sequence[complex], expected: Complex[Tensor, "k"] | Sequence[complex]
) -> float:
    """Largest distance after :func:`match_eigenvalues`.

    Raises:
        ShapeError: where their numbers differ or are zero.
    """
    _, distances = match_eigenvalues(fitted, expected)
    if not len(distances):
        raise ShapeError("no eigenvalues to compare", expected="at least one", do="fit a square operator: from and to one core")
    return float(distances.max())


def _check(x: Tensor, y: Tensor, num_groups: int, num_bootstrap: int) -> None:
    if len(x) != len(y) or 0 in (x.shape[1], y.shape[1]):
        raise ShapeError(
            f"z_from of shape {list(x.shape)} and z_to of shape {list(y.shape)}",
            expected="the same number of pairs, and at least one column each",
            do="give the coordinates of both ends of every pair",
        )
    if num_bootstrap < 0:
        raise ConfigError(f"{num_bootstrap} bootstrap draws", expected="0 or more", do="leave it at its default of 200")
    if num_groups < _MIN_GROUPS:
        raise TooFewSamplesError(
            f"{len(x)} pairs in {num_groups} groups", expected=f"at least {_MIN_GROUPS} groups", do="use more sequences"
        )
    if bool((y == y[0]).all()):
        raise RankError("z_to that does not vary", expected="coordinates that vary", do="look at what was read")


def _heldout_r2(
    x: Tensor, y: Tensor, index: Tensor, heldout: Tensor, num_bootstrap: int, generator: torch.Generator, method: Method
) -> Estimate:
    mean_from, q, r = centred_qr("z_from (the fitted part)", x[~heldout])
    mean_to = y[~heldout].mean(0)
    with no_autocast(x):
        if method == "least_squares":
            transposed = torch.linalg.solve_triangular(r, q.T @ (y[~heldout] - mean_to), upper=True)
        else:
            transposed = total_least_squares(x[~heldout] - mean_from, y[~heldout] - mean_to).T
        total = y[heldout] - mean_to
        residual = total - (x[heldout] - mean_from) @ transposed
    groups, num_groups = group_index(index[heldout], len(total))
    columns = torch.stack([residual.square().sum(1), total.square().sum(1)], dim=1)
    unexplained, variance = columns.sum(0).tolist()
    if variance == 0:
        raise RankError("z_to that does not vary in the held-out part", expected="coordinates that vary", do="use more pairs")
    low = high = None
    if num_bootstrap:
        groups, num_units = pool_groups(groups, num_groups, limit=_limit(2), generator=generator)
        sums = torch.zeros(num_units, 2, dtype=torch.float64, device=x.device).index_add_(0, groups, columns)
        drawn = bootstrap_sums(sums, generator=generator, num=num_bootstrap)
        drawn = drawn[drawn[:, 1] > 0]
        low, high = quantile_interval(1 - drawn[:, 0] / drawn[:, 1], 0.95)
    return Estimate(
        value=1 - unexplained / variance,
        low=low,
        high=high,
        num=len(total),
        unit="R²",
        method=_method(num_groups, num_bootstrap),
        chance=0.0,
    )


def _bootstrap_eigenvalues(
    q: Tensor, r: Tensor, y: Tensor, index: Tensor, num_groups: int, num: int, generator: torch.Generator, method: Method
) -> Complex[Tensor, "num k"]:
    dim, total = q.shape[1], method == "total_least_squares"
    # Least squares needs no second moments of z' with itself.
    num_left = 2 * dim if total else dim
    width = 1 + 2 * dim + num_left * 2 * dim
    index, num_units = pool_groups(index, num_groups, limit=_limit(width), generator=generator)
    moments = torch.zeros(num_units, width, dtype=torch.float64, device=q.device)
    with no_autocast(q):
        for rows in torch.arange(len(q), device=q.device).split(max(1, _ROW_MOMENTS // width)):
            one, a, b = torch.ones_like(q[rows, :1]), q[rows], y[rows]
            both = torch.cat([a, b], 1)
            products = (both[:, :num_left, None] * both[:, None, :]).flatten(1)
            moments.index_add_(0, index[rows], torch.cat([one, a, b, products], 1))
        drawn = bootstrap_sums(moments, generator=generator, num=num)
        size, means = drawn[:, :1, None], drawn[:, 1 : 1 + 2 * dim] / drawn[:, :1]
        second = drawn[:, 1 + 2 * dim :].view(num, num_left, 2 * dim)
        covariances = second - size * means[:, :num_left, None] * means[:, None, :]
        if total:
            # Errors are of one size in the coordinates themselves, not in white ones.
            back = torch.block_diag(r, torch.eye(dim, dtype=r.dtype, device=r.device))
            return torch.linalg.eigvals(solve_from_second_moments(back.T @ covariances @ back, dim)).cpu()
        # In white coordinates the first block is near the identity, so what is tiny here is a direction that the draw lacks.
        inverse = torch.linalg.pinv(covariances[:, :, :dim], rtol=1e-10, hermitian=True)
        transposed = torch.linalg.solve_triangular(r, inverse @ covariances[:, :, dim:], upper=True)
    return torch.linalg.eigvals(transposed).cpu()


def _sorted_eigenvalues(matrix: Tensor) -> Complex[Tensor, "k"]:
    values = torch.linalg.eigvals(matrix).cpu().numpy()
    return torch.from_numpy(values[np.lexsort((-values.imag, -values.real))])


def _limit(width: int) -> int:
    return max(1000, min(20_000, _GROUP_MOMENTS // width))


def _method(num_groups: int, num_bootstrap: int) -> str:
    return f"bootstrap over {num_groups} groups" if num_bootstrap else ""
