"""Total least squares: against its closed form, where least squares shrinks, and where it must not be used."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from invariscope.errors import RankError, UnknownNameError
from invariscope.numerics import fit_operator
from invariscope.numerics.errors_in_variables import solve_from_second_moments, total_least_squares

A = torch.tensor([[0.6, -0.3], [0.3, 0.6]], dtype=torch.float64)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def measured(num: int, error: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """z and A z, both with errors of one size."""
    z = normal(num, 2, seed=seed)
    return z + error * normal(num, 2, seed=seed + 1), z @ A.T + error * normal(num, 2, seed=seed + 2)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(seed=st.integers(0, 1000))
def test_a_line_is_the_first_principal_axis(seed: int):
    x, y = normal(40, 1, seed=seed), normal(40, 1, seed=seed + 1)
    x, y = x - x.mean(0), y + 0.5 * x
    y = y - y.mean(0)
    sxx, syy, sxy = (float((u * v).sum()) for u, v in ((x, x), (y, y), (x, y)))
    slope = (syy - sxx + ((syy - sxx) ** 2 + 4 * sxy**2) ** 0.5) / (2 * sxy)
    assert float(total_least_squares(x, y)) == pytest.approx(slope)
    moments = torch.tensor([[sxx, sxy], [sxy, syy]], dtype=torch.float64)
    assert float(solve_from_second_moments(moments, 1)) == pytest.approx(slope)


def test_an_exact_map_comes_back_exactly_also_between_different_dimensions():
    x, wide = normal(30, 2), normal(3, 2, seed=1)
    x = x - x.mean(0)
    assert torch.allclose(total_least_squares(x, x @ wide.T), wide, atol=1e-12)
    narrow = normal(1, 2, seed=2)
    assert torch.allclose(total_least_squares(x, x @ narrow.T), narrow, atol=1e-12)


def test_least_squares_shrinks_where_z_has_errors_and_total_least_squares_does_not():
    z_from, z_to = measured(40_000, 0.5)
    plain, total = (fit_operator(z_from, z_to, num_bootstrap=0, method=m) for m in ("least_squares", "total_least_squares"))
    # Attenuation: 1 / (1 + .5^2).
    assert torch.allclose(plain.matrix, A / 1.25, atol=0.015)
    assert torch.allclose(total.matrix, A, atol=0.02)


def test_errors_of_z_to_alone_make_it_wrong():
    z = normal(40_000, 2)
    z_to = z @ A.T + 0.8 * normal(40_000, 2, seed=1)
    plain, total = (fit_operator(z, z_to, num_bootstrap=0, method=m) for m in ("least_squares", "total_least_squares"))
    assert torch.allclose(plain.matrix, A, atol=0.02)
    assert float((total.matrix - A).abs().max()) > 0.1


def test_the_intervals_of_its_eigenvalues_hold_the_truth():
    covered = 0
    for seed in range(20):
        z_from, z_to = measured(800, 0.3, seed=10 * seed)
        fit = fit_operator(z_from, z_to, method="total_least_squares", num_bootstrap=100)
        low_real, high_real, low_imag, high_imag = fit.interval[0]
        covered += low_real <= 0.6 <= high_real and low_imag <= 0.3 <= high_imag
        assert low_real <= float(fit.eigenvalues[0].real) <= high_real
        assert high_real - low_real < 0.25
    assert covered >= 15


def test_draws_are_fits_of_resampled_groups():
    z_from, z_to = measured(300, 0.1)
    fit = fit_operator(z_from, z_to, method="total_least_squares", num_bootstrap=200)
    spread = fit.bootstrap_eigenvalues.real.std(0)
    fits = []
    for seed in range(60):
        again = fit_operator(*measured(300, 0.1, seed=100 + 10 * seed), method="total_least_squares", num_bootstrap=0)
        fits.append(again.eigenvalues.real)
    assert torch.allclose(spread, torch.stack(fits).std(0), rtol=0.5)


def test_r2_is_that_of_the_map():
    z_from, z_to = measured(500, 0.3)
    fit = fit_operator(z_from, z_to, method="total_least_squares", num_bootstrap=0)
    residual = z_to - fit.predict(z_from)
    assert fit.r2 == pytest.approx(1 - float(residual.square().sum() / (z_to - z_to.mean(0)).square().sum()))
    assert fit.r2_heldout.value < fit_operator(z_from, z_to, num_bootstrap=0).r2_heldout.value


def test_messages():
    x = torch.tensor([[1.0], [-1.0], [0.0], [0.0]], dtype=torch.float64)
    y = torch.tensor([[0.0], [0.0], [5.0], [-5.0]], dtype=torch.float64)
    with pytest.raises(RankError, match=r"errors hide a direction of z_from; expected every direction.*method='least_squares'"):
        total_least_squares(x, y)
    with pytest.raises(UnknownNameError, match=r"unknown method 'total'; .*nearest: total_least_squares"):
        fit_operator(normal(20, 1), normal(20, 1), method="total")  # pyright: ignore[reportArgumentType]  # what is tested
