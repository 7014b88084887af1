"""Heads by weights beside heads by attention: scores that agree are found, and those that do not are not."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from experiments.imir_transformers.tiny import language
from invariscope.experiments.imir_transformers.language import _within, compare_heads
from invariscope.manifold import InductionCoordinates, InductionPatterns
from invariscope.numerics.matching import Matched

LAYERS, HEADS = 10, 4
N = LAYERS * HEADS
NAMES = tuple((layer, head) for layer in range(LAYERS) for head in range(HEADS))


def matched(value: torch.Tensor) -> Matched:
    return Matched(value=value, null_mean=torch.zeros_like(value), null_std=torch.ones_like(value))


def compared(*, related: bool):
    generator = torch.Generator().manual_seed(1)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    alpha, gamma = drawn(N), drawn(N)
    lower = torch.tensor([[a[0] < b[0] for b in NAMES] for a in NAMES])
    beta = torch.where(lower, drawn(N, N), torch.nan)
    coordinates = InductionCoordinates(
        heads=NAMES,
        alpha=matched(drawn(N)),
        alpha_read=matched(alpha),
        beta=matched(beta),
        gamma=matched(gamma),
        delta=None,
        num_tokens=9,
    )
    match = coordinates.matches().max(0).values
    noise = 0.01 * drawn(6, N)
    patterns = InductionPatterns(
        heads=NAMES,
        previous=(alpha if related else drawn(N)) + noise,
        induction=(match if related else drawn(N)) + noise,
        even=0.05,
    )
    return coordinates, compare_heads(
        coordinates, patterns, name="made up", generator=torch.Generator().manual_seed(2), num_bootstrap=200
    )


def test_scores_that_agree_are_found():
    coordinates, found = compared(related=True)
    assert found.alpha_read.value > 0.99
    assert found.alpha_read.low <= found.alpha_read.value <= found.alpha_read.high
    assert found.match.value > 0.95
    assert abs(found.alpha.value) < 0.5
    assert (found.num_top, found.num_candidates, found.found) == (10, 10, pytest.approx(1.0, abs=0.11))
    assert found.found_null < found.found - 0.2
    head = found.heads[13]
    assert (head.layer, head.head) == NAMES[13]
    strongest = int(coordinates.matches()[:, 13].argmax())
    assert head.best == "{}.{}".format(*NAMES[strongest])
    assert head.match == pytest.approx(float(coordinates.matches()[:, 13].max()))
    assert found.heads[0].best == ""


def test_scores_that_do_not_are_not():
    _, found = compared(related=False)
    assert abs(found.alpha_read.value) < 0.5
    assert found.alpha_read.low < 0 < found.alpha_read.high
    assert found.found < 0.7


def test_shuffled_heads_stay_in_their_layers():
    layers = torch.tensor([layer for layer, _ in NAMES])
    order = _within(layers, torch.Generator().manual_seed(0))
    assert torch.equal(layers[order], layers)
    assert sorted(order.tolist()) == list(range(N))
    assert order.tolist() != list(range(N))


def test_a_real_model_s_findings_are_finite():
    found = language()
    assert len(found.heads) == 12
    assert all(value == value for head in found.heads for value in dataclasses.astuple(head)[2:5])
    assert 0 <= found.found_low <= found.found_high <= 1
