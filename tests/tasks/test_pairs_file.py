"""PAIRS.csv: what its cells mean, and every mistake in it with the line on which it stands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.errors import ForeignFileError, InvariscopeError, PairsError
from invariscope.tasks import PairSet, parse_pairs, read_pairs
from invariscope.tasks.pairs_file import COLUMNS, MAX_BYTES

PLAIN = "prompt,answer,foil\nThe keys, are, is\nThe key, is, are\n"


def written(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "number.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_every_column_arrives_where_it_belongs(tmp_path: Path) -> None:
    table = (
        " Label ,prompt,answer,foil,group,position,subject,answer2,foil2\n"
        "many,The keys, are| were, is| was, g1 , subject ,keys, have, has\n"
        "\n"
        'one,"The ""key"", then\nnothing", is, are,g2,-2,,,\n'
        "one,The key, is, are,,,,,\n"
    )
    pairs = read_pairs(written(tmp_path, table))
    assert pairs.name == "number"
    assert pairs.classes == ("many", "one")
    first, second, third = pairs.pairs
    assert (first.prompt, first.answers, first.foils) == ("The keys", (" are", " were"), (" is", " was"))
    assert (first.group, first.position, first.subject, first.line) == ("g1", "subject", "keys", 2)
    assert (first.transfer_answers, first.transfer_foils) == ((" have",), (" has",))
    assert (second.prompt, second.position, second.line) == ('The "key", then\nnothing', -2, 4)
    assert (third.group, third.position, third.transfer_answers, third.line) == (None, "last", (), 6)


def test_three_lines_are_a_table(tmp_path: Path) -> None:
    pairs = read_pairs(written(tmp_path, "prompt,answer,foil\nThe keys,are,is\nThe key,is,are"), name="mine")
    assert (pairs.name, len(pairs.pairs)) == ("mine", 2)
    assert pairs.pairs[0].answers == (" are",)
    assert read_pairs(written(tmp_path, "prompt,answer,foil\na,b,c\nd,c,b"), add_space=False).pairs[0].answers == ("b",)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_byte_order_marks_change_nothing(tmp_path: Path, ending: str, mark: bytes) -> None:
    assert read_pairs(written(tmp_path, mark + PLAIN.replace("\n", ending).encode()), name="pairs") == parse_pairs(PLAIN)


def test_other_alphabets_are_text(tmp_path: Path) -> None:
    pairs = read_pairs(written(tmp_path, "prompt,answer,foil\nDie Schlüssel, sind, ist\nDer Schlüssel, ist, sind\n"))
    assert pairs.pairs[1].prompt == "Der Schlüssel"


@pytest.mark.parametrize(
    ("table", "given_", "do"),
    [
        ("", "line 1: no column 'prompt' among none", "write them into the first row"),
        ("prompt,answer,foil\n", "pairs without a pair", "add rows below the header"),
        (
            "prompt,anser,foil\na,b,c\n",
            "line 1: no column 'answer' among prompt, anser, foil",
            "write them into the first row; nearest: anser",
        ),
        ("The keys, are, is\n", "line 1: no column 'prompt' among the keys, are, is", "write them into the first row; nearest"),
        ("prompt;answer;foil\na;b;c\n", "line 1: the columns 'prompt;answer;foil' in one cell", "save the table with commas"),
        ("prompt,answer,foil,foil\n", "line 1: the column 'foil' twice", "remove one of them"),
        ("prompt,answer,foil,split\n", "line 1: a column 'split'", "remove it, and say with the column group"),
        ("prompt,answer,foil,anwser2\n", "line 1: an unknown column 'anwser2'", "rename or remove it; nearest: answer2"),
        (PLAIN + "The door, is, are, x\n", "line 4: 4 cells with 3 columns", "put a cell that holds a comma"),
        (PLAIN + "The door, is\n", "line 4: an empty foil", "fill it"),
        (PLAIN + ", is, are\n", "line 4: an empty prompt", "give the words"),
        (PLAIN + "The door, is|, are\n", "line 4: an empty answer", "fill it"),
        (PLAIN + "The door, is,is \n", "line 4: the answer 'is', which is also the foil", "change the foil"),
        (PLAIN + '"The door, is, are\n', "line 4: no row of a table (unexpected end of data)", "close the quotes"),
        (PLAIN + '"The" door, is, are\n', "line 4: no row of a table (',' expected after '\"')", "close the quotes"),
        (PLAIN + "x" * 140_000 + ", is, are\n", "line 4: no row of a table (field larger than field limit", "close the quotes"),
        ("prompt,answer,foil,position\na, b, c,first\n", "line 2: the position 'first'", "count the prompt's tokens"),
        ("prompt,answer,foil,position\na, b, c,subject\n", "line 2: the position subject without a subject", "name the word"),
        (
            "prompt,answer,foil\na, b, c\nd, b, c\n",
            "2 pairs of pairs, all with the answer ' b'",
            "add prompts whose answer is ' c'",
        ),
    ],
)
def test_every_mistake_is_named_with_its_line(table: str, given_: str, do: str) -> None:
    with pytest.raises(PairsError) as caught:
        parse_pairs(table)
    assert caught.value.given.startswith(given_)
    assert caught.value.expected
    assert caught.value.do.startswith(do)


@pytest.mark.parametrize(
    ("content", "given_", "do"),
    [
        (b"prompt,answer,foil\na,\xe9,b\n", "number.csv, which is no UTF-8 at line 2 (byte 0xe9)", "save the table again"),
        (PLAIN.encode("utf-16"), "number.csv, which holds NUL bytes", "save the table as CSV"),
        (b"PK\x03\x04\x00\x00", "number.csv, which holds NUL bytes", "save the table as CSV"),
        (b"x" * (MAX_BYTES + 1), "number.csv, which is larger than 32 MiB", "take a part of it"),
    ],
)
def test_a_file_that_is_no_table_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, given_: str, do: str
) -> None:
    written(tmp_path, content)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ForeignFileError) as caught:
        read_pairs("number.csv")
    assert caught.value.given == given_
    assert caught.value.expected
    assert caught.value.do.startswith(do)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ForeignFileError, match=r"none\.csv, which cannot be read \(No such file.*check the path"):
        read_pairs(tmp_path / "none.csv")
    with pytest.raises(ForeignFileError, match=r"cannot be read \(Is a directory\)"):
        read_pairs(tmp_path)


CELLS = st.text(st.sampled_from('ab |,"\n\r;\x00é'), max_size=6) | st.sampled_from(["subject", "-1", "999999999999", "last"])
TABLES = st.lists(st.lists(CELLS, max_size=10), max_size=4)
HEADERS = st.lists(st.sampled_from([*COLUMNS, "split", "x", ""]), min_size=1, max_size=9)


@given(HEADERS, TABLES, st.sampled_from(["\n", "\r\n"]))
@settings(deadline=None, derandomize=True, max_examples=200)
def test_whatever_stands_in_a_table_gives_pairs_or_one_of_our_errors(header: list[str], rows: list[list[str]], end: str) -> None:
    text = end.join(",".join(cells) for cells in [["prompt", "answer", "foil", *header], *rows])
    answers_or_refuses(lambda: parse_pairs(text))


@given(st.binary(max_size=200), st.booleans())
@settings(deadline=None, derandomize=True, max_examples=200)
def test_arbitrary_bytes_give_pairs_or_one_of_our_errors(tmp_path_factory: Any, content: bytes, headed: bool) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.csv"
    path.write_bytes(b"prompt,answer,foil\n" * headed + content)
    answers_or_refuses(lambda: read_pairs(path))


def answers_or_refuses(read: Callable[[], PairSet]) -> None:
    refusal = None
    try:
        assert read().pairs
    except InvariscopeError as error:
        refusal = error
    assert refusal is None or (refusal.given and refusal.expected and refusal.do)
