"""Units in the order of their draw, and scenes written by hand."""

import pytest
import torch

from invariscope.tasks.blocks import AssociativeRecall
from invariscope.tasks.blocks.drawing import draw_units, write_scene


def test_units_are_all_there_and_sides_stay_together():
    task = AssociativeRecall(num_blocks=1, num_rare=0, num_common=3, rare_share=0.0, symmetric=True)
    units = draw_units(task, 0, 200, torch.Generator().manual_seed(0))
    assert units.shape == (200, 3, 2)
    assert torch.equal(units.flatten(1).sort(1).values, torch.arange(6).expand(200, -1))
    assert torch.equal(units[..., 0] // 2, units[..., 1] // 2)
    assert 250 < int((units[..., 0] % 2).sum()) < 350


def test_by_zipf_the_first_units_come_first():
    task = AssociativeRecall(num_blocks=1, num_rare=3, zipf=1.0)
    first = draw_units(task, 0, 20_000, torch.Generator().manual_seed(0))[:, 0, 0].bincount() / 20_000
    assert first.tolist() == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=0.012)


def test_blocks_are_written_in_their_order():
    task = AssociativeRecall(num_blocks=2, num_rare=4)
    units = torch.tensor([[[3], [1], [0], [2]]])
    assert write_scene(task.scenes[0], [units], torch.tensor([[1, 0]])).tolist() == [[0, 2, 3, 1, 3, 1]]
