"""Moments of all shufflings are those of the shufflings themselves."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from invariscope.errors import TooFewSamplesError
from invariscope.numerics.matching import match_factors, match_table


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("num", [2, 3, 5])
def test_they_are_those_of_every_shuffling(num):
    table = torch.randn(2, num, num, generator=seeded(num), dtype=torch.float64)
    rows = torch.arange(num)
    scores = torch.stack([table[:, rows, list(order)].mean(1) for order in itertools.permutations(range(num))])
    found = match_table(table)
    assert torch.allclose(found.value, table.diagonal(0, 1, 2).mean(1))
    assert torch.allclose(found.null_mean, scores.mean(0))
    assert torch.allclose(found.null_std, scores.std(0, correction=0))


@given(num=st.integers(2, 30), width=st.integers(1, 5), seed=st.integers(0, 99))
def test_a_table_need_not_be_formed(num, width, seed):
    generator = seeded(seed)
    left, right = (torch.randn(num, width, generator=generator, dtype=torch.float64) + 1 for _ in range(2))
    expected = match_table(left @ right.T)
    means = left.mean(0), right.mean(0)
    one, other = left - means[0], right - means[1]
    energy = ((one.T @ one / num) * (other.T @ other / num)).sum()
    found = match_factors((one * other).sum(1).mean(), means[0] @ means[1], energy, num)
    assert torch.allclose(found.value, expected.value)
    assert torch.allclose(found.null_mean, expected.null_mean)
    assert torch.allclose(found.null_std, expected.null_std, atol=1e-12)


def test_own_partners_that_stand_out_are_many_deviations_away_and_others_are_not():
    noise = torch.randn(200, 200, generator=seeded(0), dtype=torch.float64)
    assert abs(float(match_table(noise).z)) < 3
    assert float(match_table(noise + torch.eye(200)).z) == pytest.approx(200**0.5, rel=0.2)


def test_a_table_without_differences_is_no_deviation_away():
    found = match_table(torch.ones(3, 3, dtype=torch.float64))
    assert (float(found.excess), float(found.z)) == (0.0, 0.0)


def test_one_pair_cannot_be_shuffled():
    with pytest.raises(TooFewSamplesError, match="1 pairs to be shuffled; expected 2 or more; give more tokens or pairs"):
        match_table(torch.ones(1, 1))
