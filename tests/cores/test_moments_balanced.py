"""On a linear state-space system the oblique core is balanced truncation (Moore 1981), by the textbook's Lyapunov equations.

x_{t+1} = A x_t + B u_t, y_t = C x_t. Impulses reach the states A^i b_j, so HᵀH is the controllability Gramian; what the outputs
see of a state are the rows of C A^i, so JᵀJ is the observability Gramian; the singular values of H Jᵀ are Hankel's.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import Tensor

from invariscope.cores import Moments

STATES, INPUTS, OUTPUTS, STEPS = 6, 2, 3, 400


def system(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    turn = scipy.linalg.qr(rng.normal(size=(STATES, STATES)))[0]
    block = scipy.linalg.block_diag([[0.6, 0.5], [-0.5, 0.6]], np.diag([0.9, 0.5, -0.7, 0.2]))
    return turn @ block @ turn.T, rng.normal(size=(STATES, INPUTS)), rng.normal(size=(OUTPUTS, STATES))


def textbook(A: np.ndarray, B: np.ndarray, C: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Hankel singular values, and the projector T_k (T⁻¹)_k of the balancing transformation T."""
    reachable = scipy.linalg.cholesky(scipy.linalg.solve_discrete_lyapunov(A, B @ B.T), lower=True)
    seen = scipy.linalg.cholesky(scipy.linalg.solve_discrete_lyapunov(A.T, C.T @ C), lower=True)
    U, hankel, Vt = scipy.linalg.svd(seen.T @ reachable)
    balance = reachable @ Vt.T / np.sqrt(hankel)
    inverse = (U / np.sqrt(hankel)).T @ seen.T
    return hankel, balance[:, :rank] @ inverse[:rank]


def impulse_moments(A: np.ndarray, B: np.ndarray, C: np.ndarray) -> Moments:
    powers = [np.linalg.matrix_power(A, i) for i in range(STEPS)]
    reached = torch.from_numpy(np.concatenate([(power @ B).T for power in powers]))
    seen = torch.from_numpy(np.stack([C @ power for power in powers]))
    moments = Moments(STATES)
    none = torch.zeros_like(seen)
    # Impulses of either sign, so that the states' mean is zero; every row of C A^i once.
    for sign, jacobians in ((1, [seen, none]), (-1, [none, none])):
        for states, rows in zip((sign * reached).chunk(2), jacobians, strict=True):
            moments.update(states, rows)
    return moments


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("rank", [1, 3, 4])
def test_the_oblique_core_is_balanced_truncation(seed: int, rank: int):
    A, B, C = system(seed)
    hankel, projector = textbook(A, B, C, rank)
    moments = impulse_moments(A, B, C)
    # Either sign of every impulse: the Gramian counts twice.
    np.testing.assert_allclose(moments.sides().scale.numpy() / np.sqrt(2), hankel, rtol=1e-8)
    core = moments.core(rank, "oblique")
    np.testing.assert_allclose((core.write @ core.read.T).numpy(), projector, atol=1e-7)


def test_the_core_of_full_rank_changes_no_impulse_response_and_a_reduced_one_stays_within_moores_bound():
    A, B, C = system(0)
    moments = impulse_moments(A, B, C)
    hankel, _ = textbook(A, B, C, 1)

    def responses(rank: int) -> Tensor:
        core = moments.core(rank, "oblique")
        read, write = core.read.numpy(), core.write.numpy()
        reduced = read.T @ A @ write, read.T @ B, C @ write
        return torch.from_numpy(np.stack([reduced[2] @ np.linalg.matrix_power(reduced[0], i) @ reduced[1] for i in range(60)]))

    whole = torch.from_numpy(np.stack([C @ np.linalg.matrix_power(A, i) @ B for i in range(60)]))
    assert torch.allclose(responses(STATES), whole, atol=1e-8)
    # |G - G_k|_inf <= 2 Σ_{i>k} Hankel σ_i bounds every entry of the error's frequency response.
    error = torch.fft.fft(whole - responses(4), dim=0)
    assert float(torch.linalg.matrix_norm(error, ord=2).max()) <= 2 * hankel[4:].sum() + 1e-6
