"""Encoded pairs: batches for extraction, rows for teacher forcing, splits by group; and marked positions end to end."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import invariscope as iv
from invariscope.errors import ConfigError, PairsError, TooFewSamplesError
from invariscope.tasks import EncodedPair, EncodedPairs, Pair, PairSet, alternative_scores, check_no_common_group
from tasks.toy_tokens import WordTokens


def pair(prompt: str, answers: Any = " are", foils: Any = " is", **fields: Any) -> Pair:
    return Pair(prompt=prompt, answers=answers, foils=foils, **fields)


SET = PairSet(
    [
        pair(
            "The keys near the old cabinet",
            position="subject",
            subject="keys",
            group="a",
            transfer_answers=" have",
            transfer_foils=" has",
        ),
        pair("The key", " is", " are", group="b", transfer_answers=" has", transfer_foils=" have"),
        pair("They", group="a", transfer_answers=" have", transfer_foils=" has"),
    ]
)


def encoded(pairs: PairSet = SET) -> EncodedPairs:
    words = WordTokens()
    return pairs.encode(words.encode, pieces=words.pieces)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_batches_hold_every_pair_in_file_order(side: Literal["left", "right"], batch_size: int) -> None:
    found = encoded()
    batches = found.batches(batch_size, side=side, pad_id=9)
    assert [batch.num_rows for batch in batches] == {1: [1, 1, 1], 2: [2, 1], 5: [3]}[batch_size]
    rows = [ids[keep].tolist() for batch in batches for ids, keep in zip(batch.inputs["input_ids"], batch.valid, strict=True)]
    assert rows == [list(row.prompt) for row in found.rows]
    assert torch.equal(torch.cat([batch.choices for batch in batches]), found.choices)
    assert torch.cat([batch.labels for batch in batches]).tolist() == [1, 0, 1]
    assert torch.cat([batch.groups for batch in batches]).tolist() == [0, 1, 0]
    marked = [ids[mark].tolist() for batch in batches for ids, mark in zip(batch.inputs["input_ids"], batch.marked, strict=True)]
    assert marked == [[row.prompt[row.marked]] for row in found.rows]
    right = [row.choices[row.label or 0][0] for row in found.rows]
    assert torch.cat([batch.targets for batch in batches])[:, 0].tolist() == right


def test_transfer_changes_the_choices_alone() -> None:
    found = encoded()
    plain, other = found.batches(5)[0], found.batches(5, transfer=True)[0]
    assert torch.equal(other.choices, found.transfer)
    assert not torch.equal(other.choices, plain.choices)
    assert torch.equal(other.labels, plain.labels)
    assert torch.equal(other.inputs["input_ids"], plain.inputs["input_ids"])
    without = encoded(PairSet([pair("a", transfer_answers=" x", transfer_foils=" y"), pair("b", " is", " are")]))
    assert without.transfer is None
    with pytest.raises(
        PairsError, match="the second answers of pairs, which some pair does not have; expected answer2 and foil2"
    ):
        without.batches(2, transfer=True)


def test_pairs_without_classes_have_no_labels_and_the_answer_is_right() -> None:
    found = encoded(PairSet([pair("a", " x", " y"), pair("b", " u", (" v", " w"))]))
    [batch] = found.batches(4)
    assert batch.labels is found.labels is None
    assert batch.choices[0, :, 1].tolist() == [-1, -1]
    assert batch.choices.shape == (2, 2, 2)
    assert torch.equal(batch.targets[:, 0], batch.choices[:, 1, 0])


@pytest.mark.parametrize("size", [0, True, 2.0])
def test_a_batch_size_that_is_none_is_refused(size: Any) -> None:
    for make in (encoded().batches, encoded().expanded):
        with pytest.raises(ConfigError, match=r"a batch size of .*; expected at least 1; use 64"):
            make(size)


# --- several tokens


LONG = PairSet([pair("It", (" was very old", " was new"), " was not"), pair("They", " were", " are not")])


def law_of(ids: Tensor) -> Tensor:
    """Logits that depend on every token so far."""
    seen = torch.nn.functional.one_hot(ids, 16).double().cumsum(1)
    mixing = torch.randn(16, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return seen @ mixing


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("batch_size", [2, 10])
def test_summed_log_probabilities_are_those_of_the_text_by_hand(side: Literal["left", "right"], batch_size: int) -> None:
    found = encoded(LONG)
    expanded = found.expanded(batch_size, side=side, pad_id=0)
    scores = []
    for part in expanded:
        # Padding must not be seen by this model, which has no mask: count real tokens only.
        ids, mask = part.batch.inputs["input_ids"], part.batch.inputs["attention_mask"]
        logits = torch.zeros(*ids.shape, 16, dtype=torch.float64)
        for i, keep in enumerate(mask.bool()):
            logits[i, keep] = law_of(ids[i : i + 1, keep])[0]
        scores.append(alternative_scores(logits, part))
    by_hand = torch.full((2, 2), -torch.inf, dtype=torch.float64)
    for n, row in enumerate(found.rows):
        for c, side_ in enumerate(row.continuations):
            for tokens in side_:
                ids = torch.tensor([[*row.prompt, *tokens]])
                law = law_of(ids)[0].log_softmax(-1)
                total = sum(law[len(row.prompt) - 1 + j, token] for j, token in enumerate(tokens))
                by_hand[n, c] = torch.logaddexp(by_hand[n, c], torch.as_tensor(total))
    torch.testing.assert_close(found.class_scores(scores, expanded), by_hand)


def test_expanded_rows_say_where_they_belong_and_where_the_choice_is() -> None:
    found = encoded(LONG)
    [part] = found.expanded(10)
    assert part.pairs.tolist() == [0, 0, 0, 1, 1]
    assert part.classes.tolist() == [0, 1, 1, 0, 1]
    assert part.batch.marked.sum(1).tolist() == [1] * 5
    first = part.batch.targets[part.batch.marked]
    assert first.tolist() == [side[0] for row in found.rows for c in row.continuations for side in c]
    scored = (part.batch.targets >= 0).sum(1)
    assert scored.tolist() == [1, 2, 1, 2, 1]
    assert part.batch.groups.tolist() == [0, 0, 0, 1, 1]


# --- splits


def rows_of(labels: list[int], groups: list[int]) -> EncodedPairs:
    rows = tuple(
        EncodedPair(
            prompt=(i,),
            choices=((1,), (2,)),
            continuations=(((1,),), ((2,),)),
            label=y,
            group=g,
            group_name=f"g{g}",
            marked=0,
            line=i,
        )
        for i, (y, g) in enumerate(zip(labels, groups, strict=True))
    )
    return EncodedPairs(rows=rows, classes=("x", "y"))


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 6)), min_size=8, max_size=40), st.floats(0.2, 0.8), st.integers(0, 99)
)
@settings(deadline=None, derandomize=True)
def test_a_split_never_breaks_a_group_and_loses_no_row(drawn: list[tuple[int, int]], share: float, seed: int) -> None:
    found = rows_of([y for y, _ in drawn], [g for _, g in drawn])
    try:
        fit, heldout = found.split(share, seed)
    except TooFewSamplesError:
        return
    assert not {row.group for row in fit.rows} & {row.group for row in heldout.rows}
    assert sorted([*fit.rows, *heldout.rows], key=lambda row: row.line or 0) == list(found.rows)
    for part in (fit, heldout):
        assert {row.label for row in part.rows} == {y for y, _ in drawn}
        assert [row.line for row in part.rows] == sorted(row.line or 0 for row in part.rows)


def test_where_rows_are_groups_the_classes_are_held_out_in_their_share() -> None:
    found = rows_of([0] * 30 + [1] * 10, list(range(40)))
    for seed in range(5):
        heldout = found.split(0.3, seed)[1]
        assert [sum(row.label == y for row in heldout.rows) for y in (0, 1)] == [9, 3]
    assert found.split(0.3, 1) == found.split(0.3, 1)
    assert found.split(0.3, 1) != found.split(0.3, 2)


def test_a_split_that_loses_a_class_is_refused() -> None:
    with pytest.raises(TooFewSamplesError) as caught:
        rows_of([0, 0, 1, 1], [0, 0, 1, 1]).split(0.5)
    assert caught.value.given == "2 groups of pairs, of which a share of 0.5 is to be held out"
    assert caught.value.expected == "every class in groups on either side"
    assert caught.value.do.startswith("give more groups of each class")


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match=r"expected a number between 0 and 1; use 0.3"):
        rows_of([0, 1], [0, 1]).split(share)


def test_a_group_or_prompt_in_both_halves_is_named() -> None:
    found = rows_of([0, 1, 0, 1], [0, 1, 2, 3])
    fit, heldout = found.split(0.5)
    check_no_common_group(fit, heldout)
    leaking = dataclasses.replace(heldout, rows=(*heldout.rows, dataclasses.replace(fit.rows[0], prompt=(77,))))
    with pytest.raises(PairsError, match=rf"the group '{fit.rows[0].group_name}' in both halves; expected groups on one side"):
        check_no_common_group(fit, leaking)
    leaking = dataclasses.replace(heldout, rows=(dataclasses.replace(fit.rows[0], group_name=None),))
    with pytest.raises(PairsError, match=r"the prompt of line \d in both halves"):
        check_no_common_group(fit, leaking)


# --- the whole way


class Reader(nn.Module):
    """Running sums of embedded tokens: the last token sees all before it."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.table = nn.Parameter(torch.randn(16, 6, generator=generator))
        self.state, self.mixed = nn.Identity(), nn.Identity()
        self.head = nn.Parameter(torch.randn(6, 16, generator=generator))

    def forward(self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor) -> Tensor:
        state = self.state(self.table[input_ids] * attention_mask[..., None])
        return self.mixed(state.cumsum(1).tanh()) @ self.head


