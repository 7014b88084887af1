"""``invariscope list``: everything that can be run, one line each."""

from __future__ import annotations

from pathlib import Path

import pytest

from invariscope.cli.main import main
from invariscope.experiments import EXPERIMENTS, load_experiment


def test_experiments_and_presets_have_a_line_each(fake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("fake  Measures what it is told (arXiv:0000.00000)")
    assert lines[at + 1 : at + 3] == [
        "    --preset quick  in a moment",
        "    --preset wrong  with a number that misses its mark",
    ]
    assert len(lines) == sum(1 + len(entry.presets) for entry in EXPERIMENTS.values())


def test_lines_are_not_wrapped_and_hold_no_colours_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    main(["list"])
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) > 80
    assert said.isascii()
    assert "\x1b" not in said


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_presets_that_are_listed_are_those_that_run(name: str) -> None:
    assert set(EXPERIMENTS[name].presets) == set(load_experiment(name).PRESETS)
    assert "quick" in EXPERIMENTS[name].presets


def test_an_argument_too_many_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "markov-cores"]) == 2
    assert "Unrecognized options: markov-cores" in capsys.readouterr().err
