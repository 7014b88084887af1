"""Spearman against scipy, by value, and what it is for."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
import scipy.stats
import torch
from hypothesis import given, settings

from invariscope.errors import ShapeError
from invariscope.numerics import fit_cca, spearman, spearman_similarity
from invariscope.numerics.halves import split_halves
from invariscope.numerics.rank_correlation import ranks


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(seed=st.integers(0, 1000), num_levels=st.integers(2, 30))
def test_agrees_with_scipy_also_where_values_are_tied(seed: int, num_levels: int):
    a, b = (torch.randint(0, num_levels, (40, 2), generator=generator(s)).double() for s in (seed, seed + 1))
    assert ranks(a).numpy() == pytest.approx(scipy.stats.rankdata(a.numpy(), axis=0))
    found = spearman(a, b)
    for k in range(2):
        if len(a[:, k].unique()) > 1 and len(b[:, k].unique()) > 1:
            assert float(found[k]) == pytest.approx(scipy.stats.spearmanr(a[:, k].numpy(), b[:, k].numpy()).statistic)


def test_increasing_maps_change_nothing_and_decreasing_ones_the_sign():
    a = torch.randn(50, 1, dtype=torch.float64, generator=generator())
    assert spearman(a, a.exp()).tolist() == pytest.approx([1.0])
    assert spearman(a, -a.pow(3)).tolist() == pytest.approx([-1.0])
    assert spearman(a, torch.ones_like(a)).tolist() == [0.0]


def test_the_sign_of_one_component_is_the_fitted_parts():
    a = torch.randn(60, 1, dtype=torch.float64, generator=generator())
    found = spearman_similarity(a, -a.exp(), generator=generator(), num_permutations=5)
    assert found.value == pytest.approx(1.0)
    assert found.heldout == pytest.approx(1.0)


def test_it_is_the_rank_correlation_of_held_out_canonical_variates():
    a = torch.randn(80, 2, dtype=torch.float64, generator=generator())
    b = a @ torch.randn(2, 3, dtype=torch.float64, generator=generator(1))
    b = b + torch.randn(80, 3, dtype=torch.float64, generator=generator(2))
    found = spearman_similarity(a, b, generator=generator(3), num_permutations=2)
    halves = split_halves(a, b, generator=generator(3))
    u, v = fit_cca(halves.a_fit, halves.b_fit).variates(halves.a_test, halves.b_test)
    expected = [scipy.stats.spearmanr(u[:, k].numpy(), v[:, k].numpy()).statistic for k in range(2)]
    assert found.heldout_components == pytest.approx([max(0.0, value) for value in expected])


def test_outliers_do_not_carry_it():
    a, b = (torch.randn(400, 1, dtype=torch.float64, generator=generator(seed)) for seed in (0, 1))
    far = torch.arange(400) % 20 == 0
    a[far], b[far] = a[far] + 50.0, b[far] + 50.0
    assert float(fit_cca(a, b).correlations) > 0.98
    found = spearman_similarity(a, b, generator=generator(), num_permutations=5)
    assert found.value < 0.35


def test_rows_that_are_no_pairs_are_refused():
    with pytest.raises(ShapeError, match=r"coordinates of shape \[4, 1\] and \[3, 1\]"):
        spearman(torch.ones(4, 1), torch.ones(3, 1))
