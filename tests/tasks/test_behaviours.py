"""Built-in behaviours: found by name, balanced, complete, and without a content word in common."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from invariscope.errors import UnknownNameError
from invariscope.tasks import BUILTIN_BEHAVIOURS, PairSet, builtin_pairs
from tasks.toy_tokens import WordTokens

FUNCTION_WORDS = {"the", "that", "in", "as", "of", "at", "we", "was", "because", "when", "until"}


@pytest.mark.parametrize("name", BUILTIN_BEHAVIOURS)
def test_every_behaviour_is_found_by_its_name_and_is_the_same_every_time(name: str) -> None:
    behaviour = builtin_pairs(name)
    assert behaviour.name == behaviour.train.name == behaviour.heldout.name == name
    assert behaviour == builtin_pairs(name)
    assert behaviour.summary
    assert behaviour.train.classes == behaviour.heldout.classes


@pytest.mark.parametrize("name", BUILTIN_BEHAVIOURS)
@pytest.mark.parametrize("half", ["train", "heldout"])
def test_classes_are_balanced_and_single_words_answer(name: str, half: str) -> None:
    pairs: PairSet = getattr(builtin_pairs(name), half)
    counts = Counter(pairs.label_of(pair) for pair in pairs.pairs)
    assert set(counts) == {0, 1}
    assert abs(counts[0] - counts[1]) <= 0.02 * len(pairs.pairs)
    words = WordTokens()
    found = pairs.encode(words.encode, pieces=words.pieces)
    assert not found.multi_token
    assert len({row.choices for row in found.rows}) == 1, "the margin means the same in every pair"
    assert found.notes == ()


@pytest.mark.parametrize("name", ["tense", "pronoun"])
def test_halves_share_no_content_word_and_no_prompt_stands_twice(name: str) -> None:
    behaviour = builtin_pairs(name)
    halves = []
    for pairs in (behaviour.train, behaviour.heldout):
        prompts = [pair.prompt for pair in pairs.pairs]
        assert len(set(prompts)) == len(prompts)
        halves.append({word for prompt in prompts for word in re.findall(r"[a-z]+", prompt.lower())} - FUNCTION_WORDS)
    assert not halves[0] & halves[1]


def test_classes_say_what_the_margin_means() -> None:
    tense, pronoun = builtin_pairs("tense").train, builtin_pairs("pronoun").heldout
    assert (tense.classes, tense.sides_of(tense.pairs[0])) == (("present", "past"), ((" is",), (" was",)))
    assert (tense.pairs[0].prompt, tense.pairs[0].answers, tense.pairs[0].subject) == (
        "Yesterday, the shop",
        (" was",),
        "Yesterday",
    )
    assert (pronoun.classes, pronoun.sides_of(pronoun.pairs[1])) == (("female", "male"), ((" she",), (" he",)))
    assert (pronoun.pairs[1].prompt, pronoun.pairs[1].answers) == ("The girl knew that", (" she",))


def test_every_group_has_both_classes() -> None:
    for name in ("tense", "pronoun"):
        pairs = builtin_pairs(name).train
        for group in {pair.group for pair in pairs.pairs}:
            labels = Counter(pair.label for pair in pairs.pairs if pair.group == group)
            assert len(labels) == 2
            assert len(set(labels.values())) == 1


def test_transfers_are_no_answers_of_the_pairs() -> None:
    for name in BUILTIN_BEHAVIOURS:
        behaviour = builtin_pairs(name)
        used = {text for pair in behaviour.train.pairs for text in (*pair.answers, *pair.foils)}
        for forms in behaviour.transfers.values():
            assert len(set(forms)) == 2
            assert not used & set(forms)


def test_an_unknown_name_lists_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown behaviour 'agrement'; expected one.*nearest: agreement"):
        builtin_pairs("agrement")
