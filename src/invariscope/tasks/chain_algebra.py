"""What can be read off a transition matrix: whether it is one, its classes and period, stationary law, spectrum, log rank.

A stationary law exists and is unique where every state leads to every other (irreducible), and sequences forget their start
where the lengths of loops have no common divisor (aperiodic). Chains without both are refused by name, because their optimum
and spectrum would not be what a model sees.

>>> [round(share, 9) for share in stationary_law(check_transition([[0.9, 0.1], [0.5, 0.5]])).tolist()]
[0.833333333, 0.166666667]
"""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Bool, Complex, Float
from torch import Tensor

from invariscope.errors import TransitionMatrixError

__all__ = [
    "check_emission",
    "check_transition",
    "communicating_classes",
    "double_centred_log_rank",
    "is_cyclic",
    "nontrivial_spectrum",
    "period",
    "stationary_law",
]

ROW_SUM_TOLERANCE = 1e-6
# Matrices come from files with nine decimals: what is smaller than this is their rounding.
ZERO_EIGENVALUE = 1e-8
LOG_RANK_TOLERANCE = 1e-6


def check_transition(transition: object) -> Float[Tensor, "V V"]:
    """A copy of ``transition`` in float64 with rows that sum to 1.

    Args:
        transition: T[x, y] = P(next = y | now = x), [V, V]: a tensor, an array, or nested lists.

    Raises:
        TransitionMatrixError: where it is not square, finite and non-negative with rows that sum to 1 within 1e-6, or where the
            chain is reducible (its classes are named) or periodic (its period is).

    Notes:
        Rows within 1e-12 of 1 stay as they are, so that a matrix that was normalised once is read back to the last bit.
    """
    matrix = _read_matrix(transition, "transition")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise TransitionMatrixError(
            f"a transition matrix of shape {list(matrix.shape)}",
            expected="a square matrix [V, V] with 2 states or more",
            do="give one row of V probabilities for each of V states",
        )
    matrix = _normalise_rows(matrix, "transition", "P(next = y | now = x)")
    classes = communicating_classes(matrix > 0)
    if len(classes) > 1:
        raise TransitionMatrixError(
            f"a reducible chain with {len(classes)} classes of states: {_list_classes(classes)}",
            expected="every state to lead to every other",
            do="link the classes with small probabilities, or use one class alone",
        )
    if (steps := period(matrix > 0)) > 1:
        raise TransitionMatrixError(
            f"a chain of period {steps}",
            expected="an aperiodic chain",
            do="let a state stay where it is with some probability, such as .99 T + .01 I",
        )
    return matrix


def check_emission(emission: object, num_hidden: int) -> Float[Tensor, "S V"]:
    """A copy of ``emission`` in float64 with rows that sum to 1.

    Args:
        emission: E[s, v] = P(token = v | state = s), [S, V]: a tensor, an array, or nested lists.
        num_hidden: S, the number of hidden states.

    Raises:
        TransitionMatrixError: where it is not [S, V] with 2 tokens or more, finite and non-negative with rows that sum to 1
            within 1e-6.
    """
    matrix = _read_matrix(emission, "emission")
    if matrix.ndim != 2 or len(matrix) != num_hidden or matrix.shape[1] < 2:
        raise TransitionMatrixError(
            f"an emission matrix of shape {list(matrix.shape)} for {num_hidden} hidden states",
            expected=f"[{num_hidden}, V] with 2 tokens or more",
            do="give one row of V probabilities for each hidden state",
        )
    return _normalise_rows(matrix, "emission", "P(token = y | state = x)")


def _read_matrix(values: object, kind: str) -> Float[Tensor, "..."]:
    try:
        # Lists go through NumPy, because PyTorch would read them as float32.
        if isinstance(values, Tensor):
            return values.detach().to("cpu", torch.float64, copy=True)
        return torch.from_numpy(np.array(values, dtype=np.float64))
    except (TypeError, ValueError, RuntimeError) as error:
        transition = kind == "transition"
        raise TransitionMatrixError(
            f"{'a transition' if transition else 'an emission'} matrix that is no array of numbers ({error})",
            expected="a square matrix [V, V]" if transition else "a matrix [S, V]",
            do=f"give one row of V probabilities for each of {'V' if transition else 'S'} states",
        ) from error


def _normalise_rows(matrix: Float[Tensor, "S V"], kind: str, meaning: str) -> Float[Tensor, "S V"]:
    what = f"{'a transition' if kind == 'transition' else 'an emission'} matrix"
    bad = (~torch.isfinite(matrix) | (matrix < 0)).nonzero()
    if len(bad):
        x, y = bad[0].tolist()
        raise TransitionMatrixError(
            f"{what} with {matrix[x, y].item():.6g} at [{x}, {y}]",
            expected="finite probabilities of 0 or more",
            do=f"give {meaning} at [x, y]",
        )
    sums = matrix.sum(1)
    worst = int((sums - 1).abs().argmax())
    if abs(float(sums[worst]) - 1) > ROW_SUM_TOLERANCE:
        column_sums = (matrix.sum(0) - 1).abs().max() <= ROW_SUM_TOLERANCE
        raise TransitionMatrixError(
            f"{what} whose row {worst} sums to {float(sums[worst]):.6g}",
            expected="rows that sum to 1",
            do="transpose it: its columns sum to 1" if column_sums else "divide each row by its sum",
        )
    # Rows that were normalised once are read back to the last bit.
    return matrix / sums[:, None] if (sums - 1).abs().max() > 1e-12 else matrix


