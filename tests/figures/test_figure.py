"""Figure: what it refuses, what it writes, and that reading gives back what was written."""

import json
import math

import pytest

from invariscope.errors import ConfigError, FolderError, ForeignFileError, NonFiniteError, ShapeError
from invariscope.figures import Figure


def fields(**changes):
    trace = {"type": "scatter", "x": [1, 2], "y": [0.5, None], "meta": {"slot": 0, "role": "core"}}
    given = {
        "name": "halves",
        "title": "Halves",
        "caption": "Each is half of the last.",
        "alt": "Two points.",
        "plot": {"data": [trace], "layout": {"xaxis": {"range": (0, 3)}}},
        "columns": ("arm, with comma", "value"),
        "rows": (('a "quoted" arm', 0.1), ("b\nc", None)),
    }
    return given | changes


def with_trace(**changes):
    trace = {"type": "scatter", "y": [1.0], "meta": {"slot": 0, "role": "core"}} | changes
    return {"data": [trace], "layout": {}}


def test_reading_gives_back_what_was_written(tmp_path):
    figure = Figure(**fields())
    path = figure.save(tmp_path)
    assert path == tmp_path / "halves.json"
    assert Figure.load(path) == figure
    assert Figure.load(str(path)).rows == figure.rows


def test_equal_figures_write_equal_bytes(tmp_path):
    first, second = Figure(**fields()).save(tmp_path / "a"), Figure(**fields()).save(tmp_path / "b")
    assert first.read_bytes() == second.read_bytes()
    assert first.with_suffix(".csv").read_bytes() == second.with_suffix(".csv").read_bytes()
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["halves.csv", "halves.json"]


def test_csv_quotes_what_has_to_be_quoted_and_keeps_full_precision():
    text = Figure(**fields(rows=(('a "q"', 1 / 3), ("b\nc", None)))).csv_text()
    assert text == '"arm, with comma",value\n"a ""q""",0.3333333333333333\n"b\nc",\n'


def test_later_changes_of_the_callers_dict_do_not_reach_the_figure():
    given = fields()
    figure = Figure(**given)
    given["plot"]["data"][0]["y"][0] = 99.0
    assert figure.plot["data"][0]["y"] == [0.5, None]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"name": "Rank Curve"},
            ConfigError,
            r"name 'Rank Curve'; expected small letters, digits, - and _; the name becomes",
        ),
        ({"name": "../x"}, ConfigError, "file name"),
        ({"rows": (("a",),)}, ShapeError, "row 0 has 1 cells; expected 2, one a column; write None where a cell is empty"),
        (
            {"rows": (("a", math.nan),)},
            NonFiniteError,
            "infinity in its table; expected finite numbers; write None for a gap",
        ),
        ({"plot": with_trace(y=[math.inf])}, NonFiniteError, "NaN or infinity in its plot"),
        ({"plot": {"data": []}}, ConfigError, 'expected {"data": \\[traces\\], "layout"'),
        (
            {"plot": with_trace(meta={"slot": 0})},
            ConfigError,
            "trace 0 has meta .*; expected a slot .* and a role .core, con",
        ),
        ({"plot": with_trace(meta={"slot": 0, "role": "hero"})}, ConfigError, "trace 0 has meta"),
        (
            {"plot": with_trace(marker={"color": "red"})},
            ConfigError,
            r"a colour at plot\.data\[0\]\.marker\.color; expected none",
        ),
        ({"plot": with_trace(marker={"colorscale": "Viridis"})}, ConfigError, "colorscale"),
        ({"plot": with_trace() | {"layout": {"template": "plotly_dark"}}}, ConfigError, r"plot\.layout\.template"),
        ({"plot": with_trace() | {"layout": {"paper_bgcolor": "#fff"}}}, ConfigError, "paper_bgcolor"),
    ],
)
def test_what_is_refused_and_what_the_message_says(changes, error, message):
    with pytest.raises(error, match=message):
        Figure(**fields(**changes))


@pytest.mark.parametrize(
    "content",
    [
        "",
        '{"schema_version": 1, "name": "halves"',
        "[]",
        '{"schema_version": 1}',
        json.dumps(fields() | {"schema_version": 2, "plot": {"data": [], "layout": {}}}),
        json.dumps(fields() | {"schema_version": 1, "rows": [["a"]]}),
        json.dumps(fields() | {"schema_version": 1, "rows": 3}),
        json.dumps(fields() | {"schema_version": 1, "plot": "no"}),
    ],
)
def test_damaged_and_foreign_files_are_named(tmp_path, content):
    path = tmp_path / "halves.json"
    path.write_text(content)
    with pytest.raises(ForeignFileError, match=r"halves\.json"):
        Figure.load(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ForeignFileError, match=r"absent\.json"):
        Figure.load(tmp_path / "absent.json")


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(FolderError, match="file"):
        Figure(**fields()).save(tmp_path / "file")
