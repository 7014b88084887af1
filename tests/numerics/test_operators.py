import itertools
import math

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from invariscope.errors import ConfigError, NonFiniteError, RankError, ShapeError, TooFewSamplesError
from invariscope.numerics import eigenvalue_error, fit_operator, match_eigenvalues


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=generator(seed))


# A rotation by 40 degrees that contracts to .8, beside a real direction of .3.
COS, SIN = 0.8 * math.cos(math.radians(40)), 0.8 * math.sin(math.radians(40))
PLANTED = torch.tensor([[COS, -SIN, 0], [SIN, COS, 0], [0, 0, 0.3]], dtype=torch.float64)
SPECTRUM = [complex(COS, SIN), complex(COS, -SIN), 0.3 + 0j]


def pairs(num, seed=0, noise=0.3, matrix=PLANTED):
    x = normal(num, matrix.shape[1], seed=seed) * torch.linspace(1, 3, matrix.shape[1], dtype=torch.float64) + 5
    return x, (x - 5) @ matrix.T - 2 + noise * normal(num, matrix.shape[0], seed=seed + 7777)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(st.integers(0, 1000))
def test_recovers_a_planted_rotation_contraction_in_any_basis(seed):
    basis = normal(3, 3, seed=seed) + 2 * torch.eye(3, dtype=torch.float64)
    if torch.linalg.cond(basis) > 100:
        return
    x, y = pairs(200, seed=seed, noise=0)
    operator = fit_operator(x @ basis.T, (y @ basis.T), num_bootstrap=5)
    assert torch.allclose(operator.matrix, basis @ PLANTED @ torch.linalg.inv(basis), atol=1e-9)
    assert eigenvalue_error(operator.eigenvalues, SPECTRUM) < 1e-9
    assert operator.r2 == pytest.approx(1, abs=1e-12)
    assert operator.r2_heldout.value == pytest.approx(1, abs=1e-12)
    assert torch.allclose(operator.predict(x @ basis.T), y @ basis.T, atol=1e-8)


def test_eigenvalues_stand_in_order():
    x, y = pairs(500)
    values = fit_operator(x, y).eigenvalues
    assert values.dtype == torch.complex128
    assert values[0] == values[1].conj()
    assert values[0].imag > 0
    assert values.real.tolist() == sorted(values.real.tolist(), reverse=True)


def test_agrees_with_numpys_least_squares():
    x, y = pairs(100)
    operator = fit_operator(x, y)
    solution = np.linalg.lstsq(np.c_[np.ones(100), x.numpy()], y.numpy(), rcond=None)[0]
    assert operator.matrix.numpy() == pytest.approx(solution[1:].T, abs=1e-10)
    residual = y.numpy() - np.c_[np.ones(100), x.numpy()] @ solution
    assert operator.r2 == pytest.approx(1 - (residual**2).sum() / ((y - y.mean(0)).numpy() ** 2).sum())
    assert operator.predict(x).numpy() == pytest.approx(np.c_[np.ones(100), x.numpy()] @ solution, abs=1e-10)


def test_held_out_r2_is_near_zero_on_shuffled_pairs():
    x, y = pairs(2000)
    shuffled = fit_operator(x, y[torch.randperm(2000, generator=generator(4))])
    assert abs(shuffled.r2_heldout.value) < 0.01
    assert shuffled.r2_heldout.chance == 0.0
    planted = fit_operator(x, y).r2_heldout
    assert planted.low is not None
    assert planted.high is not None
    assert 0.9 < planted.low < planted.value < planted.high < 1
    assert planted.num == 1000
    assert planted.method == "bootstrap over 1000 groups"


def test_held_out_r2_shows_an_overfit():
    x, y = normal(60, 20), normal(60, 2, seed=1)
    operator = fit_operator(x, y)
    assert operator.r2 > 0.2
    assert operator.r2_heldout.value < 0


def test_intervals_cover():
    truth = torch.tensor(SPECTRUM)
    covered, widths = torch.zeros(4), []
    for seed in range(100):
        operator = fit_operator(*pairs(200, seed=seed), generator=generator(seed), num_bootstrap=150)
        (real_low, real_high, imag_low, imag_high), _, last = operator.interval
        error = operator.error(SPECTRUM)
        assert error.low is not None
        assert error.high is not None
        covered += torch.tensor(
            [
                real_low <= truth[0].real <= real_high,
                imag_low <= truth[0].imag <= imag_high,
                last[0] <= truth[2].real <= last[1],
                error.low <= error.value <= error.high,
            ]
        )
        widths.append(real_high - real_low)
    assert ((covered[:3] >= 85) & (covered[:3] <= 100)).all()
    assert covered[3] == 100
    assert 0.01 < sum(widths) / 100 < 0.2


