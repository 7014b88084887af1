"""Positions: one meaning under every padding, and a row of knowledge for every selected token."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from invariscope.batch import Batch
from invariscope.errors import PositionError, ShapeError
from invariscope.positions import Positions, Rows, describe_positions, parse_positions, positions_of, rows_of, select_positions

# Rows of 2, 4 and 3 real tokens, padded in front, at the end, and (a gap) on both sides.
VALID = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1], [1, 1, 1, 0]], dtype=torch.bool)


def selected(positions: Positions, valid: Tensor = VALID) -> list[list[int]]:
    return select_positions(positions, valid=valid).tolist()


@pytest.mark.parametrize(
    ("positions", "expected"),
    [
        ("last", [[0, 3], [1, 3], [2, 2]]),
        ("all", [[0, 2], [0, 3], [1, 0], [1, 1], [1, 2], [1, 3], [2, 0], [2, 1], [2, 2]]),
        (0, [[0, 2], [1, 0], [2, 0]]),
        (1, [[0, 3], [1, 1], [2, 1]]),
        (-1, [[0, 3], [1, 3], [2, 2]]),
        (-2, [[0, 2], [1, 2], [2, 1]]),
        (slice(1, None), [[0, 3], [1, 1], [1, 2], [1, 3], [2, 1], [2, 2]]),
        (slice(None, -1), [[0, 2], [1, 0], [1, 1], [1, 2], [2, 0], [2, 1]]),
        (slice(None, None, 2), [[0, 2], [1, 0], [1, 2], [2, 0], [2, 2]]),
        (slice(None, None, -2), [[0, 3], [1, 1], [1, 3], [2, 0], [2, 2]]),
        (slice(2, 9), [[1, 2], [1, 3], [2, 2]]),
        (torch.tensor([[0, 0, 1, 0], [0, 0, 0, 0], [0, 1, 1, 0]], dtype=torch.bool), [[0, 2], [2, 1], [2, 2]]),
    ],
    ids=str,
)
def test_each_kind_selects_these_tokens(positions: Positions, expected: list[list[int]]) -> None:
    assert selected(positions) == expected


def test_without_padding_all_tokens_are_real() -> None:
    assert select_positions(slice(0, 3, 2), shape=(2, 3)).tolist() == [[0, 0], [0, 2], [1, 0], [1, 2]]
    everything = select_positions("all", shape=(2, 3))
    assert torch.equal(everything, select_positions("all", valid=torch.ones(2, 3, dtype=torch.bool)))


def test_indices_are_on_the_device_that_is_asked_for() -> None:
    assert select_positions("last", shape=(1, 2), device=torch.device("cpu")).device.type == "cpu"


PLACES = st.one_of(
    st.sampled_from(["last", "all"]),
    st.integers(-2, 1),
    st.builds(slice, st.none() | st.integers(-5, 5), st.none() | st.integers(-5, 5), st.none() | st.sampled_from([-2, -1, 1, 2])),
)


@given(st.lists(st.integers(2, 6), min_size=1, max_size=4), PLACES, st.integers(0, 2))
@settings(deadline=None, derandomize=True)
def test_left_and_right_padding_select_what_python_selects(lengths: list[int], positions: Positions, extra: int) -> None:
    width = max(lengths) + extra
    sequences = [[100 * row + token for token in range(length)] for row, length in enumerate(lengths)]
    in_python = {"last": slice(-1, None), "all": slice(None)}.get(positions) if isinstance(positions, str) else positions
    kept = [sorted(s[in_python]) if isinstance(in_python, slice) else [s[in_python]] for s in sequences]
    expected = [token for row in kept for token in row]
    for left in (True, False):
        pads = [[-1] * (width - length) for length in lengths]
        tokens = torch.tensor([pad + s if left else s + pad for pad, s in zip(pads, sequences, strict=True)])
        if not expected:
            with pytest.raises(PositionError, match="select no token"):
                select_positions(positions, valid=tokens >= 0)
            continue
        b, t = select_positions(positions, valid=tokens >= 0).unbind(1)
        assert tokens[b, t].tolist() == expected
        rows = rows_of(Batch(inputs={"tokens": tokens}, valid=tokens >= 0), torch.stack([b, t], 1))
        assert (100 * rows.b + rows.t).tolist() == expected, "the unpadded coordinates are not those of the sequence"


@pytest.mark.parametrize(
    ("positions", "given", "do"),
    [
        (2, "position 2 in row 0, which has 2 real tokens", "choose a smaller index"),
        (-3, "position -3 in row 0, which has 2 real tokens", "choose a smaller index"),
        ("lst", "positions 'lst'", "count from the first"),
        ("marked", "positions 'marked' without a batch that marks them", "pass positions_of(batch, 'marked')"),
        (None, "positions of type NoneType", "count from the first"),
        (True, "positions of type bool", "count from the first"),
        (1.0, "positions of type float", "count from the first"),
        ([0, 1], "positions of type list", "count from the first"),
        (slice(4, None), "positions '4::' on a batch of shape [3, 4], which select no token", "check the positions"),
        (slice(None, None, 0), "positions slice(None, None, 0), a slice that Python refuses", "give slice(start, stop)"),
        (slice("a", None), "positions slice('a', None, None), a slice that Python refuses", "give slice(start, stop)"),
        (torch.ones(3, 4), "a mask of shape [3, 4] and type torch.float32", "build the mask for this batch"),
        (torch.ones(3, 3, dtype=torch.bool), "a mask of shape [3, 3] and type torch.bool", "build the mask for this batch"),
        (torch.ones(3, 4, dtype=torch.bool), "a mask that selects padding, first at [0, 0]", "combine the mask with batch.valid"),
        (torch.zeros(3, 4, dtype=torch.bool), "positions 'mask[3, 4]' on a batch of shape [3, 4], which select", "check the"),
    ],
    ids=str,
)
def test_what_cannot_be_selected_is_said(positions: Positions, given: str, do: str) -> None:
    with pytest.raises(PositionError) as caught:
        select_positions(positions, valid=VALID)
    assert caught.value.given.startswith(given)
    assert caught.value.expected
    assert caught.value.do.startswith(do)


@pytest.mark.parametrize("positions", ["last", 0, -1])
def test_a_row_of_padding_alone_is_not_left_out_silently(positions: Positions) -> None:
    valid = torch.tensor([[True, True], [False, False]])
    with pytest.raises(PositionError, match=r"in row 1, which has 0 real tokens; expected a token that every row has"):
        select_positions(positions, valid=valid)
    assert select_positions("all", valid=valid).tolist() == [[0, 0], [0, 1]]


def test_a_mask_of_numbers_for_padding_is_refused() -> None:
    with pytest.raises(PositionError, match=r"valid of type torch.int64; expected a Boolean tensor.*attention_mask.bool\(\)"):
        select_positions("last", valid=VALID.long())


@pytest.mark.parametrize(
    "positions", ["last", "all", "marked", 0, -3, slice(None), slice(1, -1), slice(None, None, -2), slice(0, 0)]
)
def test_a_description_is_json_and_leads_back(positions: Positions) -> None:
    described = describe_positions(positions)
    assert isinstance(described, str | int)
    assert parse_positions(described) == positions


@pytest.mark.parametrize("described", ["mask[3, 4]", "", "1:2", "1:2:3:4", "a::", "--1::", "-::", "1:2:-", "²::", "Last"])
def test_what_describes_no_positions_is_refused(described: str) -> None:
    with pytest.raises(PositionError, match=r"expected 'last', 'all', 'marked', an int or a slice; pass positions="):
        parse_positions(described)


def test_a_mask_is_described_by_its_shape_but_does_not_come_back() -> None:
    assert describe_positions(VALID) == "mask[3, 4]"


# --- rows


def batch(**parts: Tensor) -> Batch:
    return Batch(inputs={"tokens": torch.zeros(3, 4, dtype=torch.long)}, valid=VALID, **parts)  # pyright: ignore[reportArgumentType]


def test_one_target_a_sequence_belongs_to_each_of_its_tokens() -> None:
    index = select_positions(slice(0, 2), valid=VALID)
    rows = rows_of(batch(targets=torch.tensor([[7], [8], [9]])), index)
    assert rows.targets.tolist() == [7, 7, 8, 8, 9, 9]


def test_one_target_a_token_belongs_to_the_token_of_the_padded_batch() -> None:
    targets = torch.arange(12).reshape(3, 4)
    rows = rows_of(batch(targets=targets), select_positions("last", valid=VALID))
    assert rows.targets.tolist() == [3, 7, 10]


def test_one_target_a_selected_token_belongs_to_them_in_order() -> None:
    targets = torch.tensor([[1, 2], [3, 4], [5, 6]])
    laws = torch.stack([targets.float(), -targets.float()], -1)
    rows = rows_of(batch(targets=targets, probabilities=laws), select_positions(slice(-2, None), valid=VALID))
    assert rows.t.tolist() == [0, 1, 2, 3, 1, 2]
    assert rows.targets.tolist() == [1, 2, 3, 4, 5, 6]
    assert rows.probabilities[:, 0].tolist() == [1, 2, 3, 4, 5, 6]
    assert rows.probabilities[:, 1].tolist() == [-1, -2, -3, -4, -5, -6]


def test_sequences_without_a_selected_token_do_not_disturb_the_order() -> None:
    mask = torch.tensor([[0, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0]], dtype=torch.bool)
    rows = rows_of(batch(targets=torch.tensor([[1, 2], [3, 4], [5, 6]])), select_positions(mask, valid=VALID))
    assert rows.b.tolist() == [1, 1]
    assert rows.targets.tolist() == [3, 4]


@pytest.mark.parametrize("name", ["targets", "probabilities"])
def test_a_number_of_targets_that_fits_nothing_is_refused(name: str) -> None:
    value = torch.zeros(3, 3, dtype=torch.long) if name == "targets" else torch.zeros(3, 3, 2)
    with pytest.raises(ShapeError) as caught:
        rows_of(batch(**{name: value}), select_positions("all", valid=VALID))
    assert caught.value.given == f"{name} with 3 entries a sequence, and [2, 3, 4] tokens selected in each"
    assert caught.value.expected == "1, 4 (one a token) or as many entries as tokens are selected"
    assert "loss positions" in caught.value.do


def test_labels_and_groups_are_those_of_the_sequence() -> None:
    index = select_positions("all", valid=VALID)
    rows = rows_of(batch(labels=torch.tensor([4, 5, 6]), groups=torch.tensor([1, 1, 2])), index)
    assert rows.labels.tolist() == [4, 4, 5, 5, 5, 5, 6, 6, 6]
    assert rows.groups.tolist() == [1, 1, 1, 1, 1, 1, 2, 2, 2]
    assert rows.num == 9


def test_without_groups_each_sequence_is_one_counted_over_all_batches() -> None:
    rows = rows_of(batch(), select_positions(slice(0, 2), valid=VALID), first_row=10)
    assert rows.b.tolist() == rows.groups.tolist() == [10, 10, 11, 11, 12, 12]
    assert rows.labels is rows.targets is rows.probabilities is rows.weights is None


def test_a_sequence_weighs_the_same_however_many_of_its_tokens_are_selected() -> None:
    weights = torch.tensor([0.2, 0.5, 0.3])
    for positions in ("all", "last", slice(1, None)):
        rows = rows_of(batch(weights=weights), select_positions(positions, valid=VALID))
        per_sequence = torch.zeros(3).index_add(0, rows.b, rows.weights)
        assert torch.allclose(per_sequence, weights)


def test_concatenated_rows_keep_only_what_every_part_knows() -> None:
    index = select_positions("last", valid=VALID)
    parts = [
        rows_of(batch(labels=torch.tensor([1, 2, 3]), targets=torch.tensor([[7], [8], [9]])), index),
        rows_of(batch(labels=torch.tensor([4, 5, 6])), index, first_row=3),
    ]
    joined = Rows.concatenate(parts)
    assert joined.b.tolist() == [0, 1, 2, 3, 4, 5]
    assert joined.labels.tolist() == [1, 2, 3, 4, 5, 6]
    assert joined.targets is None
    assert Rows.concatenate(parts[:1]).targets.tolist() == [7, 8, 9]
    assert {field.name for field in dataclasses.fields(Rows)} == {
        *("b", "t", "targets", "probabilities", "labels", "groups", "weights", "choices")
    }


def test_choices_are_those_of_the_sequence_and_padded_when_joined() -> None:
    wide, narrow = torch.arange(12).reshape(3, 2, 2), torch.arange(6).reshape(3, 2, 1) + 20
    rows = rows_of(batch(choices=wide), select_positions(slice(0, 2), valid=VALID))
    assert torch.equal(rows.choices, wide.repeat_interleave(2, 0))
    joined = Rows.concatenate([rows_of(batch(choices=c), select_positions("last", valid=VALID)) for c in (wide, narrow)])
    assert joined.choices.shape == (6, 2, 2)
    assert torch.equal(joined.choices[:3], wide)
    assert torch.equal(joined.choices[3:, :, :1], narrow)
    assert bool((joined.choices[3:, :, 1] == -1).all())


def test_rows_that_choose_between_different_numbers_of_classes_do_not_join() -> None:
    index = select_positions("last", valid=VALID)
    parts = [rows_of(batch(choices=torch.zeros(3, num, 1, dtype=torch.long)), index) for num in (3, 2)]
    with pytest.raises(ShapeError, match=r"between 2 and between 3 classes; expected one number of classes; give batches of one"):
        Rows.concatenate(parts)


# --- the batch's own marks


def test_marked_positions_are_the_mask_of_the_batch_and_others_are_untouched() -> None:
    marked = torch.tensor([[0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0]], dtype=torch.bool)
    found = positions_of(batch(marked=marked), "marked")
    assert found is marked
    assert select_positions(found, valid=VALID).tolist() == [[0, 2], [1, 1], [2, 0]]
    for positions in ("last", "all", 2, slice(1, None), VALID):
        assert positions_of(batch(marked=marked), positions) is positions
    with pytest.raises(PositionError, match="selects padding"):
        select_positions(positions_of(batch(marked=torch.ones(3, 4, dtype=torch.bool)), "marked"), valid=VALID)


@pytest.mark.parametrize(
    ("marked", "given", "do"),
    [
        (None, "positions 'marked' on a batch that marks no token", "give batches with marked="),
        (
            torch.tensor([[1], [0], [1]]).bool().expand(3, 4),
            "positions 'marked' on a batch that marks no token in row 1",
            "mark a",
        ),
    ],
)
def test_marked_positions_of_a_batch_without_marks_are_refused(marked: Tensor | None, given: str, do: str) -> None:
    with pytest.raises(PositionError) as caught:
        positions_of(dataclasses.replace(batch(), marked=marked), "marked")
    assert caught.value.given == given
    assert caught.value.expected
    assert caught.value.do.startswith(do)
