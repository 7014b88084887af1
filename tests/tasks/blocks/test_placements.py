"""Labels of blocks: drawn, listed, one of each orbit, and what cannot be placed."""

import pytest
import torch

from invariscope.errors import ConfigError, NotEnumerableError, UnknownNameError
from invariscope.tasks.blocks import Placement


def place(kind, size=6, lengths=(2, 2, 1)):
    return Placement(kind=kind, lengths=lengths, block_size=2, size=size)


def test_slots_hold_one_block_each():
    labels = place("slots", 8).draw(500, torch.Generator().manual_seed(0))
    starts = labels[:, [0, 2, 4]]
    assert bool((starts % 2 == 0).all())
    assert bool((labels[:, [1, 3]] == labels[:, [0, 2]] + 1).all())
    assert all(len(set(row)) == 3 for row in starts.tolist())
    assert place("slots", 8).num_ways() == len(list(place("slots", 8).every())) == 24


def test_offsets_are_each_block_s_own_and_a_ring_s_are_common():
    [*offsets] = [labels.tolist() for labels, _ in place("offsets", 3).every()]
    assert len(offsets) == place("offsets", 3).num_ways() == 27
    assert [2, 0, 1, 2, 0] in offsets
    assert [labels.tolist() for labels, _ in place("ring").every()][4] == [4, 5, 0, 1, 2]
    assert [labels.tolist() for labels, _ in place("fixed").every()] == [[0, 1, 2, 3, 4]]


@pytest.mark.parametrize(("kind", "size"), [("slots", 8), ("offsets", 3), ("ring", 7), ("fixed", 6)])
def test_draws_are_uniform_over_what_is_listed(kind, size):
    listed = {tuple(labels.tolist()): weight for labels, weight in place(kind, size).every()}
    assert sum(listed.values()) == pytest.approx(1.0)
    drawn = place(kind, size).draw(20_000, torch.Generator().manual_seed(0))
    unique, counts = drawn.unique(dim=0, return_counts=True)
    assert {tuple(row) for row in unique.tolist()} == listed.keys()
    for row, count in zip(map(tuple, unique.tolist()), counts.tolist(), strict=True):
        assert count / 20_000 == pytest.approx(listed[row], abs=0.012)


def test_the_first_block_of_an_orbit_stands_at_nought():
    assert len(list(place("offsets", 3).representatives())) == 9
    assert [labels.tolist() for labels, _ in place("slots", 8).representatives()] == [[0, 1, 2, 3, 4]]
    with pytest.raises(NotEnumerableError, match="on a ring of 200 labels"):
        list(place("offsets", 200).representatives())


@pytest.mark.parametrize(
    ("kind", "size", "message"),
    [
        ("slots", 4, r"4 position labels for 3 blocks of up to 2 tokens, placed by slots; expected 3 slots or more"),
        ("ring", 4, r"expected 5 labels or more; raise num_positions"),
    ],
)
def test_too_few_labels_are_refused(kind, size, message):
    with pytest.raises(ConfigError, match=message):
        place(kind, size)
    with pytest.raises(UnknownNameError, match="nearest: slots"):
        place("slot")


def test_fixed_labels_are_not_said_and_others_are():
    tokens, labels = torch.zeros(2, 5, dtype=torch.long), torch.ones(2, 5, dtype=torch.long)
    assert set(place("fixed").inputs(tokens, labels)) == {"tokens"}
    assert place("ring", 7).inputs(tokens, labels)["positions"] is labels