def test_bootstrap_moments_agree_with_fitting_the_drawn_groups():
    # One group drawn twice and another left out, against the interval's own spread over many draws.
    x, y = pairs(300)
    groups = torch.arange(300) // 10
    operator = fit_operator(x, y, groups=groups, num_bootstrap=400)
    assert (operator.num_pairs, operator.num_groups) == (300, 30)
    rng, plain = np.random.default_rng(0), []
    for _ in range(400):
        rows = torch.from_numpy(np.concatenate([np.arange(10) + 10 * g for g in rng.integers(0, 30, 30)]))
        centred = x[rows] - x[rows].mean(0), y[rows] - y[rows].mean(0)
        matrix = torch.linalg.lstsq(centred[0], centred[1]).solution.T
        values = torch.linalg.eigvals(matrix)
        plain.append(values[match_eigenvalues(values, operator.eigenvalues)[0]])
    plain = torch.stack(plain)
    for ours, theirs in (
        (operator.bootstrap_eigenvalues.real, plain.real),
        (operator.bootstrap_eigenvalues.imag[:, :2], plain.imag[:, :2]),
    ):
        assert torch.allclose(ours.mean(0), theirs.mean(0), atol=0.005)
        assert torch.allclose(ours.std(0), theirs.std(0), rtol=0.2)


def test_intervals_over_sequences_are_wider_where_pairs_of_a_sequence_repeat():
    x, y = (z.repeat_interleave(8, 0) for z in pairs(100))
    groups = torch.arange(100).repeat_interleave(8)
    grouped, ungrouped = fit_operator(x, y, groups=groups), fit_operator(x, y)

    def width(operator):
        return operator.interval[2][1] - operator.interval[2][0]

    assert width(grouped) == pytest.approx(width(ungrouped) * math.sqrt(8), rel=0.3)
    assert torch.allclose(grouped.matrix, ungrouped.matrix)


def test_bootstrap_draws_are_matched_to_the_estimate():
    # Two real eigenvalues so close that the draws' own order means nothing, and a pair.
    matrix = torch.block_diag(torch.diag(torch.tensor([0.5, 0.4])), torch.tensor([[0.45, -0.5], [0.5, 0.45]])).double()
    operator = fit_operator(*pairs(400, matrix=matrix, noise=0.5))
    draws, estimate = operator.bootstrap_eigenvalues, operator.eigenvalues
    assert draws.shape == (200, 4)
    for draw in draws[:50]:
        chosen = (draw - estimate).abs().sum()
        assert chosen <= min(float((draw[list(p)] - estimate).abs().sum()) for p in itertools.permutations(range(4))) + 1e-9
    complex_pair = estimate.imag.abs() > 0.3
    assert int(complex_pair.sum()) == 2
    assert (draws[:, complex_pair].imag.sign() == estimate[complex_pair].imag.sign()).all()


def test_many_groups_are_pooled():
    x, y = pairs(25_000)
    operator = fit_operator(x, y, num_bootstrap=60)
    halves = [fit_operator(x[part], y[part], num_bootstrap=60) for part in (slice(0, 12_500), slice(12_500, None))]
    spread = operator.bootstrap_eigenvalues.real.std(0)
    halved = torch.stack([half.bootstrap_eigenvalues.real.std(0) for half in halves]).mean(0)
    assert torch.allclose(spread, halved / math.sqrt(2), rtol=0.35)


def test_a_map_between_two_cores_has_no_eigenvalues():
    x, y = pairs(300, matrix=normal(2, 3))
    operator = fit_operator(x, y)
    assert operator.matrix.shape == (2, 3)
    assert operator.eigenvalues.shape == (0,)
    assert operator.interval == ()
    assert operator.bootstrap_eigenvalues.shape == (200, 0)
    assert operator.predict(x[0]).shape == (2,)
    with pytest.raises(ShapeError, match=r"\[0\] fitted and \[3\] expected eigenvalues"):
        operator.error(SPECTRUM)


def test_no_bootstrap_no_interval():
    operator = fit_operator(*pairs(100), num_bootstrap=0)
    assert operator.interval == ()
    assert operator.r2_heldout.low is None
    error = operator.error(SPECTRUM)
    assert (error.low, error.method) == (None, "")
    assert error.value < 0.1


