import numpy as np
import pytest
import scipy.optimize
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.errors import TransitionMatrixError
from invariscope.tasks import MarkovChain, build_task, describe_task
from invariscope.tasks.chain_algebra import check_transition, communicating_classes, period, stationary_law
from invariscope.tasks.wanted_spectrum import find_transition

RIM = {
    "four_paper": [0.75 + 0.25j, 0.75 - 0.25j, 0.5],
    "ring of twelve": np.fft.fft([0.9, 0.1] + [0] * 10)[1:],
    "zero trace": [-0.7, -0.3],
    "twice": [-0.5, -0.5],
}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def spectrum_error(transition, wanted):
    """Largest distance between the eigenvalues of `transition` and 1 with `wanted`, matched; by NumPy, not by the library."""
    found = np.linalg.eigvals(transition.numpy())
    distance = np.abs(found[:, None] - np.array([1, *wanted])[None])
    rows, columns = scipy.optimize.linear_sum_assignment(distance)
    return distance[rows, columns].max()


def assert_chain(transition, wanted, tolerance=1e-10):
    assert torch.equal(check_transition(transition), transition)
    assert bool((transition >= 0).all())
    torch.testing.assert_close(transition.sum(1), torch.ones(len(transition)).double(), atol=1e-12, rtol=0)
    assert len(communicating_classes(transition > 0)) == period(transition > 0) == 1
    assert spectrum_error(transition, wanted) <= tolerance


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(2, 9), st.sampled_from([0.3, 1.0, 5.0]), st.integers(0, 10**6))
def test_the_spectrum_of_any_random_chain_is_reached(num, concentration, seed):
    rows = np.random.default_rng(seed).dirichlet(np.full(num, concentration), size=num)
    values = np.linalg.eigvals(0.95 * rows + 0.05 / num)
    wanted = np.delete(values, np.abs(values - 1).argmin())
    assert_chain(find_transition(wanted, generator=generator(seed)), wanted)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    st.lists(st.floats(-1, 1), max_size=4),
    st.lists(st.tuples(st.floats(0.01, 1), st.floats(0.01, 3.13)), max_size=3),
    st.integers(0, 2),
    st.integers(0, 10**6),
)
def test_small_spectra_are_reached_whatever_they_are(real, pairs, padding, seed):
    # Moduli that sum to at most 1/2: uniform rows are far enough from zero that some chain has them.
    upper = [radius * np.exp(1j * angle) for radius, angle in pairs]
    raw = np.array([*real, *upper, *np.conj(upper), 0.0], dtype=complex)
    wanted = 0.5 * raw / max(1.0, np.abs(raw).sum())
    num = len(wanted) + 1 + padding
    found = find_transition(wanted, generator=generator(seed), num_states=num)
    assert len(found) == num
    # Values below 1e-8 count as zero.
    assert_chain(found, [*np.where(np.abs(wanted) < 1e-8, 0, wanted), *[0] * padding])


@pytest.mark.parametrize("name", RIM)
def test_spectra_on_the_rim_are_reached_with_zeros(name):
    for seed in range(3):
        found = find_transition(RIM[name], generator=generator(seed))
        assert_chain(found, RIM[name])
        assert bool((found == 0).any())


@pytest.mark.parametrize("name", ["four_real", "four_complex", "four_rank_two", "clustered_12", "spread_12", "overlapping_12"])
def test_the_shipped_spectra_are_reached_by_other_chains(name):
    shipped = MarkovChain.named(name)
    chain = MarkovChain.with_spectrum(shipped.eigenvalues, generator=generator(), sequence_length=9)
    torch.testing.assert_close(chain.eigenvalues, shipped.eigenvalues, atol=1e-10, rtol=0)
    assert float((chain.transition - shipped.transition).abs().max()) > 0.05
    assert (chain.name, chain.sequence_length, chain.num_states) == (f"spectrum-{len(shipped.transition)}", 9, shipped.num_states)


def test_two_states_have_the_one_matrix_that_their_law_allows():
    found = find_transition([-0.25], generator=generator(7))
    # T = 1 pi' + lambda (I - 1 pi')
    law = stationary_law(found)
    expected = law.expand(2, 2) - 0.25 * (torch.eye(2) - law.expand(2, 2))
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


def test_missing_eigenvalues_are_zero():
    chain = MarkovChain.with_spectrum([0.6, -0.2], generator=generator(), num_states=6)
    assert chain.num_states == 6
    assert chain.eigenvalues.tolist() == pytest.approx([0.6, 0, 0, 0, -0.2], abs=1e-10)
    independent = MarkovChain.with_spectrum([], generator=generator(1), num_states=3)
    torch.testing.assert_close(independent.transition, independent.stationary.expand(3, 3), atol=1e-12, rtol=0)
    assert float(independent.stationary.std()) > 0.01


