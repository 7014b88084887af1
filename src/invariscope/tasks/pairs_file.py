"""PAIRS.csv: a table of prompts with answers and foils, one pair a row.

::

    prompt,answer,foil,group,label
    The old keys, are, is,keys,plural
    The old key, is, are,keys,singular

The first row names the columns: ``prompt``, ``answer`` and ``foil``, and as you like ``group``, ``position``, ``subject``,
``answer2``, ``foil2`` and ``label``, in any order; their meaning is that of :class:`invariscope.tasks.Pair`. Several answers (or
foils) stand in one cell, separated by ``|``. Prompts and answers are taken as they are written, with their spaces; the other
cells without those around them. Cells with commas or line breaks stand in double quotes. UTF-8, with or without a mark in front.

>>> found = parse_pairs("prompt,answer,foil\\nThe keys, are| were, is| was\\nThe key, is| was, are| were\\n")
>>> found.classes, found.pairs[1].answers, found.pairs[1].line
((' is| was', ' are| were'), (' is', ' was'), 3)
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from invariscope.errors import ForeignFileError, PairsError, nearest_names
from invariscope.tasks.pairs import Pair, PairSet

__all__ = ["COLUMNS", "MAX_BYTES", "parse_pairs", "read_pairs"]

REQUIRED = ("prompt", "answer", "foil")
COLUMNS = (*REQUIRED, "group", "position", "subject", "answer2", "foil2", "label")
MAX_BYTES = 32 * 2**20


def read_pairs(path: Path | str, *, name: str | None = None, add_space: bool = True) -> PairSet:
    """The pairs in a table, see the module's text.

    Args:
        path: of the file, UTF-8, at most 32 MiB.
        name: for reports; None: that of the file.
        add_space: put the space that is missing before an answer, see :class:`invariscope.tasks.PairSet`.

    Raises:
        ForeignFileError: for a file that cannot be read, is too large, or is no text in UTF-8.
        PairsError: for a row that makes no pair, with its line, and for pairs that make no choice.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ForeignFileError(
            f"{path}, which cannot be read ({error.strerror or error})",
            expected="a table with the columns prompt, answer and foil",
            do="check the path",
        ) from error
    if len(data) > MAX_BYTES:
        raise ForeignFileError(
            f"{path}, which is larger than {MAX_BYTES // 2**20} MiB",
            expected="a table of pairs; a few hundred are enough for a core",
            do="take a part of it",
        )
    if b"\0" in data:
        raise ForeignFileError(
            f"{path}, which holds NUL bytes", expected="text in UTF-8", do="save the table as CSV in UTF-8, not as a spreadsheet"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ForeignFileError(
            f"{path}, which is no UTF-8 at line {line} (byte {data[error.start]:#04x})",
            expected="text in UTF-8",
            do="save the table again with the encoding UTF-8",
        ) from error
    return parse_pairs(text, name=path.stem if name is None else name, add_space=add_space)


def parse_pairs(text: str, *, name: str = "pairs", add_space: bool = True) -> PairSet:
    """The pairs in the text of a table.

    Raises:
        PairsError: for a row that makes no pair, with its line, and for pairs that make no choice.
    """
    rows = _rows(text)
    _, header = next(rows, (1, []))
    columns = _columns([cell.strip().lower() for cell in header])
    return PairSet([_pair(line, cells, columns) for line, cells in rows], name=name, add_space=add_space)


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Each row with the number of the line on which it begins; empty lines are none."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise PairsError(
                f"line {line}: no row of a table ({error})",
                expected="cells separated by commas, in double quotes where they hold commas, quotes or line breaks",
                do="close the quotes, and double those inside a cell",
            ) from error
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield line, cells
        line = reader.line_num + 1


def _columns(header: Sequence[str]) -> Sequence[str]:
    if len(header) == 1 and re.search(r"[;\t]", header[0]):
        raise PairsError(
            f"line 1: the columns {header[0]!r} in one cell",
            expected="cells separated by commas",
            do="save the table with commas",
        )
    for column in REQUIRED:
        if column not in header:
            near = nearest_names(column, [name for name in header if name and name not in COLUMNS])
            raise PairsError(
                f"line 1: no column {column!r} among {', '.join(header) or 'none'}",
                expected="the columns prompt, answer and foil",
                do=f"write them into the first row{'; nearest: ' + ', '.join(near) if near else ''}",
            )
    for number, column in enumerate(header):
        if column in header[:number]:
            raise PairsError(f"line 1: the column {column!r} twice", expected="each once", do="remove one of them")
        if column == "split":
            raise PairsError(
                "line 1: a column 'split'",
                expected="groups, by which pairs are split so that none is on both sides",
                do="remove it, and say with the column group what belongs together; or write two tables",
            )
        if column not in COLUMNS:
            raise PairsError(
                f"line 1: an unknown column {column!r}",
                expected=f"some of {', '.join(COLUMNS)}",
                do=f"rename or remove it; nearest: {', '.join(nearest_names(column, COLUMNS))}",
            )
    return header


def _pair(line: int, cells: Sequence[str], columns: Sequence[str]) -> Pair:
    if len(cells) > len(columns):
        raise PairsError(
            f"line {line}: {len(cells)} cells with {len(columns)} columns",
            expected=f"{', '.join(columns)}",
            do="put a cell that holds a comma into double quotes",
        )
    row = dict(zip(columns, cells, strict=False))
    label, position = row.get("label", "").strip(), row.get("position", "").strip() or "last"
    return Pair(
        prompt=row.get("prompt", ""),
        answers=_alternatives(row.get("answer", "")),
        foils=_alternatives(row.get("foil", "")),
        group=row.get("group", "").strip() or None,
        position=int(position) if re.fullmatch(r"[+-]?[0-9]{1,9}", position) else position.lower(),
        subject=row.get("subject", "").strip() or None,
        transfer_answers=_alternatives(row.get("answer2", "")),
        transfer_foils=_alternatives(row.get("foil2", "")),
        label=label or None,
        line=line,
    )


def _alternatives(cell: str) -> tuple[str, ...]:
    return tuple(cell.split("|")) if cell.strip() else ()
