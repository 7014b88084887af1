"""The border between prompt and answer, what answers share, the token that is meant; and what a tokeniser cannot tell apart."""

from __future__ import annotations

from typing import Any

import pytest

from invariscope.errors import PairsError
from invariscope.tasks import EncodedPairs, Pair, PairSet
from tasks.toy_tokens import WordTokens


def encoded(*pairs: Pair, words: WordTokens | None = None, **options: Any) -> tuple[EncodedPairs, WordTokens]:
    words = words or WordTokens()
    return PairSet(pairs).encode(words.encode, pieces=words.pieces, **options), words


def pair(prompt: str = "The old keys", answers: Any = " are", foils: Any = " is", **fields: Any) -> Pair:
    return Pair(prompt=prompt, answers=answers, foils=foils, **fields)


ONE = pair("The old key", " is", " are")


def test_prompt_and_choices_are_tokens_of_the_text() -> None:
    found, words = encoded(pair(), ONE)
    assert [words.pieces(row.prompt) for row in found.rows] == [
        ["<bos>", "The", "Ġold", "Ġkeys"],
        ["<bos>", "The", "Ġold", "Ġkey"],
    ]
    sides = [[words.pieces(side) for side in row.choices] for row in found.rows]
    assert sides == [[["Ġis"], ["Ġare"]]] * 2
    assert [row.label for row in found.rows] == [1, 0]
    assert [row.marked for row in found.rows] == [3, 3]
    assert not found.multi_token
    assert found.notes == ()


def test_a_space_at_the_end_of_the_prompt_is_read_with_the_answer() -> None:
    spaced, words = encoded(pair("The old keys ", "are", "is"), pair("The old key ", "is", "are"))
    plain, _ = encoded(pair(), ONE, words=words)
    assert [(row.prompt, row.choices) for row in spaced.rows] == [(row.prompt, row.choices) for row in plain.rows]
    assert spaced.notes == ("the space at the end of the prompt is read as the beginning of the answers in 2 of 2 pairs",)


def test_what_all_alternatives_begin_with_goes_to_the_prompt() -> None:
    found, words = encoded(pair("It", (" was very old", " was new"), " was not", position="last"))
    [row] = found.rows
    assert words.pieces(row.prompt) == ["<bos>", "It", "Ġwas"]
    assert [words.pieces(side) for side in row.choices] == [["Ġnot"], ["Ġvery", "Ġnew"]]
    assert [[words.pieces(tokens) for tokens in side] for side in row.continuations] == [
        [["Ġnot"]],
        [["Ġvery", "Ġold"], ["Ġnew"]],
    ]
    assert row.marked == 2
    assert found.multi_token
    assert found.notes[0] == "what answers and foils begin with is appended to the prompt in 1 of 1 pairs"
    assert "summed log-probability" in found.notes[1]


def test_alternatives_that_begin_alike_on_one_side_are_one_choice() -> None:
    found, words = encoded(pair("It", (" was old", " was new"), " is"))
    assert [words.pieces(side) for side in found.rows[0].choices] == [["Ġis"], ["Ġwas"]]
    assert len(found.rows[0].continuations[1]) == 2


@pytest.mark.parametrize(
    ("position", "subject", "marked"),
    [
        ("last", None, "Ġcabinets"),
        ("subject", "key", "Ġkey"),
        ("subject", "old key", "Ġkey"),
        ("subject", "The", "The"),
        ("subject", "cabinets", "Ġcabinets"),
        (0, None, "<bos>"),
        (2, None, "Ġold"),
        (-1, None, "Ġcabinets"),
        (-7, None, "<bos>"),
    ],
)
def test_the_marked_token_is_the_one_that_is_meant(position: Any, subject: Any, marked: str) -> None:
    prompt = "The old key near the cabinets"
    found, words = encoded(pair(prompt, " it is", " it has", position=position, subject=subject))
    [row] = found.rows
    shown = words.pieces(row.prompt)
    assert shown[-1] == "Ġit"
    # What the answers share has become the end of the prompt, and "last" follows it there; an index does not.
    assert shown[row.marked] == ("Ġit" if position == "last" else marked)


def test_a_subject_is_a_whole_word() -> None:
    found, words = encoded(pair("The keys of the key", position="subject", subject="key"))
    assert words.pieces(found.rows[0].prompt)[found.rows[0].marked] == "Ġkey"


