"""``invariscope compare``: overlaps of cores, coordinates and weights of runs, and what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cli.trained_runs import train_two
from cores.hand_made import random_core
from invariscope.cli.compare import CompareOptions
from invariscope.cli.main import main
from invariscope.cores import projector_overlap, weight_cosine
from invariscope.storage import Manifest, RunFolder
from invariscope.training import load_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return train_two(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def cores(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{name}.safetensors" for name in ("a", "b", "wide")]
    for path, core in zip(paths, (random_core(8, 2, 0), random_core(8, 3, 1), random_core(9, 2, 2)), strict=True):
        core.save(path)
    return paths


def rows(said: str) -> list[list[str]]:
    return [line.split("  ") for line in said.splitlines() if " | " in line]


def test_the_options_are_these() -> None:
    assert [(field.name, field.default) for field in dataclasses.fields(CompareOptions)][1:] == [
        ("model", ()),
        ("pairs", None),
        ("force", False),
        ("dtype", "float32"),
        ("batch_size", 64),
        ("site", None),
        ("rank", None),
        ("projection", "adjoint"),
        ("sequences", 2048),
        ("seed", 0),
        ("debug", False),
    ]


def test_two_cores_have_the_overlap_of_both_spans_beside_chance(cores: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *map(str, cores[:2])]) == 0
    write, read = rows(capsys.readouterr().out)
    for span, row in (("write", write), ("read", read)):
        found = projector_overlap(random_core(8, 2, 0), random_core(8, 3, 1), span=span)  # pyright: ignore[reportArgumentType]
        assert row == [
            f"{cores[0]} | {cores[1]}",
            f"overlap of {span} spans",
            f"{found.value:.4f}",
            f"{6**0.5 / 8:.4f}",
            f"[{found.null_low:.4f}, {found.null_high:.4f}]",
            "ranks 2 and 3 of 8",
        ]
    assert write[2] != read[2]


def test_every_pair_is_compared_and_a_core_equals_itself(cores: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(cores[0]), str(cores[0]), str(cores[1])]) == 0
    found = rows(capsys.readouterr().out)
    assert len(found) == 6
    assert [row[2] for row in found[:2]] == ["1.0000", "1.0000"]


def test_two_runs_of_one_task_also_compare_coordinates_and_weights(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *map(str, runs), "--rank", "3", "--sequences", "256"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{runs[0]}: adjoint core of rank 3 at blocks.0.resid_mid\n")
    found = {row[1]: row[2:] for row in rows(said)}
    assert list(found) == [
        "overlap of write spans",
        "overlap of read spans",
        "CCA of coordinates, held out",
        "CCA, smallest component, held out",
        "weight cosine",
    ]
    value, chance, _, sizes = found["CCA of coordinates, held out"]
    assert float(value) > 0.95 > 0.1 > float(chance)
    assert sizes == "n 1024+1024, k 3"
    assert float(found["CCA, smallest component, held out"][0]) <= float(value)
    models = [load_run(path).model for path in runs]
    assert found["weight cosine"][0] == f"{weight_cosine(*models):.4f}"


def test_runs_of_two_tasks_have_no_coordinates_in_common(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = train_two(tmp_path, chain="four_complex", steps=30)[0]
    assert main(["compare", str(runs[0]), str(other), "--rank", "2", "--sequences", "64"]) == 0
    found = {row[1]: row[2:] for row in rows(capsys.readouterr().out)}
    assert found["CCA of coordinates"] == ["-", "-", "-", "their tasks differ"]
    assert "weight cosine" in found


def test_a_core_and_a_run_share_spans_only(runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "core.safetensors"
    random_core(16, 3).save(path)
    assert main(["compare", str(path), str(runs[0]), "--rank", "3", "--sequences", "64"]) == 0
    assert [row[1] for row in rows(capsys.readouterr().out)] == ["overlap of write spans", "overlap of read spans"]


def test_on_a_terminal_it_is_a_table(
    cores: list[Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["compare", *map(str, cores[:2])]) == 0
    assert "central 95 %" in capsys.readouterr().out


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["compare", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line


def test_cores_of_two_dimensions_are_refused_by_name(cores: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert refused([str(path) for path in cores], capsys) == (
        f"error: {cores[0]} with a core of dimension 8 and {cores[2]} with one of 9; expected cores that live in spaces of one "
        "dimension; compare models of one width, at sites of one kind, or coordinates of cores with --model and --pairs"
    )


def test_bad_input_is_one_line(cores: list[Path], runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foreign = tmp_path / "foreign.safetensors"
    foreign.write_bytes(b"nothing of ours")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "0 to compare; expected two or more cores or runs" in refused([], capsys)
    assert f"1 to compare: {cores[0]}; expected two or more" in refused([str(cores[0])], capsys)
    assert "nowhere, which is not there; expected a core's file or a run's folder" in refused([str(cores[0]), "nowhere"], capsys)
    assert str(foreign) in refused([str(cores[0]), str(foreign)], capsys)
    assert str(empty) in refused([str(cores[0]), str(empty)], capsys)
    checkpoint = next((runs[0] / "checkpoints").iterdir())
    assert "which holds a checkpoint; expected a core" in refused([str(cores[0]), str(checkpoint)], capsys)
    assert "rank 99 of a site" in refused([*map(str, runs), "--rank", "99", "--sequences", "64"], capsys)


def test_a_study_and_an_unfinished_run_are_refused(runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with RunFolder.open(tmp_path / "study", config={}):
        pass
    assert "study, whose manifest is of kind 'experiment'; expected the folder of one trained model" in refused(
        [str(runs[0]), str(tmp_path / "study")], capsys
    )
    Manifest.start(kind="run", config={"seed": 0}).save(tmp_path / "begun")
    assert "whose status is 'running'; expected a trained model" in refused([str(tmp_path / "begun"), str(runs[0])], capsys)
