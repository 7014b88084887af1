"""A random transition matrix with a spectrum of one's choice, so that a claim about eigenvalues can be tried on any of them.

Every T = S D S⁻¹ with D = diag(1, λ) in real form (a pair a ± bi becomes the block [[a, b], [-b, a]]) and S = [1 | U] has rows
that sum to 1 and exactly the wanted eigenvalues; only non-negative entries are missing. U starts at random: with a random law π
and Q orthonormal and orthogonal to π^½, U = diag(π)^-½ Q has the stationary law π. From there it descends on the squares of what
is negative in T, along matrices that all have the spectrum. Which spectra can be reached at all is the stochastic inverse
eigenvalue problem, open from five states on, so a failure names the number of tries. Only two conditions are certain, and are
checked first: tr T^k >= 0, and (tr T^k)² <= n tr T^2k (Loewy and London 1978, Linear and Multilinear Algebra 6, 83-90).

>>> matrix = find_transition([0.5, 0.2 + 0.3j, 0.2 - 0.3j], generator=torch.Generator().manual_seed(0))
>>> [f"{value:.4f}" for value in nontrivial_spectrum(matrix).tolist()]
['0.5000+0.0000j', '0.2000+0.3000j', '0.2000-0.3000j']
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import scipy.optimize
import torch
from jaxtyping import Complex, Float
from torch import Tensor

from invariscope.errors import TransitionMatrixError
from invariscope.tasks.chain_algebra import ZERO_EIGENVALUE, check_transition, nontrivial_spectrum

__all__ = ["find_transition"]

Spectrum: TypeAlias = "Sequence[complex] | np.ndarray | Complex[Tensor, 'k'] | Float[Tensor, 'k']"

# How far the chain's eigenvalues may be from those wanted.
SPECTRUM_TOLERANCE = 1e-10
# Entries this close to zero are set to zero: far less than the tolerance of the spectrum.
ENTRY_TOLERANCE = 1e-12
CONJUGATE_TOLERANCE = 1e-12
# Entries aimed at first, as a share of the uniform 1/n: chains inside the set of their kind are irreducible and aperiodic.
MARGIN_SHARE = 0.02
# Spread of log π at the first try; the law of later tries is closer to uniform, where fewest entries start below zero.
LAW_SPREAD = 0.7
MAX_STEPS = 300
NUM_TRIES = 20


def find_transition(
    eigenvalues: Spectrum, *, generator: torch.Generator, num_states: int | None = None, num_tries: int = NUM_TRIES
) -> Float[Tensor, "n n"]:
    """A random irreducible and aperiodic transition matrix with the eigenvalues 1 and ``eigenvalues``.

    Args:
        eigenvalues: the wanted ones without the 1, in any order, real or in conjugate pairs, of modulus below 1; those below
            1e-8 count as zero, as they do in ``MarkovChain.eigenvalues``.
        generator: a CPU generator, for the starts.
        num_states: n; None: one more than there are eigenvalues. Those not given are zero.
        num_tries: random starts before giving up.

    Returns:
        [n, n] float64, whose spectrum is the wanted one within 1e-10.

    Raises:
        TransitionMatrixError: where no chain has such eigenvalues, and where none was reached in ``num_tries`` tries.

    Notes:
        The spectrum holds by construction up to the condition of S; it is measured anew on what is returned. A spectrum on the
        rim of what n states can reach, as that of .75 I + .25 (cyclic shift), gives a matrix with zeros.
    """
    wanted = _check_spectrum(eigenvalues, num_states)
    blocks = _real_form(wanted)
    num = len(blocks)
    lowest = -np.inf
    for attempt in range(num_tries):
        basis = _random_basis(num, LAW_SPREAD / (1 + attempt), generator)
        for margin in (None, MARGIN_SHARE / num, 0.0):
            if margin is not None:
                basis = _descend(blocks, basis, margin)
            matrix = _conjugated(blocks, basis)
            lowest = max(lowest, float(matrix.min()))
            if not matrix.min() >= -ENTRY_TOLERANCE:  # so written that NaN, of a singular basis, counts too
                continue
            found = _accept(matrix, wanted)
            if found is not None:
                return found
    raise TransitionMatrixError(
        f"the spectrum {_show(wanted)} for a chain of {num} states, not reached in {num_tries} tries",
        expected=f"eigenvalues of an irreducible, aperiodic chain (the smallest entry came up to {lowest:.2g})",
        do="shrink them towards zero, or try another generator",
    )


def _check_spectrum(eigenvalues: Spectrum, num_states: int | None) -> np.ndarray:
    wanted = np.array([complex(value) for value in eigenvalues], dtype=np.complex128)
    num = len(wanted) + 1 if num_states is None else num_states
    if num < 2 or len(wanted) > num - 1:
        raise TransitionMatrixError(
            f"{len(wanted)} eigenvalues beside the 1 for a chain of {num} states",
            expected="2 states or more, and one eigenvalue fewer than states",
            do="leave the 1 out, or raise num_states",
        )
    large = ~(np.abs(wanted) < 1)  # so written that NaN counts too
    if large.any():
        raise TransitionMatrixError(
            f"the eigenvalue {_show(wanted[large][:1])} of modulus {abs(wanted[large][0]):.6g}",
            expected="moduli below 1: others belong to reducible or periodic chains",
            do="leave the 1 out (it is always there), and shrink the rest",
        )
    wanted[np.abs(wanted) < ZERO_EIGENVALUE] = 0
    wanted.imag[np.abs(wanted.imag) <= CONJUGATE_TOLERANCE] = 0
    distance, rows, columns = _match(wanted, wanted.conj())
    alone = distance[rows, columns] > CONJUGATE_TOLERANCE
    if alone.any():
        raise TransitionMatrixError(
            f"the eigenvalue {_show(wanted[rows][alone][:1])} without its conjugate",
            expected="real eigenvalues and conjugate pairs",
            do="give both of each pair",
        )
    wanted = np.concatenate([wanted, np.zeros(num - 1 - len(wanted))])
    _check_traces(wanted)
    return wanted


def _check_traces(wanted: np.ndarray) -> None:
    num = len(wanted) + 1
    traces = [1 + float(np.real(wanted**power).sum()) for power in range(2 * num + 1)]
    for power in range(1, num + 1):
        if traces[power] < -ENTRY_TOLERANCE:
            raise TransitionMatrixError(
                f"the spectrum {_show(wanted)}, for which T^{power} would have the trace {traces[power]:.6g}",
                expected="traces of 0 or more for every power of T: its entries are probabilities",
                do="shrink the eigenvalues towards zero, or make the others larger",
            )
    for power in range(1, num + 1):
        if traces[power] ** 2 > num * traces[2 * power] + ENTRY_TOLERANCE * num**2:
            raise TransitionMatrixError(
                f"the spectrum {_show(wanted)}, with traces {traces[power]:.6g} of T^{power} and {traces[2 * power]:.6g} of "
                f"T^{2 * power}",
                expected=f"(tr T^{power})^2 <= {num} tr T^{2 * power}, as where {num} x {num} entries are 0 or more",
                do="make the imaginary parts smaller",
            )


def _match(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    distance = np.abs(a[:, None] - b[None])
    rows, columns = scipy.optimize.linear_sum_assignment(distance)
    return distance, rows, columns


def _show(values: np.ndarray) -> str:
    shown = [f"{value.real:.6g}" if value.imag == 0 else f"{value + 0:.6g}" for value in values[:12].tolist()]
    return ", ".join(shown) + (", ..." if len(values) > 12 else "")


def _real_form(wanted: np.ndarray) -> np.ndarray:
    blocks = np.zeros((len(wanted) + 1, len(wanted) + 1))
    blocks[0, 0] = 1
    real, upper = np.real(wanted[np.imag(wanted) == 0]), wanted[np.imag(wanted) > 0]
    index = np.arange(1, len(real) + 1)
    blocks[index, index] = real
    for first, value in zip(itertools.count(len(real) + 1, 2), upper, strict=False):
        blocks[first : first + 2, first : first + 2] = [[value.real, value.imag], [-value.imag, value.real]]
    return blocks


def _random_basis(num: int, spread: float, generator: torch.Generator) -> np.ndarray:
    law = (spread * torch.randn(num, generator=generator, dtype=torch.float64)).softmax(0).numpy()
    drawn = torch.randn(num, num, generator=generator, dtype=torch.float64).numpy()
    drawn[:, 0] = np.sqrt(law)
    return np.linalg.qr(drawn).Q[:, 1:] / np.sqrt(law)[:, None]


def _conjugated(blocks: np.ndarray, basis: np.ndarray) -> np.ndarray:
    similarity = np.column_stack([np.ones(len(blocks)), basis])
    return similarity @ blocks @ np.linalg.inv(similarity)


def _descend(blocks: np.ndarray, basis: np.ndarray, margin: float) -> np.ndarray:
    # Gradient of f(T) for T = S D S⁻¹: dT = dS D S⁻¹ - T dS S⁻¹, so df/dS = G S⁻ᵀ Dᵀ - Tᵀ G S⁻ᵀ with G = df/dT.
    def shortfall(flat: np.ndarray) -> tuple[float, np.ndarray]:
        similarity = np.column_stack([np.ones(len(blocks)), flat.reshape(basis.shape)])
        try:
            inverse = np.linalg.inv(similarity)
        except np.linalg.LinAlgError:
            return np.finfo(float).max, np.zeros_like(flat)
        matrix = similarity @ blocks @ inverse
        low = np.minimum(matrix - margin, 0)
        slope = 2 * low @ inverse.T @ blocks.T - matrix.T @ (2 * low @ inverse.T)
        return float((low**2).sum()), slope[:, 1:].ravel()

    options = {"maxiter": MAX_STEPS, "ftol": 1e-40, "gtol": 1e-18}
    with np.errstate(over="ignore", invalid="ignore"):  # a step of the line search may be far too long
        result = scipy.optimize.minimize(shortfall, basis.ravel(), jac=True, method="L-BFGS-B", options=options)
    return result.x.reshape(basis.shape)


def _accept(matrix: np.ndarray, wanted: np.ndarray) -> Float[Tensor, "n n"] | None:
    matrix = np.where(matrix < ENTRY_TOLERANCE, 0, matrix)
    try:
        found = check_transition(matrix / matrix.sum(1, keepdims=True))
    except TransitionMatrixError:
        # Some state is never reached again: the next start may do better.
        return None
    distance, rows, columns = _match(nontrivial_spectrum(found).numpy(), wanted)
    return found if distance[rows, columns].max() <= SPECTRUM_TOLERANCE else None
