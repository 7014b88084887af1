"""Listing by hand: two pairs of three tokens, and units with two sides."""

import pytest

from invariscope.tasks.blocks import AssociativeRecall
from invariscope.tasks.blocks.listing import num_choices, unit_law


def test_a_unit_is_every_token_with_equal_probability_or_by_zipf():
    even = AssociativeRecall(num_blocks=1, num_rare=4, placement="fixed")
    assert [(tokens, share) for tokens, share in unit_law(even, 0, 1)] == [([token], 0.25) for token in range(4)]
    steep = AssociativeRecall(num_blocks=1, num_rare=2, placement="fixed", zipf=1.0)
    first = {tokens[0]: share for tokens, share in unit_law(steep, 0, 0)}
    assert first == pytest.approx({0: 2 / 3, 1: 1 / 3})


def test_choices_are_counted_and_listed():
    task = AssociativeRecall(num_blocks=1, num_rare=0, num_common=3, rare_share=0.0, symmetric=True, placement="fixed")
    [scene] = task.scenes
    assert num_choices(task, scene) == 6
    [batch] = task.enumerate("train", 100)
    rows = sorted(map(tuple, batch.inputs["tokens"].tolist()))
    assert rows == [(0, 1, 0), (1, 0, 1), (2, 3, 2), (3, 2, 3), (4, 5, 4), (5, 4, 5)]
    assert batch.targets[:, 0].tolist() == [row[1] for row in batch.inputs["tokens"].tolist()]
    assert [len(one.targets) for one in task.enumerate("train", 4)] == [4, 2]
