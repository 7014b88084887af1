"""A series as a record: its table, its file, and what is no such file."""

from __future__ import annotations

from pathlib import Path

import pytest

from cores.made_up_series import at_step, series
from invariscope.cores import CoreSeries
from invariscope.errors import ForeignFileError
from invariscope.storage.atomic import read_json, write_json


def test_the_summary_says_where_how_and_what_is_chance() -> None:
    assert series().summary() == (
        "chain at blocks.0.resid_mid, positions all: adjoint cores of rank 2 of 40 (given), tolerance 0.02, chance 1.4000 nats, "
        "time shift on law coordinates"
    )
    assert series(map_name="").summary().endswith("chance 1.4000 nats")


def test_cells_have_a_dash_where_there_is_no_value() -> None:
    first, last = series().cells()
    assert first == ["0", "1.0000", "-", "-", "4", "5", "1.00%", "0.200", "0.050", "0.1 [0.08, 0.15]"]
    assert last[:4] == ["50", "1.0000", "3", "2"]
    bare = series(checkpoints=(at_step(7, keep_loss=None, spectrum_error=None),)).cells()[0]
    assert (bare[6], bare[-1]) == ("-", "-")
    assert len(first) == len(series().columns)


def test_the_columns_of_the_table_stand_below_each_other() -> None:
    lines = series().table().splitlines()
    assert len(lines) == 4
    assert len({line.index(word) for line, word in zip(lines[1:], ("nats", "1.0000", "1.0000"), strict=True)}) == 1


def test_a_saved_series_comes_back_equal(tmp_path: Path) -> None:
    path = tmp_path / "series.json"
    series().save(path)
    assert CoreSeries.load(path) == series()


@pytest.mark.parametrize(
    "text", ["{}", "[]", '{"kind": "core series", "schema_version": 1, "series": {"rank": "x"}}', "not json", '{"kind": "core"']
)
def test_a_foreign_series_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "series.json"
    path.write_text(text)
    with pytest.raises(ForeignFileError, match=r"series\.json.*; expected .*; (follow the core again|restore)"):
        CoreSeries.load(path)


def test_series_of_before_there_were_means_are_still_read(tmp_path: Path) -> None:
    path = tmp_path / "series.json"
    series().save(path)
    value = read_json(path)
    del value["series"]["tokens"]
    for found in value["series"]["checkpoints"]:
        del found["means"]
    write_json(path, value)
    old = CoreSeries.load(path)
    assert (old.tokens, old.checkpoints[0].means) == ((), ())
    assert old.table() == series().table()
