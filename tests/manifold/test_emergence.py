"""Flows against known solutions, crossing times, exponents, and the law of context length."""

import math

import pytest
import torch

from invariscope.errors import ConfigError
from invariscope.manifold import ReducedLoss, crossing_time, descend, emergence_times, flow, local_exponents, random_point
from invariscope.tasks.blocks import AssociativeRecall
from manifold.models import RECALL, generator, manifold_of


class Quadratic:
    """L = |θ|² / 2 with the identity for a metric: θ(t) = θ0 exp(-t)."""

    class manifold:  # noqa: N801
        dim = 2

    def gradient(self, theta):
        return theta, theta.square().sum(-1) / 2

    def restricted(self, support):
        assert set(support) <= {0, 1}
        return self


def test_a_quadratic_falls_exponentially():
    start = torch.tensor([[1.0, 0.0], [3.0, 4.0]], dtype=torch.float64)
    found = flow(Quadratic(), start, until_loss=1e-3, longest=100.0, tolerance=1e-7)
    for n in range(2):
        wanted = start[n].norm() * torch.exp(-found.times[:, n])
        torch.testing.assert_close(found.coordinates[:, n].norm(dim=1), wanted, atol=1e-4, rtol=0)
    times = emergence_times(Quadratic(), start, loss=1e-2, longest=100.0, tolerance=1e-7)
    assert times.tolist() == pytest.approx([0.5 * math.log(0.5 / 1e-2), 0.5 * math.log(12.5 / 1e-2)], rel=1e-2)


def test_a_frozen_coordinate_stays():
    found = flow(Quadratic(), torch.tensor([[1.0, 0.5]], dtype=torch.float64), until_loss=0.13, longest=50.0, frozen=[1])
    assert bool((found.coordinates[:, 0, 1] == 0.5).all())


def test_the_flow_is_descent_with_small_steps():
    manifold = manifold_of(RECALL)
    reduced = ReducedLoss(manifold, RECALL.representatives())
    theta = random_point(manifold, generator(), std=0.1)
    steps = descend(reduced, theta, learning_rate=0.02, steps=4000, every=50)
    moved = flow(reduced, theta[None], until_loss=0.0, longest=80.0, tolerance=1e-6)
    assert float(moved.losses[-1, 0]) == pytest.approx(float(steps.losses[-1]), abs=2e-3)


def test_another_loss_may_judge():
    manifold = manifold_of(RECALL)
    reduced = ReducedLoss(manifold, RECALL.representatives())
    theta = random_point(manifold, generator(), std=0.1)[None]
    watched = ReducedLoss(manifold, RECALL.representatives(causal=False))
    found = flow(reduced, theta, until_loss=1.0, longest=1e3, watched=watched)
    assert float(found.losses[-1, 0]) == pytest.approx(float(watched(found.coordinates[-1, 0])))


def test_crossings_and_exponents():
    times, losses = torch.tensor([0.0, 2.0, 4.0]), torch.tensor([1.0, 0.8, 0.4])
    assert float(crossing_time(times, losses, 0.6)) == pytest.approx(3.0)
    assert float(crossing_time(times, losses, 1.0)) == 0.0
    assert math.isinf(float(crossing_time(times, losses, 0.1)))
    assert local_exponents([1, 10], [2.0, 200.0]) == pytest.approx([2.0])
    with pytest.raises(ConfigError, match="longest = 0"):
        flow(Quadratic(), torch.zeros(1, 2), until_loss=0.1, longest=0)


def test_emergence_becomes_quadratic_in_the_context():
    found = []
    for num in (4, 32, 64):
        task = AssociativeRecall(num_blocks=num, num_rare=130, num_slots=65)
        manifold = manifold_of(task, causal=False, readout="direct")
        circuit = [manifold.index("L1 [x|x] same(1, 0)"), manifold.index("L2 [x|a1] identity")]
        theta = torch.zeros(1, manifold.dim, dtype=torch.float64)
        theta[0, circuit] = 0.01
        frozen = [index for index in range(manifold.dim) if index not in circuit]
        reduced = ReducedLoss(manifold, task.representatives(causal=False))
        found.append(float(emergence_times(reduced, theta, longest=1e8, frozen=frozen)))
    first, last = local_exponents((4, 32, 64), found)
    assert 1.5 < first < last
    assert last >= 1.9
