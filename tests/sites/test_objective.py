"""Objectives: their numbers by hand, their names, and what they refuse; and where a model's logits are found."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from invariscope.errors import ObjectiveError, UnknownNameError
from invariscope.sites import logits, logits_at, margin, output_logits
from sites.toys import Output, seeded

X = torch.randn(4, 6, generator=seeded(), dtype=torch.float64)


def raw(tokens: list[int] | None = None) -> logits:
    with pytest.warns(UserWarning, match="the shift of all logits together counts"):
        return logits(tokens, normalise="raw")


def test_all_logits_are_log_probabilities_unless_said() -> None:
    objective = logits()
    assert (objective.num_outputs, objective.name) == (0, "logits[all; log_softmax]")
    torch.testing.assert_close(objective(X).exp().sum(1), torch.ones(4, dtype=torch.float64))
    torch.testing.assert_close(objective(X), X - X.exp().sum(1, keepdim=True).log())


def test_centred_logits_have_mean_zero() -> None:
    found = logits(normalise="centred")(X)
    torch.testing.assert_close(found.mean(1), torch.zeros(4, dtype=torch.float64))
    torch.testing.assert_close(found - found[:, :1], X - X[:, :1])


def test_raw_logits_are_left_alone_and_warn_once_where_they_are_asked_for() -> None:
    with pytest.warns(UserWarning, match="softmax ignores it") as caught:
        objective = logits(normalise="raw")
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(objective(X), X)
        logits()
        logits(normalise="centred")


def test_a_shift_of_all_logits_counts_in_raw_ones_only() -> None:
    assert torch.allclose(logits()(X + 3), logits()(X))
    assert torch.allclose(logits(normalise="centred")(X + 3), logits(normalise="centred")(X))
    assert not torch.allclose(raw()(X + 3), raw()(X))


@pytest.mark.parametrize("tokens", [[4, 1], (4, 1), torch.tensor([4, 1])])
def test_chosen_tokens_come_in_the_given_order_after_normalising_over_all(tokens: Any) -> None:
    objective = logits(tokens)
    assert (objective.num_outputs, objective.name) == (2, "logits[4,1; log_softmax]")
    assert torch.equal(objective(X), X.log_softmax(1)[:, [4, 1]])


def test_a_margin_of_probabilities_is_the_log_of_their_ratio() -> None:
    objective = margin(positive=[0, 3], negative=[5])
    assert (objective.num_outputs, objective.name) == (1, "margin[0,3 - 5; logsumexp]")
    p = X.softmax(1)
    torch.testing.assert_close(objective(X), ((p[:, 0] + p[:, 3]) / p[:, 5]).log()[:, None])


def test_a_margin_of_sums_adds_logits() -> None:
    objective = margin(positive=torch.tensor([0, 3]), negative=[5, 1], reduce="sum")  # pyright: ignore[reportArgumentType]
    assert objective.name == "margin[0,3 - 5,1; sum]"
    assert torch.equal(objective(X), (X[:, 0] + X[:, 3] - (X[:, 5] + X[:, 1]))[:, None])


def test_one_against_one_is_the_difference_either_way() -> None:
    for reduce in ("logsumexp", "sum"):
        torch.testing.assert_close(margin(positive=[2], negative=[4], reduce=reduce)(X), (X[:, 2] - X[:, 4])[:, None])


@pytest.mark.parametrize(("positive", "negative"), [([], [1]), ([1], []), ([3, 5], [5]), ([3, 3], [5]), ([3], [5, 5])], ids=str)
def test_token_sets_that_are_empty_or_overlap_or_repeat_are_refused(positive: list[int], negative: list[int]) -> None:
    with pytest.raises(ObjectiveError) as caught:
        margin(positive=positive, negative=negative)
    assert caught.value.given == f"margin of tokens {positive} against {negative}"
    assert caught.value.expected == "two token sets, neither empty, with nothing in common"
    assert "answers as positive" in caught.value.do


@pytest.mark.parametrize("tokens", [[], [1, 1]])
def test_no_tokens_or_one_twice_are_refused(tokens: list[int]) -> None:
    with pytest.raises(ObjectiveError) as caught:
        logits(tokens)
    assert caught.value.given == f"logits of tokens {tokens}"
    assert caught.value.expected == "at least one token id, each once"
    assert caught.value.do


@pytest.mark.parametrize("bad", [-1, 6])
def test_an_id_outside_the_vocabulary_is_refused_when_the_vocabulary_is_known(bad: int) -> None:
    for objective in (logits([0, bad]), margin(positive=[bad], negative=[0]), margin(positive=[0], negative=[bad])):
        with pytest.raises(ObjectiveError) as caught:
            objective(X)
        assert str(bad) in caught.value.given
        assert caught.value.given.endswith("with 6 logits")
        assert caught.value.expected == "token ids from 0 to 5"
        assert "vocabulary" in caught.value.do


def test_a_choice_that_does_not_exist_is_answered_with_those_that_do() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown normalise 'softmax'.*nearest: log_softmax"):
        logits(normalise="softmax")  # pyright: ignore[reportArgumentType]  # that is the test
    with pytest.raises(UnknownNameError, match=r"unknown reduce 'mean'.*nearest: .*sum"):
        margin(positive=[0], negative=[1], reduce="mean")  # pyright: ignore[reportArgumentType]  # that is the test


# --- where the logits are


@pytest.mark.parametrize("shape", [(2, 5), (2, 3, 5)])
def test_logits_are_the_tensor_or_what_has_them(shape: tuple[int, ...]) -> None:
    x = torch.zeros(shape)
    assert output_logits(x) is x
    assert output_logits(Output(x)) is x
    assert output_logits((x, 1), lambda output: output[0]) is x
    assert output_logits(Output(torch.ones(shape)), lambda output: x) is x


@pytest.mark.parametrize(
    ("output", "given"),
    [
        ((torch.zeros(2, 5),), "tuple"),
        ({"logits": torch.zeros(2, 5)}, "dict"),
        (torch.zeros(5), "[5]"),
        (Output(torch.zeros(2, 3, 4, 5)), "[2, 3, 4, 5]"),
        (None, "NoneType"),
    ],
    ids=str,
)
def test_an_output_without_logits_is_answered_with_logits_of(output: object, given: str) -> None:
    with pytest.raises(ObjectiveError) as caught:
        output_logits(output)
    assert caught.value.given == f"a model output whose logits are {given}"
    assert "[B, T, V] or [B, V]" in caught.value.expected
    assert caught.value.do.startswith("pass logits_of=")


def test_rows_of_logits_are_those_at_the_indices() -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    index = torch.tensor([[0, 2], [1, 0]])
    assert torch.equal(logits_at(x, index), torch.stack([x[0, 2], x[1, 0]]))
    every = torch.cartesian_prod(torch.arange(2), torch.arange(3))
    assert torch.equal(logits_at(x, every), x.reshape(6, 4))
    by_sequence: Tensor = x[:, 0]
    assert torch.equal(logits_at(by_sequence, index), by_sequence)