def test_chains_come_from_their_generator():
    first, again, other = (find_transition([0.5, 0.1], generator=generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert float((first - other).abs().max()) > 0.01
    moved = generator(1)
    find_transition([0.5, 0.1], generator=moved)
    assert not torch.equal(find_transition([0.5, 0.1], generator=moved), first)
    before = torch.get_rng_state()
    find_transition([0.9, -0.9], generator=generator())
    assert torch.equal(before, torch.get_rng_state())


def test_chains_with_a_spectrum_are_rebuilt_to_the_last_bit():
    chain = MarkovChain.with_spectrum([0.4 + 0.3j, 0.4 - 0.3j, -0.1], generator=generator())
    assert torch.equal(build_task(describe_task(chain)).transition, chain.transition)


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_eigenvalues_may_be_a_list_an_array_or_a_tensor(kind):
    found = find_transition(kind([0.5, 0.1 + 0.2j, 0.1 - 0.2j]), generator=generator())
    # A complex64 tensor holds .1 to 1e-9 only.
    assert_chain(found, [0.5, 0.1 + 0.2j, 0.1 - 0.2j], tolerance=1e-7)


def test_a_spectrum_out_of_reach_says_which_and_in_how_many_tries():
    # Its traces would do, but with four states no eigenvalue near 1 lies beyond the line from 1 to i (Karpelevich).
    with pytest.raises(TransitionMatrixError) as caught:
        find_transition([0.8 + 0.21j, 0.8 - 0.21j, 0.5], generator=generator(), num_tries=7)
    assert caught.value.given == "the spectrum 0.8+0.21j, 0.8-0.21j, 0.5 for a chain of 4 states, not reached in 7 tries"
    assert "irreducible, aperiodic chain (the smallest entry came up to -0.016)" in caught.value.expected
    assert caught.value.do == "shrink them towards zero, or try another generator"
    five_states = [0.8 + 0.21j, 0.8 - 0.21j, 0.52 + 0.14j, 0.52 - 0.14j]
    assert_chain(find_transition(five_states, generator=generator()), five_states)


@pytest.mark.parametrize(
    ("eigenvalues", "num_states", "given_part", "expected", "do"),
    [
        ([1.0, 0.5], None, "the eigenvalue 1 of modulus 1", "moduli below 1", "leave the 1 out"),
        ([0.5, -1.0], None, "the eigenvalue -1 of modulus 1", "periodic", "shrink the rest"),
        ([0.8 + 0.8j, 0.8 - 0.8j], None, "0.8+0.8j of modulus 1.13137", "moduli below 1", "shrink"),
        ([float("nan")], None, "of modulus nan", "moduli below 1", "shrink"),
        ([0.2 + 0.1j], None, "0.2+0.1j without its conjugate", "conjugate pairs", "both of each pair"),
        ([0.2 + 0.1j, 0.2 - 0.1j, 0.2 - 0.1j], None, "0.2-0.1j without its conjugate", "conjugate pairs", "both of each"),
        ([0.2 + 0.1j, 0.2 - 0.10001j], None, "without its conjugate", "conjugate pairs", "both of each"),
        ([-0.9, -0.3], None, "-0.9, -0.3, for which T^1 would have the trace -0.2", "traces of 0 or more", "shrink"),
        ([0.9j, -0.9j], None, "the spectrum 0+0.9j, 0-0.9j, for which T^2 would have the trace -0.62", "traces of 0", "larger"),
        ([0.2 + 0.65j, 0.2 - 0.65j], None, "with traces 1.4 of T^1 and 0.235 of T^2", "(tr T^1)^2 <= 3 tr T^2", "smaller"),
        ([0.5, 0.4], 2, "2 eigenvalues beside the 1 for a chain of 2 states", "one eigenvalue fewer", "raise num_states"),
        ([], None, "0 eigenvalues beside the 1 for a chain of 1 states", "2 states or more", "raise num_states"),
    ],
)  # fmt: skip
def test_what_no_chain_has_is_refused(eigenvalues, num_states, given_part, expected, do):
    with pytest.raises(TransitionMatrixError) as caught:
        MarkovChain.with_spectrum(eigenvalues, generator=generator(), num_states=num_states)
    assert given_part in caught.value.given
    assert expected in caught.value.expected
    assert do in caught.value.do
    assert "\n" not in str(caught.value)
