"""Dequantised copies: made once, sealed, made anew when damaged, and never half."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
import threading

import pytest
import torch
import transformers
from safetensors import SafetensorError

from invariscope.errors import FolderError, ForeignFileError
from invariscope.models import converted, load_language_model
from invariscope.models.converted import cache_folder, converted_copy, file_digest, quiet_transformers
from tiny_gguf import write_tiny_gguf


@pytest.fixture
def made(monkeypatch):
    """Conversions, each of which writes two small files in place of a model."""
    calls = []

    def convert(paths, scratch, folder):
        calls.append([path.name for path in paths])
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(b"".join(path.read_bytes() for path in paths))
        files = {path.name: file_digest([path]) for path in folder.iterdir()}
        (folder / converted.SEAL_NAME).write_text(json.dumps({"schema_version": 1, "files": files}))

    monkeypatch.setattr(converted, "_convert", convert)
    # A seal of ours has its own digest; here plain JSON stands for it.
    monkeypatch.setattr(converted, "read_json", lambda path: json.loads(path.read_text()))
    return calls


def parts(folder):
    paths = [folder / "a.part0", folder / "a.part1"]
    for number, path in enumerate(paths):
        path.write_bytes(bytes([number]) * 100)
    return paths


def test_a_copy_is_made_once_under_the_digest_of_all_parts(tmp_path, made):
    said = []
    first = converted_copy(parts(tmp_path), cache=tmp_path / "cache", say=said.append)
    again = converted_copy(parts(tmp_path), cache=tmp_path / "cache", say=said.append)
    assert first == again
    assert first.name.startswith(file_digest(parts(tmp_path))[:16])
    assert made == [["a.part0", "a.part1"]]
    assert len(said) == 1
    assert "once" in said[0]
    assert [path.name for path in first.parent.iterdir()] == [first.name]


def test_a_damaged_copy_is_made_anew_and_said(tmp_path, made):
    said = []
    copy = converted_copy(parts(tmp_path), cache=tmp_path / "cache")
    (copy / "model.safetensors").write_bytes(b"x")
    assert converted_copy(parts(tmp_path), cache=tmp_path / "cache", say=said.append) == copy
    assert (copy / "model.safetensors").stat().st_size == 200
    assert said == [f"The copy in {copy} is damaged: it is made anew"]


def test_the_wrong_file_is_refused_before_anything_is_made(tmp_path, made):
    with pytest.raises(ForeignFileError, match=r"a\.part0 with SHA-256 .* expected the published file, 0123456789ab"):
        converted_copy(parts(tmp_path), sha256="0123456789abcdef", cache=tmp_path / "cache")
    assert made == []
    assert not (tmp_path / "cache").exists()


def test_a_second_process_that_was_slower_takes_the_first_one_s_copy(tmp_path, made, monkeypatch):
    convert = converted._convert

    def meanwhile(paths, scratch, folder):
        convert(paths, scratch, folder)
        target = tmp_path / "cache" / "models" / f"{file_digest(paths)[:16]}-v1"
        convert(paths, scratch, target)

    monkeypatch.setattr(converted, "_convert", meanwhile)
    copy = converted_copy(parts(tmp_path), cache=tmp_path / "cache")
    assert (copy / "model.safetensors").stat().st_size == 200
    assert [path.name for path in copy.parent.iterdir()] == [copy.name]


def test_of_two_at_once_the_second_waits_and_takes_the_first_one_s_copy(tmp_path, made, monkeypatch):
    convert, waiting = converted._convert, threading.Event()

    def slowly(*arguments):
        assert waiting.wait(60)
        convert(*arguments)

    monkeypatch.setattr(converted, "_convert", slowly)
    paths, said, copies = parts(tmp_path), [], []

    def say(line):
        said.append(line)
        if "waiting" in line:
            waiting.set()

    both = [
        threading.Thread(target=lambda: copies.append(converted_copy(paths, cache=tmp_path / "cache", say=say))) for _ in range(2)
    ]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert len(made) == 1
    assert len(set(copies)) == 1
    assert sorted(line.split()[0] for line in said) == ["Another", "Dequantising"]


def test_a_file_system_that_cannot_lock_does_not_stand_in_the_way(tmp_path, made, monkeypatch):
    def refuse(descriptor, operation):
        raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr(converted.fcntl, "flock", refuse)
    assert (converted_copy(parts(tmp_path), cache=tmp_path / "cache") / "config.json").is_file()


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ForeignFileError, match=r"gone\.gguf, which cannot be read \(No such file"):
        converted_copy([tmp_path / "gone.gguf"], cache=tmp_path / "cache")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A real GGUF file and the model in it."""
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    return path, write_tiny_gguf(path)


