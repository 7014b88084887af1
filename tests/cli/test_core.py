"""invariscope core: a folder and a three-line CSV with the network off, a plan, and one line for whatever is wrong."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from safetensors.torch import load_file

from invariscope.cli.main import main
from invariscope.cores import load_core
from tiny_language_models import save_tiny_folder

THREE = "prompt,answer,foil\nThe keys,are,is\nThe old key,is,are\nThe doors,are,is\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_folder(tmp_path_factory.mktemp("tiny") / "fine-tuned")


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("somebody asked the network")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def csv(tmp_path: Path, text: str = THREE) -> Path:
    path = tmp_path / "pairs.csv"
    path.write_text(text)
    return path


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["core", *words]) == 2
    said = capsys.readouterr()
    assert len(said.err.strip().splitlines()) == 1, said.err
    return said.err


def test_a_folder_and_three_lines_are_enough_without_a_network(folder, tmp_path, offline, capsys):
    out = tmp_path / "out"
    assert main(["core", str(folder), str(csv(tmp_path)), "--layers", "1", "2", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "groups are too few to hold any out" in said
    assert "AUC" in said
    assert f"Report: {out / 'report.html'}" in said
    page = (out / "report.html").read_text()
    assert "The core of pairs in" in page
    assert 'id="claims"' not in page
    assert load_core(out / "cores" / "layer-02-oblique-rank-1.safetensors").rank == 1
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["kind"] == "core"
    assert manifest["config"]["model"]["bos"] == "none"
    if (out / "steering").exists():
        assert set(load_file(out / "steering" / "steering.safetensors")) == {"read", "write", "mean"}


def test_another_file_in_the_same_folder_is_refused(folder, tmp_path, capsys):
    out = tmp_path / "out"
    words = ["core", str(folder), str(csv(tmp_path)), "--layers", "2", "--out", str(out)]
    assert main(words) == 0
    capsys.readouterr()
    csv(tmp_path, THREE + "The lamps,are,is\n")
    assert "pairs_sha256" in refused(capsys, *words[1:])


def test_a_plan_loads_nothing_and_refuses_what_does_not_fit(folder, tmp_path, capsys, monkeypatch):
    assert main(["core", str(folder), str(csv(tmp_path)), "--plan"]) == 0
    assert "factors, float64" in capsys.readouterr().out
    assert main(["core", "smollm2-135m", "agreement", "--plan"]) == 0
    assert "predictions over the vocabulary" in capsys.readouterr().out
    monkeypatch.setattr("invariscope.cores.plan.available_bytes", lambda: 1000)
    assert main(["core", str(folder), str(csv(tmp_path)), "--plan"]) == 2
    assert "expected at most the 0.001 MB that are free" in capsys.readouterr().err
    assert "run without --plan" in refused(capsys, "model.gguf", str(csv(tmp_path)), "--plan")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prompt,answer,foil\n", "without a pair"),
        ("prompt,answer,foil\nThe keys,are,are\n", "which is also the foil"),
        ("prompt,answer,foil\nThe keys,are,is\nThe doors,are,is\n", "two classes"),
        ("prompt,answer\nThe keys,are\n", "foil"),
        (THREE + "old " * 3000 + ",are,is\n", "tokens"),
    ],
)
def test_bad_pairs_are_one_line(folder, tmp_path, capsys, text, message):
    assert message in refused(capsys, str(folder), str(csv(tmp_path, text)), "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_name_that_is_nothing_is_refused(folder, capsys):
    said = refused(capsys, str(folder), "agrement")
    assert "neither a file nor a built-in behaviour" in said
    assert "agreement, " in said


def test_a_layer_that_is_not_there_is_refused(folder, tmp_path, capsys):
    words = [str(folder), str(csv(tmp_path)), "--layers", "7", "--out", str(tmp_path / "o")]
    assert "layers [7] of a model of 3 layers" in refused(capsys, *words)
