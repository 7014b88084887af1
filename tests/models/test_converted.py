"""Dequantised copies: made once, sealed, made anew when damaged, and never half."""

from __future__ import annotations

import json

import pytest
import torch

from invariscope.errors import FolderError, ForeignFileError
from invariscope.models import converted
from invariscope.models.converted import cache_folder, converted_copy, file_digest, quiet_transformers


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
