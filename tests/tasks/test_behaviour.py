"""The helpers of built-in behaviours: drawing without needless repetition, and even quarters."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.errors import ConfigError
from invariscope.tasks.behaviour import draw, quarters


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(st.integers(1, 9), st.integers(0, 40), st.integers(0, 9))
@settings(deadline=None, derandomize=True)
def test_nothing_is_drawn_again_before_everything_was(num_items: int, num: int, seed: int) -> None:
    found = draw(range(num_items), num, seeded(seed))
    assert len(found) == num
    times = Counter(found)
    assert all(times[item] in (num // num_items, -(-num // num_items)) for item in range(num_items))


def test_the_order_is_the_generators() -> None:
    assert draw(range(20), 20, seeded()) == draw(range(20), 20, seeded())
    assert draw(range(20), 20, seeded()) != draw(range(20), 20, seeded(1))


@given(st.integers(3, 200), st.integers(1, 3))
@settings(deadline=None, derandomize=True)
def test_quarters_add_up_and_differ_by_four_at_most(fours: int, parts: int) -> None:
    found = quarters(4 * fours, parts, "prompts")
    assert sum(found) == 4 * fours
    assert all(num % 4 == 0 for num in found)
    assert max(found) - min(found) in (0, 4)


def test_what_has_no_quarters_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^10 prompts; expected a multiple of 4, at least 12: 3 kinds.*; round it"):
        quarters(10, 3, "prompts")
