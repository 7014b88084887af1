"""Which configuration runs: preset, file, seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli import fake_experiment
from cli.fake_experiment import Config, TrainPart
from invariscope.cli.config import read_toml, resolve_config
from invariscope.errors import ConfigError, InvariscopeError, UnknownNameError


def resolved(text: str, tmp_path: Path, *, preset: str = "quick", seed: int | None = None) -> Config:
    path = tmp_path / "c.toml"
    path.write_text(text)
    return resolve_config(fake_experiment, preset=preset, tables=read_toml(path), file=path, seed=seed)


def test_a_preset_alone() -> None:
    assert resolve_config(fake_experiment, preset="wrong", tables={}, file=None, seed=None) == fake_experiment.PRESETS["wrong"]


def test_the_file_replaces_what_it_names_in_nested_tables_and_keeps_the_preset_elsewhere(tmp_path: Path) -> None:
    found = resolved("seeds = [4, 5, 6]\n[train]\nsteps = 9\n", tmp_path, preset="wrong")
    assert found == Config(measured=4.0, seeds=(4, 5, 6), train=TrainPart(steps=9, rate=0.5))


def test_the_seed_comes_after_the_file_and_keeps_the_number_of_seeds(tmp_path: Path) -> None:
    assert resolved("seeds = [4, 5, 6]\n", tmp_path, seed=10).seeds == (10, 11, 12)
    assert resolved("", tmp_path, seed=0).seeds == (0, 1)


def test_a_negative_seed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        resolved("", tmp_path, seed=-3)
    assert str(caught.value) == "--seed -3; expected a seed of at least 0; choose another seed"


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (
            "[train]\nstep = 3\n",
            UnknownNameError,
            "unknown field of TrainPart 'step'; expected one of its known names; nearest: step",
        ),
        ("seeds = 'all'\n", ConfigError, "Config.seeds = 'all'; expected tuple[int, ...]; correct the value"),
        ("train = 3\n", ConfigError, "3 for TrainPart; expected a table of fields; write one name = value a line"),
        ("[train]\nsteps = 0\n", ConfigError, "steps = 0; expected at least 1; correct steps"),
        ("[train]\nsteps = 1.5\n", ConfigError, "TrainPart.steps = 1.5; expected int; correct the value"),
    ],
)
def test_what_the_file_gets_wrong_is_said_with_the_files_name(
    text: str, kind: type[InvariscopeError], said: str, tmp_path: Path
) -> None:
    with pytest.raises(kind) as caught:
        resolved(text, tmp_path)
    assert str(caught.value).startswith(f"--config {tmp_path / 'c.toml'}: {said}")


def test_a_slip_of_syntax_is_said_with_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        resolved("seeds = [0, 1]\nmeasured = \n", tmp_path)
    assert str(caught.value).startswith(f"--config {tmp_path / 'c.toml'}: ")
    assert "line 2" in str(caught.value)
    assert "correct that line" in str(caught.value)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "No such file or directory"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.write_bytes(b"seeds = [\xff]"), "no UTF-8 text"),
    ],
    ids=["missing", "folder", "bytes"],
)
def test_a_file_that_cannot_be_read_is_refused(make, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    make(path)
    with pytest.raises(ConfigError) as caught:
        read_toml(path)
    assert str(path) in str(caught.value)
    assert reason in str(caught.value)
    assert "expected a TOML file" in str(caught.value)
