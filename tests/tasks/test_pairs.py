"""Pairs: spaces, classes, orientation; and what is no pair is refused with its line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.errors import PairsError
from invariscope.tasks import Pair, PairSet


def pair(prompt: str = "The keys", answers: Any = " are", foils: Any = " is", **fields: Any) -> Pair:
    return Pair(prompt=prompt, answers=answers, foils=foils, **fields)


def test_a_space_is_put_before_answers_only_where_none_is_meant_by_anyone() -> None:
    given_ = [
        pair("The keys", "are", "is"),
        pair("The key ", "is", "are"),  # the prompt has it
        pair("The key", " is", "are"),  # somebody thought of spaces
        pair("The keys\n", "are", "is"),
        pair("The keys", ("are", "were"), ("is", "was"), transfer_answers="have", transfer_foils="has"),
        pair("The keys", " are", " is", transfer_answers="have", transfer_foils="has"),
    ]
    found = PairSet(given_)
    assert [p.answers for p in found.pairs] == [(" are",), ("is",), (" is",), ("are",), (" are", " were"), (" are",)]
    assert [p.foils for p in found.pairs] == [(" is",), ("are",), ("are",), ("is",), (" is", " was"), (" is",)]
    assert [p.transfer_answers for p in found.pairs][4:] == [(" have",), (" have",)]
    assert found.notes == ("a space is put before the answers and foils of 3 of 6 pairs",)
    as_written = PairSet(given_, add_space=False)
    assert [p.answers for p in as_written.pairs] == [p.answers for p in given_]
    assert as_written.notes == ()


@given(st.text(min_size=1, max_size=5), st.text("ab ", min_size=1, max_size=3), st.text("cd ", min_size=1, max_size=3))
@settings(deadline=None, derandomize=True)
def test_spacing_twice_is_spacing_once(prompt: str, answer: str, foil: str) -> None:
    if not (prompt.strip() and answer.strip() and foil.strip()):
        return
    once = pair(prompt, answer, foil).spaced()
    assert once.spaced() == once
    assert once.answers[0].lstrip() == answer.lstrip()


def test_one_choice_in_all_pairs_makes_two_classes_the_first_answer_positive() -> None:
    pairs = PairSet([pair("a", " x", " y"), pair("b", " y", " x"), pair("c", " x", " y")])
    assert pairs.classes == (" y", " x")
    assert [pairs.label_of(p) for p in pairs.pairs] == [1, 0, 1]
    assert [pairs.sides_of(p) for p in pairs.pairs] == [((" y",), (" x",))] * 3


def test_alternatives_count_as_a_set_but_keep_their_order() -> None:
    pairs = PairSet([pair("a", (" x", " z"), " y"), pair("b", " y", (" x", " z"))])
    assert pairs.classes == (" y", " x| z")
    assert [pairs.label_of(p) for p in pairs.pairs] == [1, 0]


def test_different_choices_make_no_classes_and_the_answer_is_positive() -> None:
    pairs = PairSet([pair("a", " x", " y"), pair("b", " u", " v")])
    assert pairs.classes == ()
    assert pairs.num_classes == 2
    assert [pairs.label_of(p) for p in pairs.pairs] == [None, None]
    assert [pairs.sides_of(p) for p in pairs.pairs] == [((" y",), (" x",)), ((" v",), (" u",))]


def test_labels_are_classes_in_order_of_appearance_or_as_told() -> None:
    rows = [pair("a", " x", " y", label="many"), pair("b", " v", " u", label="one"), pair("c", " y", " x", label="one")]
    pairs = PairSet(rows)
    assert pairs.classes == ("many", "one")
    assert [pairs.sides_of(p) for p in pairs.pairs] == [((" x",), (" y",)), ((" u",), (" v",)), ((" x",), (" y",))]
    told = PairSet(rows, classes=("one", "many"))
    assert [told.label_of(p) for p in told.pairs] == [1, 0, 0]
    assert told.sides_of(told.pairs[0]) == ((" y",), (" x",))


THREE = [
    pair("2 and 2 is", " four", " six", label="4"),
    pair("3 and 3 is", " six", " four", label="6"),
    pair("1 and 1 is", " two", " four", label="2"),
    pair("5 and 1 is", (" six", " VI"), " two", label="6"),
]


def test_with_more_classes_each_has_the_answers_of_its_pairs() -> None:
    pairs = PairSet(THREE)
    assert (pairs.num_classes, pairs.classes) == (3, ("4", "6", "2"))
    assert [pairs.sides_of(p) for p in pairs.pairs] == [((" four",), (" six", " VI"), (" two",))] * 4
    assert [pairs.label_of(p) for p in pairs.pairs] == [0, 1, 2, 1]


def test_other_answers_go_to_the_same_classes() -> None:
    pairs = PairSet([pair("a", " x", " y", transfer_answers=" p", transfer_foils=" q"), pair("b", " y", " x")])
    other = pairs.with_answers(" has", " have")
    assert other.classes == pairs.classes
    assert [(p.prompt, p.answers, p.foils) for p in other.pairs] == [("a", (" have",), (" has",)), ("b", (" has",), (" have",))]
    assert [other.label_of(p) for p in other.pairs] == [1, 0]
    assert other.pairs[0].transfer_answers == ()
    with pytest.raises(PairsError, match="other answers for pairs, which has 3 classes; expected pairs with two classes; give"):
        PairSet(THREE).with_answers(" a", " b")


@pytest.mark.parametrize(
    ("fields", "given_", "do"),
    [
        ({"prompt": " "}, "an empty prompt", "give the words before the answer"),
        ({"answers": ""}, "an empty answer", "fill it"),
        ({"foils": ()}, "an empty foil", "fill it"),
        ({"answers": (" are", " ")}, "an empty answer", "fill it"),
        ({"transfer_answers": " have"}, "an empty second foil", "fill it"),
        ({"foils": "are"}, "the answer 'are', which is also the foil", "change the foil"),
        ({"transfer_answers": " x", "transfer_foils": (" y", " x")}, "the second answer 'x', which is also", "change the foil"),
        ({"position": "first"}, "the position 'first'", "count the prompt's tokens"),
        ({"position": True}, "the position True", "count the prompt's tokens"),
        ({"position": "subject"}, "the position subject without a subject", "name the word that is meant"),
    ],
)
def test_what_is_no_pair_is_refused_with_its_line(fields: dict[str, Any], given_: str, do: str) -> None:
    with pytest.raises(PairsError) as caught:
        pair(line=7, **fields)
    assert caught.value.given.startswith(f"line 7: {given_}")
    assert caught.value.expected
    assert caught.value.do.startswith(do)


def test_a_pair_made_in_python_is_named_by_the_end_of_its_prompt() -> None:
    with pytest.raises(PairsError, match=r"^the pair '\.\.\.x{60}': an empty foil"):
        pair("y" + "x" * 99, foils="")


@pytest.mark.parametrize(
    ("rows", "given_", "do"),
    [
        ([], "pairs without a pair", "add rows below the header"),
        ([pair("a"), pair("b")], "2 pairs of pairs, all with the answer ' are'", "add prompts whose answer is ' is'"),
        ([pair("a", label="one"), pair("b", " is", " are", line=3)], "line 3: no label, and other pairs have one", "fill the"),
        ([pair("a", label="one"), pair("b", label="one")], "2 pairs, all with the label 'one'", "add pairs of another class"),
        (
            [pair("a", label="one"), pair("b", " is", " are", label="one", line=3), pair("c", " is", " are", label="two")],
            "line 3: the answer ' is' with the label 'one', which is the foil of others of that label",
            "exchange answer and foil",
        ),
        (
            [*THREE[:3], pair("d", " four", " two", label="6", line=5)],
            "line 5: the answer ' four' of the class '6', which is also one of '4'",
            "change the label",
        ),
        (
            [*THREE[:3], pair("d", " six", " nine", label="6", line=5)],
            "line 5: the foil ' nine', which is the answer of no other class",
            "use the answer of a row with another label",
        ),
    ],
)
def test_pairs_that_make_no_choice_are_refused(rows: list[Pair], given_: str, do: str) -> None:
    with pytest.raises(PairsError) as caught:
        PairSet(rows)
    assert caught.value.given.startswith(given_)
    assert caught.value.expected
    assert caught.value.do.startswith(do)


def test_classes_that_are_not_the_labels_are_refused() -> None:
    rows = [pair("a", label="one"), pair("b", " is", " are", label="two")]
    with pytest.raises(PairsError, match="classes one, three of pairs whose labels are one, two; expected the same names; name"):
        PairSet(rows, classes=("one", "three"))
