import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.errors import TransitionMatrixError
from invariscope.tasks.chain_algebra import (
    check_emission,
    check_transition,
    communicating_classes,
    double_centred_log_rank,
    is_cyclic,
    nontrivial_spectrum,
    period,
    stationary_law,
)


def random_chain(num, seed, concentration=1.0):
    return torch.from_numpy(np.random.default_rng(seed).dirichlet(np.full(num, concentration), size=num))


def ring(num):
    return torch.eye(num, dtype=torch.float64).roll(1, 1)


@pytest.mark.parametrize(
    ("matrix", "given_part", "expected", "do"),
    [
        ([[0.5, 0.5]], "shape [1, 2]", "square", "V states"),
        ([[1.0]], "shape [1, 1]", "2 states or more", "V states"),
        (torch.zeros(2, 2, 2), "shape [2, 2, 2]", "square", "V states"),
        ([[0.5, 0.5], [1.0]], "no array of numbers", "square", "V states"),
        ("identity", "no array of numbers", "square", "V states"),
        (None, "shape []", "square", "V states"),
        ([[0.5, 0.5], [1.1, -0.1]], "-0.1 at [1, 1]", "0 or more", "P(next"),
        ([[0.5, 0.5], [float("nan"), 1]], "nan at [1, 0]", "finite", "P(next"),
        ([[0.5, 0.5], [float("inf"), 1]], "inf at [1, 0]", "finite", "P(next"),
        ([[0.5, 0.5], [0.4, 0.5]], "row 1 sums to 0.9", "sum to 1", "divide each row"),
        ([[0.5, 0.9], [0.5, 0.1]], "sums to", "sum to 1", "transpose it"),
        ([[0.5, 0.5 + 3e-6], [0.5, 0.5]], "row 0 sums to 1", "sum to 1", "divide each row"),
        (torch.block_diag(ring(2) / 2 + torch.eye(2) / 2, torch.eye(1)), "2 classes of states: {0, 1}, {2}",
         "every state to lead to every other", "link the classes"),
        ([[0.5, 0.5], [0.0, 1.0]], "2 classes of states: {0}, {1}", "every state", "one class alone"),
        (torch.eye(6), "6 classes of states: {0}, {1}, {2}, {3}, ...", "every state", "link"),
        (ring(2), "period 2", "aperiodic", ".99 T + .01 I"),
        (ring(5), "period 5", "aperiodic", "stay where it is"),
        ([[0, 0.5, 0.5, 0], [0, 0, 0, 1], [0, 0, 0, 1], [1, 0, 0, 0]], "period 3", "aperiodic", "stay"),
    ],
)  # fmt: skip
def test_what_is_no_transition_matrix_is_refused(matrix, given_part, expected, do):
    with pytest.raises(TransitionMatrixError) as caught:
        check_transition(matrix)
    assert given_part in caught.value.given
    assert expected in caught.value.expected
    assert do in caught.value.do
    assert "\n" not in str(caught.value)


def test_rows_are_normalised_in_float64_and_only_once():
    rows = random_chain(7, 0).float()
    once = check_transition(rows)
    assert once.dtype == torch.float64
    assert float((once.sum(1) - 1).abs().max()) < 1e-15 * 7
    assert torch.equal(check_transition(once), once)


def test_nested_lists_keep_their_precision():
    assert check_transition([[0.1, 0.9], [0.7, 0.3]])[0, 0].item() == 0.1


def test_the_callers_matrix_is_copied():
    given_matrix = torch.tensor([[0.5, 0.5], [0.25, 0.75]], dtype=torch.float64)
    checked = check_transition(given_matrix)
    given_matrix[0] = torch.tensor([1.0, 0.0])
    assert checked[0].tolist() == [0.5, 0.5]


def test_rank_deficient_and_nearly_separate_chains_are_accepted():
    check_transition([[0.5, 0.5], [0.5, 0.5]])
    check_transition([[1 - 1e-9, 1e-9], [1e-9, 1 - 1e-9]])


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(2, 7), st.integers(0, 10_000), st.floats(0.1, 0.6))
def test_classes_and_period_agree_with_powers_of_the_matrix(num, seed, density):
    edges = torch.from_numpy(np.random.default_rng(seed).random((num, num)) < density)
    powers, paths = [], torch.eye(num, dtype=torch.bool)
    for _ in range(2 * num * num):
        paths = (paths.double() @ edges.double()) > 0
        powers.append(paths)
    reach = torch.stack(powers).any(0) | torch.eye(num, dtype=torch.bool)
    expected = {tuple((reach[x] & reach[:, x]).nonzero()[:, 0].tolist()) for x in range(num)}
    classes = communicating_classes(edges)
    assert {tuple(states) for states in classes} == expected
    assert sorted(state for states in classes for state in states) == list(range(num))
    if len(classes) == 1:
        assert period(edges) == math.gcd(*(step + 1 for step, power in enumerate(powers) if bool(power[0, 0])))


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(2, 12), st.integers(0, 10_000))
def test_the_stationary_law_stays_as_it_is(num, seed):
    transition = random_chain(num, seed)
    law = stationary_law(transition)
    assert float(law.sum()) == pytest.approx(1, abs=1e-14)
    torch.testing.assert_close(law @ transition, law, rtol=1e-12, atol=0)
    torch.testing.assert_close(torch.linalg.matrix_power(transition, 4096)[0], law, rtol=1e-8, atol=1e-12)


