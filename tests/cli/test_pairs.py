"""Which pairs a command means: files first, then names."""

from __future__ import annotations

from pathlib import Path

import pytest

from invariscope.cli.pairs import read_behaviour
from invariscope.errors import ConfigError, ForeignFileError
from invariscope.tasks import Behaviour, PairSet, builtin_pairs

THREE = "prompt,answer,foil\nThe keys,are,is\nThe old key,is,are\nThe doors,are,is\n"


def test_a_file_goes_before_a_behaviour_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    named = read_behaviour("tense")
    assert isinstance(named, Behaviour)
    assert named == builtin_pairs("tense")
    for name in ("tense", "mine.csv"):
        Path(name).write_text(THREE)
        found = read_behaviour(name)
        assert isinstance(found, PairSet)
        assert [pair.prompt for pair in found.pairs] == ["The keys", "The old key", "The doors"]


def test_what_is_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match="'tens', which is neither a file nor a built-in behaviour; expected a CSV file, or one of"
    ):
        read_behaviour("tens")
    with pytest.raises(ForeignFileError, match=r"no\.csv, which cannot be read"):
        read_behaviour(str(tmp_path / "no.csv"))
