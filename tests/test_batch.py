"""Batch: its parts fit each other, rows and devices move together, and what is no batch is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.batch import Batch, check_batches, check_finite, text_inputs
from invariscope.errors import ConfigError, NonFiniteError, ObjectiveError, ReiterableError, ShapeError, UnknownNameError


def full_batch() -> Batch:
    return Batch(
        inputs={"tokens": torch.arange(12).reshape(4, 3), "features": torch.arange(24.0).reshape(4, 3, 2)},
        targets=torch.arange(4)[:, None],
        probabilities=torch.arange(8.0).reshape(4, 1, 2),
        valid=torch.tensor([[True, True, True], [True, True, False], [False, True, True], [True, False, False]]),
        labels=torch.tensor([0, 1, 0, 1]),
        groups=torch.tensor([5, 5, 6, 6]),
        weights=torch.tensor([0.1, 0.2, 0.3, 0.4]),
        choices=torch.tensor([[[3, -1], [4, 5]]]).expand(4, 2, 2) + torch.tensor([0, 6, 12, 18])[:, None, None],
        marked=torch.tensor([[False, True, False], [True, False, False], [False, True, True], [True, False, False]]),
    )


def tensors_of(batch: Batch) -> dict[str, torch.Tensor]:
    own = {field.name: getattr(batch, field.name) for field in dataclasses.fields(batch) if field.name != "inputs"}
    return own | {f"inputs.{name}": value for name, value in batch.inputs.items()}


def test_size_is_that_of_the_first_input() -> None:
    batch = Batch(inputs={"input": torch.zeros(5, 7, 2)})
    assert (batch.num_rows, batch.length) == (5, 7)


def test_take_follows_the_given_order_in_every_part() -> None:
    batch, rows = full_batch(), torch.tensor([2, 0])
    taken = batch.take(rows)
    assert taken.num_rows == 2
    for name, value in tensors_of(taken).items():
        assert torch.equal(value, tensors_of(batch)[name][[2, 0]]), name
    assert taken.inputs["tokens"].tolist() == [[6, 7, 8], [0, 1, 2]]


def test_take_by_a_mask_is_take_by_its_indices() -> None:
    batch = full_batch()
    by_mask, by_index = batch.take(torch.tensor([True, False, False, True])), batch.take(torch.tensor([0, 3]))
    for name, value in tensors_of(by_mask).items():
        assert torch.equal(value, tensors_of(by_index)[name]), name


@given(st.permutations(range(4)))
@settings(deadline=None, derandomize=True)
def test_taking_twice_is_taking_the_composition(order: list[int]) -> None:
    rows, back = torch.tensor(order), torch.tensor(order).argsort()
    batch = full_batch()
    for name, value in tensors_of(batch.take(rows).take(back)).items():
        assert torch.equal(value, tensors_of(batch)[name]), name


def test_what_is_not_known_stays_unknown() -> None:
    batch = Batch(inputs={"tokens": torch.zeros(3, 2, dtype=torch.long)}).take(torch.tensor([1])).to("cpu")
    assert all(getattr(batch, field.name) is None for field in dataclasses.fields(batch) if field.name != "inputs")


def test_to_moves_every_tensor() -> None:
    moved = full_batch().to("meta")
    assert {value.device.type for value in tensors_of(moved).values()} == {"meta"}


def test_a_batch_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        full_batch().labels = None  # pyright: ignore[reportAttributeAccessIssue]  # that is the test


@pytest.mark.parametrize(
    ("name", "value", "axes"),
    [
        ("targets", torch.zeros(4, dtype=torch.long), 2),
        ("targets", torch.zeros(3, 1, dtype=torch.long), 2),
        ("probabilities", torch.zeros(4, 2), 3),
        ("valid", torch.ones(3, 3, dtype=torch.bool), 2),
        ("labels", torch.zeros(5, dtype=torch.long), 1),
        ("groups", torch.zeros(4, 1, dtype=torch.long), 1),
        ("weights", torch.zeros(2), 1),
        ("choices", torch.zeros(4, 2, dtype=torch.long), 3),
        ("choices", torch.zeros(3, 2, 1, dtype=torch.long), 3),
        ("marked", torch.ones(3, 3, dtype=torch.bool), 2),
    ],
)
def test_a_part_that_does_not_fit_is_named_with_both_shapes(name: str, value: torch.Tensor, axes: int) -> None:
    with pytest.raises(ShapeError) as caught:
        dataclasses.replace(full_batch(), **{name: value})
    assert caught.value.given == f"Batch {name} of shape {list(value.shape)} with inputs of shape [4, 3]"
    assert caught.value.expected == f"{axes} axes, the first of length 4"
    assert caught.value.do == f"give one row of {name} for each row of the inputs"


def test_valid_of_another_length_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"valid of shape \[4, 2\].*expected \[4, 3\]; mark every token"):
        dataclasses.replace(full_batch(), valid=torch.ones(4, 2, dtype=torch.bool))


def test_marks_of_another_length_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"marked of shape \[4, 2\].*expected \[4, 3\]; mark tokens of the padded batch"):
        dataclasses.replace(full_batch(), marked=torch.ones(4, 2, dtype=torch.bool))


@pytest.mark.parametrize(
    ("choices", "given", "do"),
    [
        ([[[1.0], [2.0]]] * 4, "Batch choices of shape [4, 2, 1] and type torch.float32", "give the token ids of every class"),
        ([[[1, 2]]] * 4, "Batch choices of shape [4, 1, 2] and type torch.int64", "give the token ids of every class"),
        ([[[1], [-2]]] * 4, "Batch choices with the id -2", "check the ids, and pad with -1"),
        ([[[1], [2]]] * 3 + [[[1], [-1]]], "Batch choices without a token for class 1 of row 3", "give every class an answer"),
    ],
)
def test_choices_that_are_no_token_ids_are_refused(choices: list[object], given: str, do: str) -> None:
    with pytest.raises(ObjectiveError) as caught:
        dataclasses.replace(full_batch(), choices=torch.tensor(choices))
    assert caught.value.given == given
    assert caught.value.expected
    assert caught.value.do.startswith(do)


@given(st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=6), min_size=1, max_size=5), st.sampled_from(["left", "right"]))
@settings(deadline=None, derandomize=True)
def test_padded_rows_come_back_from_their_mask_with_positions_from_zero(rows: list[list[int]], side: str) -> None:
    inputs = text_inputs(rows, pad_id=7, side=side)  # pyright: ignore[reportArgumentType]  # hypothesis draws a str
    mask = inputs["attention_mask"].bool()
    assert [ids[keep].tolist() for ids, keep in zip(inputs["input_ids"], mask, strict=True)] == rows
    assert [at[keep].tolist() for at, keep in zip(inputs["position_ids"], mask, strict=True)] == [
        list(range(len(r))) for r in rows
    ]
    assert bool((inputs["input_ids"][~mask] == 7).all())
    assert bool((inputs["position_ids"][~mask] == 0).all())
    edge = mask[:, -1] if side == "left" else mask[:, 0]
    assert bool(edge.all())
    assert torch.equal(Batch(inputs=inputs).valid, mask)


@pytest.mark.parametrize(
    ("rows", "choices", "kind", "message"),
    [
        ([], {}, ShapeError, "no rows of tokens; expected rows of at least one token; leave empty prompts out"),
        ([[1], []], {}, ShapeError, "row 1 without tokens; expected rows of at least one token; leave empty prompts out"),
        ([[1]], {"pad_id": -1}, ConfigError, "a padding id -1; expected a token id, 0 or more; leave it at 0"),
        ([[1]], {"pad_id": None}, ConfigError, "a padding id None; expected a token id"),
        ([[1]], {"side": "both"}, UnknownNameError, "unknown padding side 'both'"),
    ],
)
def test_rows_that_make_no_inputs_are_refused(
    rows: list[list[int]], choices: dict[str, object], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind) as caught:
        text_inputs(rows, **choices)  # pyright: ignore[reportArgumentType]  # that is the test
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("inputs", "given"),
    [
        ({}, "NoneType"),
        ({"tokens": torch.zeros(3)}, "[3]"),
        ({"tokens": [[1, 2]]}, "list"),
        (torch.zeros(2, 2), "NoneType"),
    ],
)
def test_inputs_that_are_no_tensors_by_name_are_refused(inputs: object, given: str) -> None:
    with pytest.raises(ShapeError) as caught:
        Batch(inputs=inputs)  # pyright: ignore[reportArgumentType]  # that is the test
    assert caught.value.given == f"Batch inputs whose first entry is {given}"
    assert "{'tokens': tokens}" in caught.value.do


@pytest.mark.parametrize(
    ("value", "given"), [(torch.zeros(1, 3), "shape [1, 3]"), (torch.tensor(1.0), "shape []"), (True, "type bool")]
)
def test_an_input_that_has_not_one_row_a_row_is_named(value: object, given: str) -> None:
    with pytest.raises(ShapeError) as caught:
        Batch(inputs={"tokens": torch.zeros(2, 3), "extra": value})  # pyright: ignore[reportArgumentType]  # that is the test
    assert caught.value.given == f"Batch input 'extra' of {given} with a first input of shape [2, 3]"
    assert "length 2" in caught.value.expected


def test_an_attention_mask_says_what_is_padding() -> None:
    mask = torch.tensor([[0, 1, 1], [1, 1, 1]])
    batch = Batch(inputs={"input_ids": torch.zeros(2, 3, dtype=torch.long), "attention_mask": mask})
    assert batch.valid is not None
    assert batch.valid.dtype == torch.bool
    assert batch.valid.tolist() == [[False, True, True], [True, True, True]]
    assert batch.take(torch.tensor([1])).valid.tolist() == [[True, True, True]]


def test_what_the_caller_says_about_padding_comes_first() -> None:
    ids, mask = torch.zeros(1, 3, dtype=torch.long), torch.ones(1, 3, dtype=torch.long)
    valid = torch.tensor([[False, True, True]])
    assert Batch(inputs={"input_ids": ids, "attention_mask": mask}, valid=valid).valid is valid


def test_a_mask_of_queries_against_keys_says_nothing_about_padding() -> None:
    inputs = {"input_ids": torch.zeros(2, 3, dtype=torch.long), "attention_mask": torch.ones(2, 1, 3, 3)}
    assert Batch(inputs=inputs).valid is None


class Anew:
    """A re-iterable of its own, as a task's batches are."""

    def __iter__(self) -> Iterator[Batch]:
        return iter([full_batch()])