def test_the_stationary_law_keeps_its_precision_between_nearly_separate_states():
    law = stationary_law(torch.tensor([[1 - 1e-15, 1e-15], [3e-15, 1 - 3e-15]], dtype=torch.float64))
    assert law.tolist() == pytest.approx([0.75, 0.25], rel=1e-14)


def test_the_spectrum_of_a_circulant_chain_is_the_fourier_transform_of_its_row():
    shares = torch.tensor([0.5, 0.3, 0.15, 0.03, 0.02], dtype=torch.float64)
    transition = torch.stack([shares.roll(x) for x in range(5)])
    found = nontrivial_spectrum(transition)
    expected = torch.fft.fft(shares)[1:]
    assert found.dtype == torch.complex128
    for value in expected:
        assert float((found - value).abs().min()) < 1e-12
    keys = [(-round(value.real, 9), -value.imag) for value in found.tolist()]
    assert keys == sorted(keys)


def test_eigenvalues_of_size_zero_stay_in_the_spectrum_as_zeros():
    mixture, parts = random_chain(6, 1)[:, :2], random_chain(6, 2)[:2]
    transition = mixture / mixture.sum(1, keepdim=True) @ parts
    noisy = check_transition(transition.mul(1e9).round().div(1e9))
    values = nontrivial_spectrum(noisy)
    assert len(values) == 5
    assert int((values == 0).sum()) == 4


def test_log_rank_counts_the_directions_that_a_softmax_can_tell():
    direction, state_code = torch.randn(2, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    bias = torch.linspace(-1, 1, 9, dtype=torch.float64)
    assert double_centred_log_rank((torch.outer(state_code, direction) + bias).softmax(1)) == 1
    assert double_centred_log_rank(bias.softmax(0).expand(9, 9)) == 0
    assert double_centred_log_rank(random_chain(9, 3)) == 8
    assert double_centred_log_rank(0.75 * torch.eye(9) + 0.25 * ring(9)) is None


@pytest.mark.parametrize(
    ("matrix", "given_part", "expected", "do"),
    [
        ([[0.5, 0.5]], "an emission matrix of shape [1, 2] for 2 hidden states", "[2, V] with 2 tokens or more", "each hidden"),
        ([[1.0], [1.0]], "shape [2, 1] for 2 hidden states", "2 tokens or more", "one row of V"),
        ("identity", "an emission matrix that is no array of numbers", "a matrix [S, V]", "each of S states"),
        ([[0.5, 0.5, 0], [1.1, 0, -0.1]], "an emission matrix with -0.1 at [1, 2]", "0 or more", "P(token = y | state = x)"),
        ([[0.5, 0.5], [0.4, 0.5]], "an emission matrix whose row 1 sums to 0.9", "sum to 1", "divide each row"),
        ([[0.5, 0.9], [0.5, 0.1]], "an emission matrix whose row", "sum to 1", "transpose it"),
    ],
)  # fmt: skip
def test_what_is_no_emission_matrix_is_refused(matrix, given_part, expected, do):
    with pytest.raises(TransitionMatrixError) as caught:
        check_emission(matrix, 2)
    assert given_part in caught.value.given
    assert expected in caught.value.expected
    assert do in caught.value.do
    assert "\n" not in str(caught.value)


def test_emission_rows_are_normalised_in_a_copy():
    given_matrix = torch.tensor([[0.5, 0.25, 0.25 + 4e-7], [0, 0, 1]], dtype=torch.float64)
    emission = check_emission(given_matrix, 2)
    torch.testing.assert_close(emission.sum(1), torch.ones(2, dtype=torch.float64), atol=1e-15, rtol=0)
    assert torch.equal(check_emission(emission, 2), emission)
    emission[0, 0] = 9
    assert float(given_matrix[0, 0]) == 0.5


def test_cyclic_matrices_are_square_and_constant_along_their_diagonals():
    assert is_cyclic(ring(5) * 0.5 + 0.1)
    assert not is_cyclic(torch.diag(torch.tensor([0.5, 0.5, 0.4])))
    assert not is_cyclic(torch.full((2, 3), 1 / 3))
