"""Objectives: their numbers by hand, their names, and what they refuse; and where a model's logits are found."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from invariscope.errors import ObjectiveError, UnknownNameError
from invariscope.positions import Rows
from invariscope.sites import choices, class_logits, logits, logits_at, margin, output_logits
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


# --- choices


def rows_choosing(ids: list[object] | None) -> Rows:
    numbers = torch.arange(4)
    return Rows(b=numbers, t=numbers, groups=numbers, choices=None if ids is None else torch.tensor(ids))


TWO = rows_choosing([[[1, -1], [0, 2]], [[3, 4], [5, -1]], [[0, -1], [1, -1]], [[5, 2], [4, 3]]])
THREE = rows_choosing([[[0], [1], [2]]] * 4)


@pytest.mark.parametrize("reduce", ["logsumexp", "sum"])
def test_two_classes_give_the_margin_of_each_rows_own_tokens(reduce: Any) -> None:
    objective = choices(reduce)
    assert (objective.num_outputs, objective.name) == (1, f"choices[{reduce}]")
    found = objective(X, TWO)
    fixed = [([0, 2], [1]), ([5], [3, 4]), ([1], [0]), ([4, 3], [5, 2])]
    each = [margin(positive=up, negative=down, reduce=reduce)(X[i : i + 1]) for i, (up, down) in enumerate(fixed)]
    torch.testing.assert_close(found, torch.cat(each))


def test_more_classes_give_their_logits_about_the_mean() -> None:
    objective = choices(num_classes=3)
    assert (objective.num_outputs, objective.name) == (3, "choices[3 classes; logsumexp]")
    torch.testing.assert_close(objective(X, THREE), X[:, :3] - X[:, :3].mean(1, keepdim=True))
    torch.testing.assert_close(objective(X + 5, THREE), objective(X, THREE))


def test_the_largest_class_logit_is_the_models_choice() -> None:
    found = class_logits(X, TWO)
    torch.testing.assert_close(found[0], torch.stack([X[0, 1], X[0, [0, 2]].exp().sum().log()]))
    assert torch.equal(found.argmax(1) == 1, choices()(X, TWO)[:, 0] > 0)


@pytest.mark.parametrize("reduce", ["logsumexp", "sum"])
def test_padding_of_the_alternatives_gets_no_gradient(reduce: Any) -> None:
    x = X.clone().requires_grad_()
    [gradient] = torch.autograd.grad(choices(reduce)(x, TWO).sum(), x)
    assert bool(gradient.isfinite().all())
    torch.testing.assert_close(gradient[2], torch.tensor([-1.0, 1, 0, 0, 0, 0], dtype=torch.float64))
    if reduce == "sum":
        torch.testing.assert_close(gradient[0], torch.tensor([1.0, -1, 1, 0, 0, 0], dtype=torch.float64))


def test_half_precision_stays_what_it_is() -> None:
    assert choices()(X.bfloat16(), TWO).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("objective", "rows", "given", "do"),
    [
        (choices(), rows_choosing(None), "choices on rows that have none", "give batches with choices="),
        (
            choices(),
            rows_choosing([[[0], [6]]] * 4),
            "choices with the token 6 and 6 logits",
            "encode the pairs with this model's",
        ),
        (choices(), THREE, "an objective for choices between 2 classes on rows with 3", "pass iv.choices(num_classes=3)"),
    ],
)
def test_rows_that_do_not_fit_the_choices_are_refused(objective: choices, rows: Rows, given: str, do: str) -> None:
    with pytest.raises(ObjectiveError) as caught:
        objective(X, rows)
    assert caught.value.given == given
    assert caught.value.expected
    assert caught.value.do.startswith(do)


@pytest.mark.parametrize("num", [1, 0, True, 2.0])
def test_choices_between_fewer_than_two_classes_are_refused(num: Any) -> None:
    with pytest.raises(ObjectiveError, match=r"expected at least 2; pass num_classes=pairs.num_classes"):
        choices(num_classes=num)


def test_an_unknown_reduction_of_choices_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown reduce 'mean'"):
        choices("mean")  # pyright: ignore[reportArgumentType]  # that is the test
