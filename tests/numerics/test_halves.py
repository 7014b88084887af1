"""Two parts of paired rows, and the null that shuffles inside either."""

from __future__ import annotations

import pytest
import torch

from invariscope.errors import ConfigError
from invariscope.numerics.halves import correlation_intervals, group_sums, null_scores, safe_ratio, split_halves


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pairs(num: int) -> tuple[torch.Tensor, torch.Tensor]:
    a = torch.randn(num, 2, dtype=torch.float64, generator=generator())
    return a, torch.cat([a, a[:, :1] + 1.0], 1)


def test_pairs_stay_together_and_groups_stay_whole():
    a, b = pairs(100)
    groups = torch.arange(100) % 25
    halves = split_halves(a, b, generator=generator(), groups=groups, heldout_share=0.44)
    assert (len(halves.a_fit), len(halves.a_test), halves.dims) == (56, 44, (2, 3))
    assert not set(halves.groups_fit.tolist()) & set(halves.groups_test.tolist())
    for left, right in ((halves.a_fit, halves.b_fit), (halves.a_test, halves.b_test)):
        assert torch.equal(left, right[:, :2])


def test_the_null_shuffles_b_inside_either_part_and_nothing_else():
    a, b = pairs(60)
    halves = split_halves(a, b, generator=generator())
    seen = []

    def score(shuffled):
        seen.append(shuffled)
        return shuffled.b_fit[0]

    found = null_scores(halves, score, num=3, generator=generator(1))
    assert found.shape == (3, 3)
    for shuffled in seen:
        assert shuffled.a_fit is halves.a_fit
        for name in ("b_fit", "b_test"):
            before, after = getattr(halves, name), getattr(shuffled, name)
            assert not torch.equal(before, after)
            assert torch.equal(before[before[:, 0].argsort()], after[after[:, 0].argsort()])
    with pytest.raises(ConfigError, match="0 permutations; expected at least 1"):
        null_scores(halves, score, num=0, generator=generator())


def test_intervals_of_correlations_cover_about_what_they_say():
    covered = 0
    for seed in range(40):
        source = generator(seed)
        u = torch.randn(200, 1, dtype=torch.float64, generator=source)
        v = 0.6 * u + 0.8 * torch.randn(200, 1, dtype=torch.float64, generator=source)
        ((low, high),) = correlation_intervals(u, v, torch.arange(200), source)
        covered += low <= 0.6 <= high
        assert 0.05 < high - low < 0.4
    assert covered >= 34


def test_sums_of_groups_and_ratios_of_nothing():
    sums = group_sums(torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([9, 3, 9]))
    assert sums.tolist() == [[2.0], [5.0]]
    assert safe_ratio(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 4.0])).tolist() == [0.0, 0.5]
