"""The log of a training: cut to the step that is resumed from, and readable whoever was killed when."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from invariscope.errors import FolderError, ForeignFileError, NonFiniteError
from invariscope.training.events import EventLog, read_events


@pytest.fixture
def path(tmp_path: Path) -> Path:
    log = EventLog(tmp_path / "metrics.jsonl", resume_step=None)
    for step in (5, 10, 15):
        log.write({"step": step, "train_loss": 1 / step})
    log.close()
    return tmp_path / "metrics.jsonl"


def steps(path: Path) -> list[int]:
    return [event["step"] for event in read_events(path)]


def test_numbers_come_back_to_the_last_bit(path: Path):
    assert read_events(path) == [{"step": step, "train_loss": 1 / step} for step in (5, 10, 15)]


@pytest.mark.parametrize(
    ("resume_step", "kept"), [(None, []), (0, []), (9, [5]), (10, [5, 10]), (12, [5, 10]), (99, [5, 10, 15])]
)
def test_lines_after_the_resumed_step_are_cut(path: Path, resume_step: int | None, kept: list[int]):
    EventLog(path, resume_step=resume_step).close()
    assert steps(path) == kept


def test_a_line_that_a_kill_cut_short_is_dropped_on_resuming_and_refused_on_reading(path: Path):
    whole = path.read_text()
    path.write_text(whole + '{"step": 20, "tra')
    with pytest.raises(ForeignFileError) as caught:
        read_events(path)
    assert caught.value.given == f"""line 4 of {path}: '{{"step": 20, "tra'"""
    assert caught.value.expected == "a JSON object with a step"
    assert caught.value.do == "delete the run and train anew"
    EventLog(path, resume_step=15).close()
    assert path.read_text() == whole


@pytest.mark.parametrize("line", ["3", "[1]", "{}", '{"step": "3"}', '{"step": null}', "nonsense"])
def test_a_whole_line_that_is_no_event_is_refused_on_resuming_too(path: Path, line: str):
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(ForeignFileError, match=r"line 4 of .*; expected a JSON object with a step"):
        EventLog(path, resume_step=15)


def test_a_missing_or_binary_file_is_refused_by_name(tmp_path: Path):
    with pytest.raises(ForeignFileError, match=r"metrics\.jsonl.*; expected a metrics\.jsonl; give the folder of a run"):
        read_events(tmp_path / "metrics.jsonl")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ForeignFileError, match="binary"):
        read_events(tmp_path / "binary")


def test_what_json_does_not_have_is_refused_and_not_written(path: Path):
    log = EventLog(path, resume_step=15)
    with pytest.raises(NonFiniteError, match="the event of step 20"):
        log.write({"step": 20, "train_loss": float("nan")})
    log.close()
    assert steps(path) == [5, 10, 15]


def test_a_log_that_does_not_fit_its_checksum_is_refused_and_left_as_it_is(path: Path):
    log = EventLog(path, resume_step=10)
    digest = log.sync()
    log.write({"step": 15, "train_loss": 0.5})
    assert log.sync() != digest
    log.close()
    EventLog(path, resume_step=10, digest=digest).close()
    assert read_events(path, digest=digest) == read_events(path)
    path.write_text(damaged := path.read_text().replace("0.2", "0.3"))
    for read in (lambda: EventLog(path, resume_step=10, digest=digest), lambda: read_events(path, digest=digest)):
        with pytest.raises(ForeignFileError, match=r"metrics\.jsonl, which is damaged: its checksum .*; expected .*; restore it"):
            read()
    assert path.read_text() == damaged


def test_a_disk_that_is_full_is_said_and_the_begun_line_is_cut_on_resuming(path: Path, monkeypatch: pytest.MonkeyPatch):
    whole, log = path.read_text(), EventLog(path, resume_step=15)
    write = os.write

    def fills_up(descriptor: int, data: bytes) -> int:
        if len(data) < 20:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data[: len(data) - 10])

    monkeypatch.setattr(os, "write", fills_up)
    with pytest.raises(FolderError, match=r"metrics\.jsonl, which .* \(No space left on device\).*; free some space"):
        log.write({"step": 20, "train_loss": 0.25})
    log.close()
    monkeypatch.undo()
    assert path.read_text().startswith(whole + '{"step": 20')
    EventLog(path, resume_step=20).close()
    assert path.read_text() == whole


@pytest.mark.parametrize("line", ['{"step": 1, "train_loss": NaN}', '{"step": 1, "x": ' + "[" * 100_000])
def test_no_number_and_endless_nesting_are_no_events(line: str, tmp_path: Path):
    (tmp_path / "metrics.jsonl").write_text(line + "\n")
    with pytest.raises(ForeignFileError, match=r"line 1 of .*metrics\.jsonl"):
        read_events(tmp_path / "metrics.jsonl")


def test_lines_reach_the_disk_while_the_log_is_open(tmp_path: Path):
    log = EventLog(tmp_path / "metrics.jsonl", resume_step=None)
    log.write({"step": 1})
    assert steps(tmp_path / "metrics.jsonl") == [1]
    log.close()