@pytest.mark.parametrize("batches", [[full_batch()], (full_batch(),), Anew()])
def test_what_starts_anew_is_passed_on(batches: object) -> None:
    assert check_batches(batches) is batches  # pyright: ignore[reportArgumentType]  # a union that pytest hides


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ((batch for batch in [full_batch()]), "batches of type generator, which can be read only once"),
        (iter([full_batch()]), "batches of type list_iterator"),
        (map(Batch, []), "batches of type map"),
        (full_batch(), "one Batch where batches are read; expected an iterable of batches; pass [batch]"),
        (torch.zeros(2, 3), "Tensor where batches are read; expected an iterable of batches; wrap the model's inputs"),
        ({"tokens": torch.zeros(2, 3)}, "dict where batches are read"),
        (None, "NoneType where batches are read"),
    ],
)
def test_what_cannot_be_read_twice_is_refused(batches: object, message: str) -> None:
    with pytest.raises(ReiterableError) as caught:
        check_batches(batches)  # pyright: ignore[reportArgumentType]  # that is the test
    assert str(caught.value).startswith(message)


def test_a_generator_is_not_touched_before_it_is_refused() -> None:
    batches = iter([1, 2])
    with pytest.raises(ReiterableError, match=r"pass list\(batches\), or task\.batches"):
        check_batches(batches)  # pyright: ignore[reportArgumentType]  # that is the test
    assert next(batches) == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_entries_that_are_not_finite_are_counted_and_located(dtype: torch.dtype, bad: float) -> None:
    tensor = torch.zeros(2, 3, dtype=dtype)
    tensor[1, 2] = tensor[1, 0] = bad
    with pytest.raises(NonFiniteError) as caught:
        check_finite("activations", tensor)
    assert caught.value.given == ("activations of shape [2, 3] with 2 entries that are NaN or infinite, the first at [1, 0]")
    assert caught.value.do


def test_infinities_that_cancel_are_found() -> None:
    with pytest.raises(NonFiniteError, match="2 entries"):
        check_finite("x", torch.tensor([float("inf"), float("-inf")]))


def test_finite_numbers_whose_sum_overflows_are_finite() -> None:
    for tensor in (torch.full((4,), 60000.0, dtype=torch.float16), torch.full((4,), 3e38), torch.zeros(0)):
        assert check_finite("x", tensor) is tensor