TOKENS = torch.tensor([[1, 5, 9, 20, 44, 3]])


def test_the_copy_is_the_model_that_the_file_was_written_from(tiny, tmp_path, capsys):
    path, model = tiny
    lm = load_language_model(path, cache=tmp_path)
    assert torch.equal(lm.model(TOKENS).logits, model(TOKENS).logits)
    assert lm.pieces(lm.encode("ab cab")) == ["ab", " ", "c", "ab"]
    assert lm.source == f"file {path}"
    # One line about what takes long, where it does not mix with results; no bars.
    said = capsys.readouterr()
    assert said.out == ""
    assert [line.split()[:2] for line in said.err.splitlines()] == [["Dequantising", "tiny.gguf"]]
    load_language_model(path, cache=tmp_path)
    assert capsys.readouterr() == ("", "")


def test_parts_are_joined_in_order_and_the_joined_file_does_not_stay(tiny, tmp_path):
    path, _ = tiny
    content, third = path.read_bytes(), path.stat().st_size // 3
    cuts = [content[:third], content[third : 2 * third], content[2 * third :]]
    paths = [tmp_path / f"tiny.part{number}" for number in range(3)]
    for part, cut in zip(paths, cuts, strict=True):
        part.write_bytes(cut)
    copy = converted_copy(paths, sha256=file_digest([path]), cache=tmp_path / "cache")
    assert (copy / "model.safetensors").is_file()
    assert [left.name for left in copy.parent.iterdir()] == [copy.name]


@pytest.mark.parametrize("share", [0.05, 0.4, 0.99])
def test_a_file_that_ends_early_is_refused_and_leaves_nothing(tiny, tmp_path, share):
    path, _ = tiny
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(
        ForeignFileError, match=r"cut\.gguf, which cannot be read to its end .*; expected a whole GGUF file; copy"
    ):
        converted_copy([cut], cache=tmp_path / "cache")
    assert not list((tmp_path / "cache" / "models").iterdir())


def test_a_kill_leaves_no_copy_in_use_and_the_next_one_clears_up(tiny, tmp_path):
    path, model = tiny
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from invariscope.models import converted\n"
        "converted.write_json = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)\n"
        "converted.converted_copy([Path(sys.argv[1])], cache=Path(sys.argv[2]))\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(path), str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    [left] = (tmp_path / "models").iterdir()
    assert (left / "copy" / "model.safetensors").is_file()
    lm = load_language_model(path, cache=tmp_path)
    assert torch.equal(lm.model(TOKENS).logits, model(TOKENS).logits)
    assert [entry.name for entry in (tmp_path / "models").iterdir()] == [f"{file_digest([path])[:16]}-v1"]


def test_a_full_disk_is_the_cache_s_fault_and_not_the_file_s(tiny, tmp_path, monkeypatch):
    def full(self, folder):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(transformers.PreTrainedModel, "save_pretrained", full)
    with pytest.raises(FolderError, match=r"No space left on device.*; expected a cache folder with room .*INVARISCOPE_CACHE"):
        converted_copy([tiny[0]], cache=tmp_path)
    assert not list((tmp_path / "models").iterdir())


def test_a_cache_that_cannot_be_written_is_named(tmp_path, made):
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="INVARISCOPE_CACHE"):
        converted_copy(parts(tmp_path), cache=tmp_path / "file")


def test_the_cache_is_the_user_s_unless_named(monkeypatch, tmp_path):
    monkeypatch.delenv("INVARISCOPE_CACHE", raising=False)
    assert cache_folder().name == "invariscope"
    monkeypatch.setenv("INVARISCOPE_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path


@pytest.mark.parametrize("content", [b"", b"not a model", b"GGUF", b"GGUF\x03\x00\x00\x00" + b"\xff" * 64])
def test_a_truncated_or_foreign_file_is_refused_by_name(tmp_path, content):
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(ForeignFileError, match=r"model\.gguf"):
        converted_copy([path], cache=tmp_path / "cache")
    assert not list((tmp_path / "cache" / "models").iterdir())


def test_progress_bars_are_as_before_also_after_an_error():
    from transformers.utils import logging

    before = logging.is_progress_bar_enabled()
    inside = []

    def fail():
        with quiet_transformers():
            inside.append(logging.is_progress_bar_enabled())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert inside == [False]
    assert logging.is_progress_bar_enabled() == before
    assert torch.is_grad_enabled()
