import pytest
import torch

from invariscope.errors import ConfigError, NotEnumerableError, UnknownNameError
from invariscope.tasks.sequences import (
    check_enumerable,
    cumulative_law,
    draw_outcomes,
    draw_path,
    is_enumerable,
    list_sequences,
    shipped_chain,
)


def test_no_draw_below_one_falls_on_an_impossible_outcome():
    # Thirds and tenths do not sum to 1 in floating point.
    law = torch.tensor([[0.1] * 10 + [0.0], [1 / 3] * 3 + [0.0] * 8], dtype=torch.float64)
    rows = cumulative_law(law)
    almost_one = torch.full((2,), 1 - 2**-53, dtype=torch.float64)
    assert draw_outcomes(rows, almost_one).tolist() == [9, 2]
    zero_first = cumulative_law(torch.tensor([[0.0, 0.5, 0.0, 0.5]], dtype=torch.float64))
    draws = [int(draw_outcomes(zero_first, torch.tensor([u], dtype=torch.float64))) for u in (0.0, 0.4999, 0.5)]
    assert draws == [1, 1, 3]


def test_a_path_follows_the_row_of_its_state():
    move = cumulative_law(torch.tensor([[0.2, 0.8, 0], [0, 0.5, 0.5], [1, 0, 0]], dtype=torch.float64))
    start = cumulative_law(torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64))
    uniform = torch.tensor([[0.1, 0.9], [0.5, 0.99], [0.5, 0.1]], dtype=torch.float64)
    assert draw_path(start, move, uniform).tolist() == [[0, 1, 2], [2, 0, 0]]


def test_sequences_are_listed_once_each_in_order():
    parts = list(list_sequences(3, 3, 4))
    assert [len(part) for part in parts] == [4] * 6 + [3]
    numbers = torch.cat(parts) @ torch.tensor([9, 3, 1])
    assert torch.equal(numbers, torch.arange(27))


def test_what_is_too_long_to_list_says_what_to_use():
    assert is_enumerable(2, 20)
    assert not is_enumerable(2, 21)
    with pytest.raises(NotEnumerableError, match=r"'x' with 2\^21 sequences; expected at most 1048576 .*use batches\("):
        check_enumerable("x", 2, 21, 8)
    with pytest.raises(ConfigError, match="batch_size=0; expected 1 or more; raise batch_size"):
        check_enumerable("x", 2, 3, 0)


def test_shipped_chains_are_looked_up_in_their_own_part():
    assert len(shipped_chain("observed", "spread_12")["transition"]) == 12
    assert sorted(shipped_chain("hidden", "six_tokens")) == ["about", "emission", "hidden_transition"]
    with pytest.raises(UnknownNameError, match="hidden chain 'spread_12'"):
        shipped_chain("hidden", "spread_12")
    with pytest.raises(UnknownNameError, match="unknown chain 'six_tokens'"):
        shipped_chain("observed", "six_tokens")