def test_transfer_answers_have_the_same_orientation() -> None:
    found, words = encoded(
        pair(transfer_answers=(" were", " have"), transfer_foils=" was"),
        pair("The old key", " is", " are", transfer_answers=" was", transfer_foils=" were"),
    )
    assert [[words.pieces(side) for side in row.transfer or ()] for row in found.rows] == [
        [["Ġwas"], ["Ġwere", "Ġhave"]],
        [["Ġwas"], ["Ġwere"]],
    ]


def test_with_more_classes_every_pair_chooses_between_all_of_them() -> None:
    found, words = encoded(
        pair("a", " x", " y", label="1", transfer_answers=" u", transfer_foils=" v"),
        pair("b", (" y", " yy"), " z", label="2", transfer_answers=" v", transfer_foils=" u"),
        pair("c", " z", " x", label="3", transfer_answers=" w", transfer_foils=" u"),
    )
    assert found.num_classes == 3
    assert [[words.pieces(side) for side in row.choices] for row in found.rows] == [[["Ġx"], ["Ġy", "Ġyy"], ["Ġz"]]] * 3
    assert [[words.pieces(side) for side in row.transfer or ()] for row in found.rows] == [[["Ġu"], ["Ġv"], ["Ġw"]]] * 3


def test_groups_are_names_or_prompts_numbered_as_they_come() -> None:
    found, _ = encoded(
        pair("a", group="g"), pair("b", " is", " are"), pair("c", group="h"), pair("d", group="g"), pair("b", " is", " are")
    )
    assert [row.group for row in found.rows] == [0, 1, 2, 0, 1]
    assert [row.group_name for row in found.rows] == ["g", None, "h", "g", None]


@pytest.mark.parametrize(
    ("given_", "options", "message", "do"),
    [
        (
            pair("The key", "s", ("board", " is"), line=4),
            {},
            "line 4: 'board', which this tokeniser merges with the text before it: '<bos>' 'The' 'Ġkey' becomes "
            "'<bos>' 'The' 'Ġkeyboard'",
            "end the prompt at a word",
        ),
        (
            pair("It", " was", " was not", line=4),
            {},
            "line 4: an answer and a foil that share every token of the shorter one: 'Ġwas' 'Ġnot'; 'Ġwas'",
            "choose others",
        ),
        (
            pair("It", (" was old", " is"), " was new", line=4),
            {},
            "line 4: answers and foils that begin alike, but not all of them: 'Ġwas' 'Ġnew'; 'Ġwas' 'Ġold'; 'Ġis'",
            "put these alternatives in rows",
        ),
        (
            pair(transfer_answers=" has been", transfer_foils=" has gone", line=4),
            {},
            "line 4: second answers and foils whose first tokens do not tell them apart: 'Ġhas' 'Ġgone'; 'Ġhas' 'Ġbeen'",
            "choose others",
        ),
        (
            pair("It", " was old", " was new", transfer_answers=" is", transfer_foils=" has", line=4),
            {},
            "line 4: second answers and foils whose first tokens do not tell them apart: 'Ġhas'; 'Ġis'",
            "choose others",
        ),
        (
            pair(position="subject", subject="key", line=4),
            {},
            "line 4: the subject 'key', which is not in the prompt",
            "correct the column subject",
        ),
        (pair(position=4, line=4), {}, "line 4: the position 4 in a prompt of 4 tokens", "choose a token of the prompt"),
        (pair(position=-5, line=4), {}, "line 4: the position -5 in a prompt of 4 tokens", "choose a token of the prompt"),
        (
            pair(answers=" are not", line=4),
            {"context_length": 5},
            "line 4: a prompt of 4 tokens with 2 of an answer",
            "shorten the prompt",
        ),
    ],
)
def test_what_a_tokeniser_cannot_tell_apart_is_refused_with_its_pieces(
    given_: Pair, options: dict[str, Any], message: str, do: str
) -> None:
    with pytest.raises(PairsError) as caught:
        encoded(given_, **options)
    assert caught.value.given == message
    assert caught.value.expected
    assert caught.value.do.startswith(do)


def test_a_prompt_that_just_fits_is_taken() -> None:
    assert len(encoded(pair(), context_length=5)[0].rows) == 1


def test_without_pieces_messages_show_ids() -> None:
    with pytest.raises(PairsError, match="share every token of the shorter one: 2 3; 2;"):
        PairSet([pair("It", " was", " was not")]).encode(WordTokens().encode)


def test_a_tokeniser_that_ends_every_text_with_a_token_of_its_own_is_refused() -> None:
    words = WordTokens()
    with pytest.raises(PairsError, match="which this tokeniser merges with the text before it"):
        PairSet([pair()]).encode(lambda text: [*words.encode(text), 99])