@pytest.mark.parametrize("side", ["left", "right"])
def test_marked_tokens_are_read_and_edited_wherever_padding_stands(side: Literal["left", "right"]) -> None:
    model, found = Reader(), encoded()
    batches = found.batches(2, side=side)
    options: dict[str, Any] = {"positions": "marked", "outputs_at": "last", "objective": iv.choices()}
    moments = iv.collect_moments(model, batches, sites=["module:state"], **options)["module:state"]
    assert moments.num_samples == 3
    marked = torch.stack([model.table[row.prompt[row.marked]] for row in found.rows]).detach().double()
    core = moments.core(rank=1, projection="activation")
    torch.testing.assert_close(core.mean, marked.mean(0))
    assert (core.provenance.positions, core.provenance.outputs_at) == ("marked", "last")
    effects = iv.validate_core(core, model, batches, metrics=(iv.auc(iv.choices()),))
    assert 0 <= effects["core", "keep", "auc"].value <= 1


def test_both_padding_sides_give_one_core() -> None:
    cores = [
        iv.extract_core(
            Reader(),
            encoded().batches(2, side=side),
            site="module:state",
            objective=iv.choices(),
            positions="marked",
            outputs_at="last",
            rank=1,
        )
        for side in ("left", "right")
    ]
    torch.testing.assert_close(cores[0].write, cores[1].write)
