"""Files as a whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import resource
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from invariscope.errors import ConfigError, FolderError, ForeignFileError, NonFiniteError
from invariscope.storage.atomic import is_temporary, read_json, write_bytes, write_json, write_text

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_bytes_replace_the_old_file_and_make_folders_on_the_way(tmp_path: Path):
    path = tmp_path / "a" / "b" / "file"
    write_bytes(path, b"old")
    write_bytes(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(path.parent) == ["file"]


def test_the_file_has_the_permissions_of_an_ordinary_file(tmp_path: Path):
    write_text(tmp_path / "ours", "x")
    (tmp_path / "ordinary").write_text("x")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


@given(value=json_values)
@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_json_comes_back_as_it_went(value, tmp_path: Path):
    try:
        write_json(tmp_path / "value.json", value)
    except UnicodeEncodeError:
        return  # a lone surrogate is no text
    assert read_json(tmp_path / "value.json") == value
    assert repr(read_json(tmp_path / "value.json")) == repr(value)  # 1 and 1.0, 0.0 and -0.0, and the keys' order


def test_json_has_a_fixed_form(tmp_path: Path):
    write_json(tmp_path / "value.json", {"b": 1, "a": [0.1], "π": "ä"})
    assert (tmp_path / "value.json").read_text(encoding="utf-8") == '{\n "b": 1,\n "a": [\n  0.1\n ],\n "π": "ä"\n}\n'


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_json_has_no_number_for_is_refused_before_anything_is_written(bad: float, tmp_path: Path):
    path = tmp_path / "claims.json"
    write_json(path, {"measured": 1.0})
    with pytest.raises(NonFiniteError, match=r"NaN or infinity among the values of .*claims\.json; expected finite .*; find out"):
        write_json(path, {"measured": [bad]})
    assert read_json(path) == {"measured": 1.0}
    assert os.listdir(tmp_path) == ["claims.json"]


def test_what_json_does_not_have_at_all_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"not JSON serializable\); expected None, numbers.*; turn it into those"):
        write_json(tmp_path / "value.json", {"path": tmp_path})
    assert os.listdir(tmp_path) == []


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path):
    path = tmp_path / "file"
    write_bytes(path, b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # the system itself refuses to write further
    try:
        with pytest.raises(FolderError) as caught:
            write_bytes(path, b"x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(path) in caught.value.given
    assert os.strerror(errno.EFBIG) in caught.value.given
    assert "--out" in caught.value.do
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_every_step_that_the_disk_may_refuse_is_reported_and_cleaned_up(step: str, number: int, tmp_path: Path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    write_bytes(tmp_path / "file", b"old")
    monkeypatch.setattr(os, step, refuse)
    with pytest.raises(FolderError, match=os.strerror(number)):
        write_bytes(tmp_path / "file", b"new")
    monkeypatch.undo()
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_an_interrupt_passes_through_and_leaves_no_temporary_file(tmp_path: Path, monkeypatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_bytes(tmp_path / "file", b"new")
    assert os.listdir(tmp_path) == []


def test_a_file_where_a_folder_belongs_is_named(tmp_path: Path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(FolderError, match=r"out/file, which cannot be written \((Not a directory|File exists)\)"):
        write_bytes(tmp_path / "out" / "file", b"x")


@pytest.mark.parametrize(
    "content",
    [b"", b'{"a": 1', b"hello", b"\xff\xfe\x00", b'{"a": NaN}', b"[Infinity]", b"[" * 100_000, b'{"a": 1} x', b"[1e999]"],
    ids=["empty", "cut off", "text", "binary", "NaN", "Infinity", "deep", "more", "too large"],
)
def test_foreign_content_is_refused_by_name(content: bytes, tmp_path: Path):
    path = tmp_path / "claims.json"
    path.write_bytes(content)
    with pytest.raises(ForeignFileError, match=r"claims\.json, which is no whole JSON file.*; expected a file.*; restore"):
        read_json(path)


@pytest.mark.parametrize("make", [lambda path: None, Path.mkdir], ids=["missing", "a folder"])
def test_what_cannot_be_read_is_named_with_the_reason(make, tmp_path: Path):
    make(tmp_path / "x.json")
    with pytest.raises(ForeignFileError, match=r"x\.json, which cannot be read \((No such file|Is a directory).*check the path"):
        read_json(tmp_path / "x.json")


def test_temporary_names_are_recognised(tmp_path: Path, monkeypatch):
    seen: list[str] = []
    monkeypatch.setattr(os, "replace", lambda source, target: seen.append(Path(source).name))
    write_bytes(tmp_path / "file.json", b"x")
    assert [is_temporary(name) for name in seen] == [True]
    assert not any(is_temporary(name) for name in ("file.json", ".lock", "notes.tmp", ".hidden.tmp", "x.0123abcd.tmp"))


def test_a_document_is_written_with_a_checksum_that_reading_takes_out(tmp_path: Path):
    path, document = tmp_path / "x.json", {"schema_version": 1, "measured": 0.91, "text": "\udcff ä"}
    write_json(path, document)
    assert read_json(path) == document
    seal = json.loads(path.read_text())["sha256"]
    assert list(json.loads(path.read_text())) == ["schema_version", "measured", "text", "sha256"]
    path.write_text(json.dumps(json.loads(path.read_text())))  # the values count, not the spaces
    assert read_json(path) == document
    path.write_text(path.read_text().replace("0.91", "0.93"))
    with pytest.raises(ForeignFileError, match=r"x\.json, which .* \(its checksum does not fit its content\); expected"):
        read_json(path)
    path.write_text(json.dumps(document))  # as an older version wrote it
    assert read_json(path) == document
    write_json(path, {"measured": 0.91})
    assert seal not in path.read_text()
    assert "sha256" not in path.read_text()


def test_values_read_are_json_for_other_programs_too(tmp_path: Path):
    write_json(tmp_path / "x.json", {"a": (1, 2)})
    assert json.loads((tmp_path / "x.json").read_text()) == {"a": [1, 2]}
