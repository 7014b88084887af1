"""Debiased CKA: the feature form against the kernel form, its bias against the plain one's, its messages."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from invariscope.errors import RankError, TooFewSamplesError
from invariscope.numerics import cka_similarity, debiased_cka
from invariscope.numerics.kernel_alignment import debiased_hsic


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def kernel_hsic(a: torch.Tensor, b: torch.Tensor) -> float:
    """Song et al. (2012), equation 5, word for word."""
    num = len(a)
    k, l = a @ a.T, b @ b.T  # noqa: E741 (the paper's name)
    k.fill_diagonal_(0)
    l.fill_diagonal_(0)
    one = torch.ones(num, dtype=torch.float64)
    total = torch.trace(k @ l) + (one @ k @ one) * (one @ l @ one) / ((num - 1) * (num - 2)) - 2 / (num - 2) * (one @ k @ l @ one)
    return float(total) / (num * (num - 3))


@settings(deadline=None, derandomize=True, max_examples=40)
@given(seed=st.integers(0, 1000), num=st.integers(4, 30), dims=st.tuples(st.integers(1, 6), st.integers(1, 6)))
def test_the_feature_form_is_the_kernel_form(seed: int, num: int, dims: tuple[int, int]):
    a, b = normal(num, dims[0], seed=seed) + 2.0, normal(num, dims[1], seed=seed + 1) - 1.0
    assert debiased_hsic(a, b) == pytest.approx(kernel_hsic(a, b), rel=1e-9, abs=1e-10)


def test_far_from_the_origin_it_keeps_its_digits():
    a, b = normal(40, 2), normal(40, 3, seed=1)
    assert debiased_hsic(a + 1e5, b - 1e5) == pytest.approx(debiased_hsic(a, b), rel=1e-6)


def test_independent_rows_of_many_dimensions_average_zero_and_not_one():
    values = [debiased_cka(normal(30, 200, seed=2 * s), normal(30, 200, seed=2 * s + 1)) for s in range(40)]
    assert abs(sum(values) / 40) < 0.02
    a, b = (x - x.mean(0) for x in (normal(30, 200), normal(30, 200, seed=1)))
    plain = (a.T @ b).norm() ** 2 / ((a.T @ a).norm() * (b.T @ b).norm())
    assert float(plain) > 0.8  # what the biased statistic says of the same data


def test_population_value_of_a_stretched_side():
    # K of a and of a D with D = diag(1, 3): tr(D^2) / (sqrt(2) ||D^2||) = 10 / sqrt(2 * 82).
    a = normal(20_000, 2)
    assert debiased_cka(a, a * torch.tensor([1.0, 3.0])) == pytest.approx(10 / (2 * 82) ** 0.5, abs=0.01)


def test_value_and_heldout_are_those_of_the_parts():
    a = normal(60, 2)
    b = a + normal(60, 2, seed=1)
    found = cka_similarity(a, b, generator=torch.Generator().manual_seed(0), num_permutations=4)
    assert found.value != found.heldout
    assert found.value == pytest.approx(debiased_cka(a, b), abs=0.2)
    assert found.heldout_intervals == ()


def test_messages():
    with pytest.raises(TooFewSamplesError, match="3 rows for the U-statistic of HSIC; expected at least 4; give more rows"):
        debiased_hsic(normal(3, 1), normal(3, 1))
    with pytest.raises(RankError, match="b that does not vary; expected coordinates that vary"):
        debiased_cka(normal(9, 2), torch.full((9, 2), 0.1))
