"""invariscope core: a folder and a three-line CSV with the network off, a plan, and one line for whatever is wrong."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from safetensors.torch import load_file

from invariscope.cli.main import main
from invariscope.cores import load_core
from tiny_gguf import write_tiny_gguf
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


NO_CLASSES = "prompt,answer,foil\nThe keys,are,is\nThe old lamp,is,was\nThe red doors,were,are\nThe coin,was,were\n"
THREE_CLASSES = (
    "prompt,answer,foil,label\nThe keys,are,is,many\nThe old key,is,was,one\nThe red door,was,are,past\nThe coins,are,was,many\n"
    "The doors,are,is,many\n"
)


@pytest.mark.parametrize(("text", "chance"), [(NO_CLASSES, 0.5), (THREE_CLASSES, 0.6)], ids=["no classes", "three classes"])
def test_pairs_without_an_area_are_reported_by_their_accuracy(folder, tmp_path, capsys, text, chance):
    out = tmp_path / "out"
    assert main(["core", str(folder), str(csv(tmp_path, text)), "--layers", "1", "2", "--out", str(out)]) == 0
    capsys.readouterr()
    curves = json.loads((out / "figures" / "layers.json").read_text())
    assert curves["plot"]["layout"]["yaxis"]["title"]["text"] == "accuracy"
    assert curves["caption"].startswith("Accuracy under the edit")
    assert f"chance {chance:g}" in curves["alt"]
    assert "AUC" not in (out / "figures" / "layers.csv").read_text()
    transfer = out / "figures" / "transfer.json"
    assert not transfer.exists() or "AUC" not in transfer.read_text()


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
        ("", "line 1: no column 'prompt' among none"),
        ("prompt,answer,foil\n", "without a pair"),
        ("prompt,answer,foil\nThe keys,are,are\n", "which is also the foil"),
        ("prompt,answer,foil\nThe keys,are,is\nThe doors,are,is\n", "two classes"),
        ("prompt,answer\nThe keys,are\n", "foil"),
        (THREE + "old " * 3000 + ",are,is\n", "line 5: a prompt of 3000 tokens with 1 of an answer; expected at most 2048"),
        ("prompt,answer,foil,position\nThe keys,are,is,0\nThe key,is,are,2\n", "line 3: the position 2 in a prompt of 2 tokens"),
    ],
)
def test_bad_pairs_are_one_line(folder, tmp_path, capsys, text, message):
    assert message in refused(capsys, str(folder), str(csv(tmp_path, text)), "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_edits_that_would_touch_no_token_are_one_line(folder, tmp_path, capsys):
    one_token = csv(tmp_path, "prompt,answer,foil\nkeys,are,is\nkey,is,are\n")
    words = [str(folder), str(one_token), "--layers", "1", "--positions", "all", "--out", str(tmp_path / "out")]
    assert main(["core", *words]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    # Above it stands the progress of what was done before.
    assert said[-1].startswith("error: positions '1::' on a batch of shape [2, 1], which select no token; expected at least one")
    assert not (tmp_path / "out" / "report.html").exists()


def copied(folder: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    return copy


def configured(copy: Path, **entries: object) -> None:
    path = copy / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda copy: (copy / "model.safetensors").unlink(), "without weights; expected a .safetensors file beside config.json"),
        (lambda copy: configured(copy, quantization_config={"quant_method": "awq"}), "whose weights are quantised (awq)"),
        (lambda copy: configured(copy, model_type="own", auto_map={"AutoModelForCausalLM": "m.Own"}), "trust_remote_code=True"),
        (lambda copy: (copy / "model.safetensors").write_bytes(b"cut"), "which transformers cannot load ("),
    ],
    ids=["no weights", "quantised", "own code", "truncated"],
)
def test_a_bad_model_is_one_line(folder, tmp_path, capsys, spoil, message):
    copy = copied(folder, tmp_path)
    spoil(copy)
    assert message in refused(capsys, str(copy), str(csv(tmp_path)), "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_truncated_gguf_file_is_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("INVARISCOPE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "tiny.gguf"
    write_tiny_gguf(path)
    path.write_bytes(path.read_bytes()[:2000])
    assert main(["core", str(path), str(csv(tmp_path)), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    # Above it stands what takes long.
    assert [line.split()[0] for line in said] == ["Dequantising", "error:"]
    assert "tiny.gguf, which cannot be read to its end" in said[1]
    assert not (tmp_path / "out").exists()


def test_a_name_that_is_nothing_is_refused(folder, capsys):
    said = refused(capsys, str(folder), "agrement")
    assert "neither a file nor a built-in behaviour" in said
    assert "agreement, " in said


def test_a_layer_that_is_not_there_is_refused(folder, tmp_path, capsys):
    words = [str(folder), str(csv(tmp_path)), "--layers", "7", "--out", str(tmp_path / "o")]
    assert "layers [7] of a model of 3 layers" in refused(capsys, *words)
