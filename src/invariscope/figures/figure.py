"""A figure: what is drawn, the table behind it, and the words for those who cannot see it.

A :class:`Figure` computes nothing and knows no colour. It is a plotly description as plain JSON (``data`` and ``layout``),
the same numbers as a table, a caption and an alternative text. Colours belong to the page that shows it: a trace says which
palette slot it wants and which role it plays (``trace["meta"] = {"slot": 0, "role": "core"}``), and the page's script fills in
the colours of the reader's light or dark scheme. A description that brings a colour of its own is refused.

A figure may move: its ``frames`` (:mod:`invariscope.figures.frames`) say where its traces are at each position of a slider, which
the page puts above it; its table holds the numbers of all of them.

On disk a figure is two files, ``NAME.json`` (everything) and ``NAME.csv`` (the table), equal byte for byte for equal input.

>>> trace = {"type": "scatter", "x": [1, 2], "y": [0.5, 0.25], "meta": {"slot": 0, "role": "core"}}
>>> figure = Figure(
...     name="halves", title="Halves", caption="Each is half of the last.", alt="Two points, falling.",
...     plot={"data": [trace], "layout": {}}, columns=("step", "value"), rows=((1, 0.5), (2, 0.25)),
... )
>>> print(figure.csv_text(), end="")
step,value
1,0.5
2,0.25
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from invariscope.errors import ConfigError, ForeignFileError, NonFiniteError, ShapeError
from invariscope.figures.frames import Frame, check_frames, frame_from_json, frame_to_json
from invariscope.storage.atomic import read_json, write_json, write_text

__all__ = ["ROLES", "Cell", "Figure"]

SCHEMA_VERSION = 1
ROLES = ("core", "control", "reference")
"""What a trace can be: the thing under test, what it is compared with, or a known value."""

Cell = str | int | float | bool | None
"""One entry of a figure's table."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_FIELDS = ("name", "title", "caption", "alt", "plot", "columns", "rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure with its table.

    Args:
        name: file name without ending: small letters, digits, ``-`` and ``_``.
        title: what is seen, in a few words.
        caption: how to read it: what every symbol, dash and line means, with units.
        alt: what it shows, for a reader who does not see it.
        plot: plotly's ``{"data": [...], "layout": {...}}`` as plain JSON, without colours; every trace has a ``meta`` with
            ``slot`` (an index into the page's palette) and ``role`` (one of :data:`ROLES`).
        columns: the table's headings, with units.
        rows: the table, one cell a heading.
        frames: in the order of the slider; empty for a figure that stands still.
        slider: what the slider goes through, such as ``training step``; empty without frames.

    Raises:
        ConfigError: for a name that is no file name, a trace without its meta, a colour, or frames that do not belong to the
            plot.
        ShapeError: where a row has not as many cells as there are columns.
        NonFiniteError: where a number is NaN or infinite: write None for a gap.
    """

    name: str
    title: str
    caption: str
    alt: str
    plot: dict[str, Any]
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    frames: tuple[Frame, ...] = ()
    slider: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"figure name {self.name!r}", expected="small letters, digits, - and _", do="the name becomes a file name"
            )
        for index, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ShapeError(
                    f"figure {self.name!r}: row {index} has {len(row)} cells",
                    expected=f"{len(self.columns)}, one a column",
                    do="write None where a cell is empty",
                )
        # A copy by way of JSON: what is drawn is what the file will say, and the caller's dict may change afterwards.
        object.__setattr__(self, "plot", json.loads(self._finite_json(self.plot, "plot")))
        self._finite_json(self.rows, "table")
        self._check_traces()
        for path in _colours(self.plot):
            raise ConfigError(
                f"figure {self.name!r} sets a colour at {path}",
                expected="none: the page's script gives each palette slot the colours of the reader's scheme",
                do='name a slot instead: trace["meta"] = {"slot": 0, "role": "core"}',
            )
        if bool(self.frames) != bool(self.slider):
            raise ConfigError(
                f"figure {self.name!r} with {len(self.frames)} frames and the slider {self.slider!r}",
                expected="both or neither",
                do="say in words what the slider goes through, or leave out both",
            )
        if self.frames:
            check_frames(self.name, self.frames, self.plot["data"], self.plot["layout"])

    def _finite_json(self, value: object, what: str) -> str:
        try:
            return json.dumps(value, allow_nan=False)
        except ValueError as error:
            raise NonFiniteError(
                f"figure {self.name!r}: NaN or infinity in its {what}", expected="finite numbers", do="write None for a gap"
            ) from error

    def _check_traces(self) -> None:
        if not isinstance(self.plot.get("data"), list) or not isinstance(self.plot.get("layout"), dict):
            raise ConfigError(
                f"figure {self.name!r}: a plot with {', '.join(map(repr, self.plot)) or 'nothing'}",
                expected='{"data": [traces], "layout": {...}}',
                do="give plotly's description as plain JSON",
            )
        for index, trace in enumerate(self.plot["data"]):
            meta = trace.get("meta")
            if not isinstance(meta, dict) or not isinstance(meta.get("slot"), int) or meta.get("role") not in ROLES:
                raise ConfigError(
                    f"figure {self.name!r}: trace {index} has meta {meta!r}",
                    expected=f"a slot (an integer) and a role ({', '.join(ROLES)})",
                    do='set trace["meta"] = {"slot": 0, "role": "core"}',
                )

    def csv_text(self) -> str:
        """The table as CSV: a heading, then one line a row; floats at full precision, None as an empty cell."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return text.getvalue()

    def save(self, folder: str | Path) -> Path:
        """Write ``folder/NAME.json`` and ``folder/NAME.csv``, each in one step; return the former's path.

        Raises:
            FolderError: where the folder cannot be written.
        """
        folder = Path(folder)
        path = folder / f"{self.name}.json"
        write_text(folder / f"{self.name}.csv", self.csv_text())
        document: Any = {"schema_version": SCHEMA_VERSION} | {field: getattr(self, field) for field in _FIELDS}
        # A figure that stands still is written as it was before there were frames.
        if self.frames:
            document |= {"slider": self.slider, "frames": [frame_to_json(frame) for frame in self.frames]}
        write_json(path, document)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Figure:
        """Read a figure that :meth:`save` wrote.

        Raises:
            ForeignFileError: where the file is missing, truncated, or no figure of ours.
        """
        value: Any = read_json(Path(path))
        known = isinstance(value, dict) and value.get("schema_version") == SCHEMA_VERSION and all(f in value for f in _FIELDS)
        try:
            if not known:
                raise TypeError("not a figure")
            fields: dict[str, Any] = {field: value[field] for field in _FIELDS}
            fields["columns"] = tuple(value["columns"])
            fields["rows"] = tuple(tuple(row) for row in value["rows"])
            fields["frames"] = tuple(frame_from_json(frame) for frame in value.get("frames", ()))
            fields["slider"] = value.get("slider", "")
            return cls(**fields)
        except (TypeError, AttributeError, ValueError, KeyError) as error:
            raise ForeignFileError(
                f"{path} is no figure of ours ({error})",
                expected=f"schema_version {SCHEMA_VERSION} with {', '.join(_FIELDS)}",
                do="run the experiment again: it rewrites its figures",
            ) from error


def _colours(value: object, path: str = "plot") -> Iterator[str]:
    """Where a plotly description names a colour, colour scale or template."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "template" or key.lower().endswith(("color", "colors", "colorscale", "colorway")):
                yield f"{path}.{key}"
            elif key != "meta":
                yield from _colours(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _colours(inner, f"{path}[{index}]")
