"""Agreement: what is crossed is balanced, nothing is shared between the halves, every form is the right one."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from invariscope.errors import ConfigError
from invariscope.tasks import Behaviour, Pair, PairSet, balanced_agreement, paper_agreement
from invariscope.tasks.agreement import TRANSFERS, paper_behaviour
from tasks.toy_tokens import WordTokens

FUNCTION_WORDS = {"the", "that"}


def kind_of(pair: Pair) -> str:
    return (pair.group or "").split("/")[0]


def attractor_of(pair: Pair) -> str:
    """Plural and singular nouns here differ by the last letter."""
    words = pair.prompt.split()
    return "plural" if words[4].endswith("s") else "singular"


@pytest.fixture(scope="module")
def full() -> Behaviour:
    return balanced_agreement(512, 192, seed=0)


@pytest.mark.parametrize(("half", "kinds"), [("train", (172, 172, 168)), ("heldout", (64, 64, 64))])
def test_kinds_and_crossed_numbers_are_balanced(full: Behaviour, half: str, kinds: tuple[int, ...]) -> None:
    pairs: PairSet = getattr(full, half)
    assert len(pairs.pairs) == sum(kinds)
    for kind, num in zip(("simple", "prepositional", "relative"), kinds, strict=True):
        chosen = [pair for pair in pairs.pairs if kind_of(pair) == kind]
        assert Counter(pair.label for pair in chosen) == {"singular": num // 2, "plural": num // 2}
        if kind != "simple":
            cells = Counter((pair.label, attractor_of(pair)) for pair in chosen)
            assert cells == dict.fromkeys(itertools.product(("singular", "plural"), repeat=2), num // 4)


def test_no_prompt_stands_twice_and_no_content_word_in_both_halves(full: Behaviour) -> None:
    words = []
    for half in (full.train, full.heldout):
        prompts = [pair.prompt for pair in half.pairs]
        assert len(set(prompts)) == len(prompts)
        found = {word.lower() for prompt in prompts for word in prompt.split()} - FUNCTION_WORDS
        words.append({word.rstrip("s") for word in found})
    assert not words[0] & words[1]


def test_the_answer_agrees_with_the_subject_and_the_margin_is_plural_minus_singular(full: Behaviour) -> None:
    for pairs in (full.train, full.heldout, paper_agreement()):
        assert pairs.classes == ("singular", "plural")
        for pair in pairs.pairs:
            noun = (pair.group or "").split("/")[1]
            plural = pair.label == "plural"
            assert pair.subject == (f"{noun}{'es' if noun == 'box' else 's'}" if plural else noun)
            assert (pair.answers, pair.foils) == (((" are",), (" is",)) if plural else ((" is",), (" are",)))
            assert pair.prompt.startswith("The ")
            assert pair.subject in pair.prompt.split()
            assert pairs.sides_of(pair) == ((" is",), (" are",))


def test_the_subject_is_marked(full: Behaviour) -> None:
    words = WordTokens()
    found = full.heldout.encode(words.encode, pieces=words.pieces)
    marked = [words.pieces([row.prompt[row.marked]])[0].lstrip("Ġ") for row in found.rows]
    assert marked == [pair.subject for pair in full.heldout.pairs]
    assert found.notes == ()


def test_equal_seeds_give_equal_prompts_and_others_do_not() -> None:
    for build in (lambda seed: balanced_agreement(48, 24, seed).train, paper_agreement):
        assert build(3) == build(3)
        assert build(3) != build(4)


def test_transfers_name_plural_and_singular(full: Behaviour) -> None:
    assert full.transfers == TRANSFERS
    for plural, singular in full.transfers.values():
        other = full.heldout.with_answers(singular, plural)
        pair = next(pair for pair in other.pairs if pair.label == "plural")
        assert (pair.answers, pair.foils) == ((plural,), (singular,))
        assert [p.prompt for p in other.pairs] == [p.prompt for p in full.heldout.pairs]


@pytest.mark.parametrize("num", [0, 8, 13, 510, True, 12.0])
def test_numbers_that_cannot_be_balanced_are_refused(num: int) -> None:
    with pytest.raises(ConfigError) as caught:
        balanced_agreement(num, 192)
    assert caught.value.given == f"{num!r} prompts to extract from"
    assert caught.value.expected.startswith("a multiple of 4, at least 12")
    with pytest.raises(ConfigError, match="held-out prompts"):
        balanced_agreement(512, num)


def test_the_papers_prompts_have_an_attractor_of_the_other_number() -> None:
    pairs = paper_agreement().pairs
    assert len(pairs) == 1200
    assert Counter(pair.label for pair in pairs) == {"singular": 600, "plural": 600}
    assert all(attractor_of(pair) != pair.label for pair in pairs)
    times = Counter(Counter(pair.prompt for pair in pairs).values())
    assert times == {1: 2 * (486 - 114), 2: 2 * 114}
    singular = [pair.prompt.split() for pair in pairs if pair.label == "singular"]
    assert [len({words[i] for words in singular}) for i in (1, 2, 4)] == [9, 6, 9]


def test_the_papers_halves_share_no_head() -> None:
    behaviour = paper_behaviour(1)
    groups = [{pair.group for pair in half.pairs} for half in (behaviour.train, behaviour.heldout)]
    assert [len(part) for part in groups] == [5, 4]
    assert not groups[0] & groups[1]
    assert len(behaviour.train.pairs) + len(behaviour.heldout.pairs) == 1200