def test_draws_that_miss_a_state_still_give_numbers():
    # Three states, one of them in a single group: many draws do not hold it, and z then spans fewer directions.
    codes = normal(3, 2)
    states = torch.tensor([0, 1] * 10 + [2])
    x = codes[states]
    y = codes[states.roll(1)] + 0.01 * normal(21, 2, seed=2)
    groups = torch.cat([torch.arange(10).repeat_interleave(2), torch.tensor([9])])
    operator = fit_operator(x, y, groups=groups, heldout_share=0.1, generator=generator(1))
    assert bool(torch.isfinite(torch.view_as_real(operator.bootstrap_eigenvalues)).all())


def test_predictions_keep_dtype_and_shape():
    operator = fit_operator(*pairs(100))
    z = normal(2, 5, 3).to(torch.bfloat16)
    assert operator.predict(z).shape == (2, 5, 3)
    assert operator.predict(z).dtype == torch.bfloat16
    assert torch.equal(operator.predict(z), operator.predict(z.double()).to(torch.bfloat16))


def test_the_default_generator_is_fixed_and_the_global_one_untouched():
    x, y = pairs(100)
    state = torch.get_rng_state()
    first, second = fit_operator(x, y), fit_operator(x, y, generator=generator(0))
    assert first.interval == second.interval
    assert first.r2_heldout == second.r2_heldout
    assert first.interval != fit_operator(x, y, generator=generator(1)).interval
    assert torch.equal(torch.get_rng_state(), state)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(1, 5), st.integers(0, 1000))
def test_matching_is_the_best_of_all_orders(size, seed):
    fitted, expected = (torch.complex(normal(size, seed=s), normal(size, seed=s + 1)) for s in (seed, seed + 5000))
    order, distances = match_eigenvalues(fitted, expected)
    assert torch.allclose((fitted[order] - expected).abs(), distances)
    best = min(float((fitted[list(p)] - expected).abs().sum()) for p in itertools.permutations(range(size)))
    assert float(distances.sum()) == pytest.approx(best)
    assert eigenvalue_error(fitted, expected) == float(distances.max())
    shuffled = torch.randperm(size, generator=generator(seed))
    assert torch.equal(fitted[shuffled][match_eigenvalues(fitted[shuffled], fitted)[0]], fitted)


def test_messages():
    x, y = pairs(40)
    with pytest.raises(ShapeError, match=r"z_from of shape \[40, 3\] and z_to of shape \[39, 3\]; expected the same.*both ends"):
        fit_operator(x, y[1:])
    with pytest.raises(TooFewSamplesError, match="40 pairs in 4 groups; expected at least 10 groups; use more sequences"):
        fit_operator(x, y, groups=torch.arange(40) // 10)
    with pytest.raises(TooFewSamplesError, match=r"z_from \(the fitted part\) with 5 rows of dimension 8"):
        fit_operator(normal(10, 8), normal(10, 8, seed=1))
    with pytest.raises(RankError, match=r"z_from.*column 2 is constant or a combination"):
        fit_operator(torch.cat([x[:, :2], x[:, :1] + x[:, 1:2]], 1), y)
    with pytest.raises(RankError, match="z_to that does not vary; expected coordinates that vary; look"):
        fit_operator(x, torch.ones(40, 2))
    with pytest.raises(NonFiniteError, match="z_to of shape"):
        fit_operator(x, y * float("inf"))
    with pytest.raises(ConfigError, match="-1 bootstrap draws; expected 0 or more; leave"):
        fit_operator(x, y, num_bootstrap=-1)
    with pytest.raises(ConfigError, match="a held-out share of 0; expected"):
        fit_operator(x, y, heldout_share=0)
    with pytest.raises(ShapeError, match=r"coordinates of shape \[2, 4\]; expected \[..., 3\]; pass coordinates"):
        fit_operator(x, y).predict(torch.ones(2, 4))
    with pytest.raises(ShapeError, match=r"\[3\] fitted and \[2\] expected eigenvalues; expected one fitted.*fit the"):
        eigenvalue_error(SPECTRUM, SPECTRUM[:2])
    with pytest.raises(NonFiniteError, match="eigenvalues that are NaN or infinite; expected finite"):
        match_eigenvalues([complex("nan")], [1.0])
    with pytest.raises(ShapeError, match="no eigenvalues to compare; expected at least one"):
        eigenvalue_error([], [])
