"""Comparing seeds: groups are taken out as said, and only the 12-state arm is transplanted."""

from __future__ import annotations

import torch

from invariscope.experiments.markov_cores.compare import COMPARED_RANK, _within_groups


def test_within_groups_leaves_no_mean_behind_and_keeps_what_is_inside():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 4, (500,), generator=generator)
    inside = torch.randn(500, 3, generator=generator, dtype=torch.float64)
    centred = _within_groups(inside + 10 * labels[:, None].double(), labels)
    for label in range(4):
        assert centred[labels == label].mean(0).abs().max() < 1e-12
    expected = inside[labels == 1] - inside[labels == 1].mean(0)
    assert torch.allclose(centred[labels == 1], expected, atol=1e-12)


def test_a_mere_label_is_nothing_within_groups():
    labels = torch.arange(40) % 4
    code = torch.eye(4, dtype=torch.float64)[labels]
    assert _within_groups(code, labels).abs().max() == 0


def test_the_third_direction_is_compared_in_every_arm():
    assert COMPARED_RANK == 3
