"""Vocabularies of families: where tokens lie, and what may be renamed."""

import pytest

from invariscope.errors import ConfigError
from invariscope.tasks.blocks import Family, Vocabulary

WORDS = Vocabulary((Family(name="pair", num=3, width=2, swap=True), Family(name="sign", num=1), Family(name="rare", num=2)))


def test_tokens_lie_one_after_the_other():
    assert (WORDS.size, WORDS.start(1), WORDS.start(2)) == (9, 6, 7)
    places = [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (0, 2, 0), (0, 2, 1), (1, 0, 0), (2, 0, 0), (2, 1, 0)]
    assert [WORDS.family_of(token) for token in range(9)] == places
    assert [WORDS.token(*place) for place in places] == list(range(9))


def test_units_and_sides_are_exchanged():
    assert WORDS.generators() == [
        (2, 3, 0, 1, 4, 5, 6, 7, 8),
        (2, 3, 4, 5, 0, 1, 6, 7, 8),
        (1, 0, 2, 3, 4, 5, 6, 7, 8),
        (0, 1, 2, 3, 4, 5, 6, 8, 7),
    ]


@pytest.mark.parametrize("fields", [{"num": 0}, {"num": 2, "width": 0}, {"num": 2, "width": 3, "swap": True}])
def test_families_of_nothing_are_refused(fields):
    with pytest.raises(ConfigError, match="family 'x' of"):
        Family(name="x", **fields)