def _list_classes(classes: list[list[int]]) -> str:
    def show(states: list[int]) -> str:
        return "{" + ", ".join(map(str, states[:8])) + (", ...}" if len(states) > 8 else "}")

    return ", ".join(map(show, classes[:4])) + (", ..." if len(classes) > 4 else "")


def communicating_classes(edges: Bool[Tensor, "V V"]) -> list[list[int]]:
    """States that lead to each other, class by class, in order of their first state.

    >>> communicating_classes(torch.tensor([[1, 1, 0], [1, 0, 1], [0, 0, 1]]).bool())
    [[0, 1], [2]]
    """
    num = len(edges)
    reach = edges | torch.eye(num, dtype=torch.bool)
    # Squaring doubles the length of the paths seen.
    for _ in range(max(1, math.ceil(math.log2(num)))):
        reach = (reach.double() @ reach.double()) > 0
    mutual = reach & reach.T
    return [row.nonzero()[:, 0].tolist() for x, row in enumerate(mutual) if int(row.nonzero()[0]) == x]


def period(edges: Bool[Tensor, "V V"]) -> int:
    """Greatest common divisor of the lengths of all loops of an irreducible chain.

    With d(x) the number of steps from state 0 to x, it is the greatest common divisor of d(x) + 1 - d(y) over all edges.
    """
    distance = torch.full((len(edges),), -1)
    distance[0] = 0
    level = distance == 0
    step = 0
    while bool(level.any()):
        step += 1
        level = edges[level].any(0) & (distance < 0)
        distance[level] = step
    x, y = edges.nonzero().unbind(1)
    return math.gcd(*(distance[x] + 1 - distance[y]).unique().tolist())


def stationary_law(transition: Float[Tensor, "V V"]) -> Float[Tensor, "V"]:
    """π with π T = π and Σ π = 1, of an irreducible chain.

    Notes:
        Elimination after Grassmann, Taksar and Heyman: it only adds, multiplies and divides non-negative numbers, so each entry
        keeps its relative precision where classes are nearly separate and a linear solver would lose it.

    References:
        Grassmann, Taksar, Heyman (1985), doi:10.1287/opre.33.5.1107.
    """
    reduced = transition.clone()
    num = len(reduced)
    for x in range(num - 1, 0, -1):
        reduced[:x, x] /= reduced[x, :x].sum()
        reduced[:x, :x] += torch.outer(reduced[:x, x], reduced[x, :x])
    law = torch.ones(num, dtype=transition.dtype)
    for x in range(1, num):
        law[x] = law[:x] @ reduced[:x, x]
    return law / law.sum()


def nontrivial_spectrum(transition: Float[Tensor, "V V"]) -> Complex[Tensor, "V-1"]:
    """Eigenvalues of a transition matrix without the one equal to 1, by real and then imaginary part, largest first.

    Notes:
        Moduli below 1e-8 are rounding (a matrix of lower rank read from a file) and are set to zero, so that the order is the
        same on every LAPACK; real parts are compared to nine decimals.
    """
    values = torch.linalg.eigvals(transition).tolist()
    values.remove(min(values, key=lambda value: abs(value - 1)))
    values = [0j if abs(value) < ZERO_EIGENVALUE else value for value in values]
    values.sort(key=lambda value: (-round(value.real, 9), -value.imag))
    return torch.tensor(values, dtype=torch.complex128)


def double_centred_log_rank(transition: Float[Tensor, "V V"]) -> int | None:
    """Numerical rank of log T without the mean of each row and of each column; None where T has zeros.

    A softmax does not see a constant added to a row, and the unembedding's bias carries the mean of the columns; what is left is
    what the state must tell. Singular values below 1e-6 (of the largest, or absolutely) count as zero.
    """
    if bool((transition == 0).any()):
        return None
    logits = transition.log()
    logits = logits - logits.mean(1, keepdim=True)
    values = torch.linalg.svdvals(logits - logits.mean(0))
    return int((values > LOG_RANK_TOLERANCE * values[0].clamp_min(1)).sum())


def is_cyclic(matrix: Float[Tensor, "S V"]) -> bool:
    """Whether a square matrix stays as it is, within 1e-9, when all rows and columns move by one.

    >>> is_cyclic(torch.tensor([[0.9, 0.1], [0.1, 0.9]])), is_cyclic(torch.tensor([[0.9, 0.1], [0.5, 0.5]]))
    (True, False)
    """
    return matrix.shape[0] == matrix.shape[1] and bool((matrix.roll((1, 1), (0, 1)) - matrix).abs().max() <= 1e-9)
