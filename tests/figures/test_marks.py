"""Marks: no two traces differ by colour alone, thinning keeps the ends, error bars are lengths."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.errors import ConfigError
from invariscope.figures import marks


@pytest.mark.parametrize("role", ["core", "control"])
def test_the_first_slots_differ_in_symbol_dash_and_hatching(role):
    assert len({marks.symbol(slot, role) for slot in range(6)}) == 6
    assert len({marks.pattern(slot, role) for slot in range(6)}) == 6
    assert len({marks.dash(slot) for slot in range(6)}) == 6


def test_cores_are_filled_and_controls_hollow():
    assert not any(marks.symbol(slot, "core").endswith("-open") for slot in range(20))
    assert all(marks.symbol(slot, "control").endswith("-open") for slot in range(20))
    assert all(marks.pattern(slot, "control") for slot in range(20))


def test_an_unknown_role_is_refused():
    with pytest.raises(ConfigError, match="role 'hero' of 'a'; expected core or control"):
        marks.slots([("a", "hero")])


@settings(deadline=None, derandomize=True)
@given(num=st.integers(0, 5000), limit=st.integers(2, 300))
def test_thinning_keeps_order_and_both_ends_and_never_repeats(num, limit):
    kept = marks.thin(range(num), limit=limit)
    assert len(kept) == min(num, limit)
    assert kept == sorted(set(kept))
    if num:
        assert (kept[0], kept[-1]) == (0, num - 1)


def test_thinning_is_even():
    kept = marks.thin(range(1001), limit=101)
    assert {b - a for a, b in pairwise(kept)} == {10}


def test_error_bars_are_lengths_and_never_negative():
    bars = marks.interval_bars([1.0, 2.0, 3.0], [0.9, 2.5, None], [1.4, 2.75, None])
    assert bars["array"] == pytest.approx([0.4, 0.75, 0.0])
    assert bars["arrayminus"] == pytest.approx([0.1, 0.0, 0.0])
    assert marks.interval_bars([1.0], [None], [2.0]) is None
