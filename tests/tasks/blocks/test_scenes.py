"""Orders of blocks: which are told apart, and how probable each is."""

import pytest

from invariscope.errors import NotEnumerableError
from invariscope.tasks.blocks.scenes import Scene, arrangements, num_arrangements


def pair(a, b):
    return ((0, a, 0), (0, b, 0))


def scene(*blocks, tail=(((0, 0, 0),),), target=(0, 1, 0)):
    return Scene(blocks=blocks, tail=tail, target=target, weight=1.0, label=0)


def test_only_the_place_of_the_asked_block_is_told():
    found = arrangements(scene(pair(0, 1), pair(2, 3), pair(4, 5)))
    assert num_arrangements(scene(pair(0, 1), pair(2, 3), pair(4, 5))) == 3
    assert [one.weight for one in found] == pytest.approx([1 / 3] * 3)
    # Units are numbered as they appear.
    assert [one.tail[0][0] for one in found] == [(0, 0, 0), (0, 2, 0), (0, 4, 0)]


def test_copies_are_one_block():
    found = arrangements(scene(pair(0, 1), pair(0, 1), pair(2, 3)))
    assert sorted(one.weight for one in found) == pytest.approx([1 / 3] * 3)


def test_chains_that_can_be_exchanged_are_one():
    two = scene(pair(0, 1), pair(1, 2), pair(3, 4), pair(4, 5), target=(0, 2, 0))
    assert num_arrangements(two) == 24
    found = arrangements(two)
    assert sum(one.weight for one in found) == pytest.approx(1.0)
    assert len(found) == 24
    chains = scene(pair(0, 1), pair(2, 3), pair(3, 4), pair(5, 6), pair(6, 7))
    assert (num_arrangements(chains), len(arrangements(chains))) == (120, 60)


def test_too_many_orders_are_refused():
    with pytest.raises(NotEnumerableError, match=r"orders of 12 blocks; .*representatives\(causal=False\)"):
        arrangements(scene(*(pair(2 * i, 2 * i + 2) for i in range(12))))
