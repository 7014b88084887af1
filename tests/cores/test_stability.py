"""Stability of a core's directions between halves and under the bootstrap."""

from __future__ import annotations

import pytest
import torch

from invariscope.cores import Moments
from invariscope.cores.stability import MAX_STABILITY_SAMPLES, _Problem, direction_stability
from invariscope.errors import RankError, ShapeError, TooFewSamplesError
from invariscope.numerics.subspaces import overlap


def sample(num: int = 60, dim: int = 9, outputs: int = 2, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(num, dim, generator=generator, dtype=torch.float64) + 3
    j = torch.randn(num, outputs, dim, generator=generator, dtype=torch.float64) * 0.1
    j[:, 0, 0] += 2
    j[:, 1, 3] += 1
    return h, j, torch.arange(num) // 3


@pytest.mark.parametrize("rank", [1, 2])
def test_spans_are_those_of_moments_with_the_same_weights(rank):
    h, j, _ = sample()
    weights = torch.randint(0, 3, (len(h),), generator=torch.Generator().manual_seed(1)).double()
    left, right = _Problem(h, j, rank).spans(weights)
    moments = Moments(dim=9)
    moments.update(h, j, weights=weights)
    assert overlap(left, moments.core(rank, "activation").write) == pytest.approx(1, abs=1e-10)
    assert overlap(right, moments.core(rank, "adjoint").write) == pytest.approx(1, abs=1e-10)


def test_constant_jacobians_give_a_stable_adjoint_side_and_random_ones_none():
    h, j, groups = sample(outputs=1 + 1)
    generator = torch.Generator().manual_seed(0)
    steady = direction_stability(h, j, groups, rank=2, generator=generator)
    loose = direction_stability(
        h, torch.randn(60, 9, generator=generator, dtype=torch.float64), groups, rank=1, generator=generator
    )
    assert steady.adjoint_halves.value > 0.95
    assert steady.adjoint_bootstrap.value > 0.95
    assert loose.adjoint_halves.value < 0.8
    assert loose.adjoint_halves.chance == pytest.approx((1 / 9) ** 0.5)
    assert steady.num_groups == 20


def test_the_same_generator_gives_the_same_numbers():
    h, j, groups = sample()
    a, b = (direction_stability(h, j, groups, rank=1, generator=torch.Generator().manual_seed(5)) for _ in range(2))
    assert a == b


def test_what_does_not_fit_is_refused():
    h, j, groups = sample()
    generator = torch.Generator()
    with pytest.raises(ShapeError, match=r"59 groups.*expected"):
        direction_stability(h, j, groups[1:], rank=1, generator=generator)
    many = MAX_STABILITY_SAMPLES + 1
    with pytest.raises(ShapeError, match="fewer samples"):
        direction_stability(torch.ones(many, 1), torch.ones(many, 1), torch.arange(many), rank=1, generator=generator)
    with pytest.raises(TooFewSamplesError, match="2 groups of prompts"):
        direction_stability(h, j, groups % 2, rank=1, generator=generator)
    with pytest.raises(RankError, match="rank 20 from"):
        direction_stability(h[:12, :], j[:12], torch.arange(12), rank=20, generator=generator)
