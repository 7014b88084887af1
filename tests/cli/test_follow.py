"""``invariscope follow``: its options, what it prints and writes, and what it refuses."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from cli.trained_runs import SITE, train_two
from invariscope.cli.follow import FollowOptions
from invariscope.cli.main import main
from invariscope.cores import CoreSeries
from invariscope.tasks import MarkovChain, describe_task

FAST = ("--sequences", "128", "--operator-sequences", "256")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_two(tmp_path_factory.mktemp("runs"))[0]


def test_the_options_are_these() -> None:
    assert [(field.name, field.default) for field in dataclasses.fields(FollowOptions)][1:] == [
        ("task", None),
        ("site", None),
        ("rank", None),
        ("projection", "adjoint"),
        ("sequences", 2048),
        ("operator_sequences", 8192),
        ("seed", 0),
        ("out", None),
        ("debug", False),
    ]


def test_a_run_knows_its_task_and_the_series_is_printed_and_written(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "series.json"
    assert main(["follow", str(run), *FAST, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    series = CoreSeries.load(out)
    assert said == f"{series.table()}\nSeries: {out}\n"
    assert (series.task, series.site, series.num_sequences) == ("four_real", SITE, 128)
    assert [found.step for found in series.checkpoints] == [50, 100, 150]
    assert series.checkpoints[-1].overlap.value == pytest.approx(1.0)


def test_a_name_and_a_description_are_one_task(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    described = tmp_path / "task.json"
    described.write_text(json.dumps(describe_task(MarkovChain.named("four_real", 8))))
    shutil.copytree(run / "checkpoints", tmp_path / "series")
    words = [*FAST, "--rank", "2", "--projection", "oblique", "--site", "final_norm"]
    assert main(["follow", str(tmp_path / "series"), "--task", "four_real", *words]) == 0
    named = capsys.readouterr().out
    assert main(["follow", str(run), "--task", str(described), *words]) == 0
    assert capsys.readouterr().out == named
    assert named.startswith("four_real at final_norm, positions all: oblique cores of rank 2 of 16 (given)")


def test_on_a_terminal_it_is_a_table(run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["follow", str(run), *FAST]) == 0
    said = capsys.readouterr().out
    assert "─────" in said
    assert "spectrum error" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{tmp}/nowhere"], "which is no folder; expected a folder with checkpoints; correct the path"),
        (["{tmp}"], "which holds no checkpoints; expected the folder of one seed"),
        (["{run}/checkpoints"], "without --task; expected a task"),
        (["{run}", "--task", "four_reel"], "unknown chain 'four_reel'; expected one of its known names; nearest: four_real"),
        (
            ["{run}", "--task", "spread_12"],
            "a model of 4 tokens, 4 outputs and context 8, for the task 'spread_12'",
        ),
        (["{run}", "--task", "{tmp}/no.json"], "no.json"),
        (["{run}", "--site", "blocks.0.resid_md", "--sequences", "64"], "nearest: blocks.0.resid_mid"),
        (["{run}", "--rank", "99", "--sequences", "64"], "rank 99 of a site of dimension 16"),
        (["{run}", "--sequences", "0"], "num=0"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], said: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["follow", *(word.format(tmp=tmp_path, run=run) for word in words)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("error: ")
    assert said in line


def test_what_tyro_refuses_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["follow"]) == 2
    assert "FOLDER" in capsys.readouterr().err
    assert main(["follow", "somewhere", "--projection", "adjont"]) == 2
    assert "adjoint" in capsys.readouterr().err


def test_a_damaged_checkpoint_is_named(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(run, tmp_path / "copy")
    (tmp_path / "copy" / "checkpoints" / "step-00000100.safetensors").write_bytes(b"cut")
    assert main(["follow", str(tmp_path / "copy"), *FAST]) == 2
    assert "step-00000100.safetensors" in capsys.readouterr().err.splitlines()[-1]
