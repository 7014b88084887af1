"""What happened during a training, one JSON line an event, in ``metrics.jsonl``.

A line is written whole and flushed. A run that resumes at step s first cuts the file to the lines up to s, so that the lines
after it are written once, whoever was killed when. Numbers have no redundancy of their own: what :meth:`EventLog.sync` returns
stands in the checkpoint beside the log, and a log that does not fit it is refused.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "metrics.jsonl"
>>> log = EventLog(path, resume_step=None)
>>> log.write({"step": 50, "train_loss": 1.25})
>>> log.close()
>>> read_events(path)
[{'step': 50, 'train_loss': 1.25}]
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, NoReturn

from invariscope.errors import FolderError, ForeignFileError
from invariscope.storage.atomic import dump_json, write_text

__all__ = ["EventLog", "read_events"]


class EventLog:
    """Append-only log of a training.

    Args:
        path: the file.
        resume_step: lines of later steps are cut off first; None starts anew.
        digest: what :meth:`sync` returned at ``resume_step``; None: not known.

    Raises:
        ForeignFileError: for a damaged log, which is left as it is.
        FolderError: where the disk refuses.
    """

    def __init__(self, path: Path, *, resume_step: int | None, digest: str | None = None) -> None:
        kept = [] if resume_step is None or not path.exists() else read_events(path, whole_lines_only=True)
        text = "".join(_line(event) for event in kept if event["step"] <= (resume_step or 0))
        _check_digest(path, text, digest)
        write_text(path, text)
        self._path, self._hash = path, hashlib.sha256(text.encode())
        try:
            # Unbuffered: what a full disk does not take must not be tried again while the file is closed.
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise _refused(path, error) from error

    def sync(self) -> str:
        """Force the log to the disk, and return the SHA-256 of it as it is now.

        Raises:
            FolderError: where the disk refuses.
        """
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise _refused(self._path, error) from error
        return self._hash.hexdigest()

    def write(self, event: dict[str, Any]) -> None:
        """Add one event; it must have a ``step``.

        Raises:
            NonFiniteError: for NaN and infinity, which JSON does not have; nothing is then written.
            FolderError: where the disk refuses; what is then left of the line is cut off when the training is resumed.
        """
        assert "step" in event, event
        line = _line(event).encode()
        try:
            # A disk that fills up takes part of a line without an error, and refuses the rest.
            written = 0
            while written < len(line):
                written += os.write(self._file.fileno(), line[written:])
        except OSError as error:
            raise _refused(self._path, error) from error
        self._hash.update(line)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _line(event: dict[str, Any]) -> str:
    return dump_json(event, what=f"the event of step {event['step']}") + "\n"


def _refused(path: Path, error: OSError) -> FolderError:
    return FolderError(
        f"{path}, which cannot be written ({error.strerror or error})",
        expected="a folder on a disk with free space that this user may write to",
        do="free some space, mend the permissions, or choose another folder with --out",
    )


def _check_digest(path: Path, text: str, digest: str | None) -> None:
    if digest is not None and hashlib.sha256(text.encode()).hexdigest() != digest:
        raise ForeignFileError(
            f"{path}, which is damaged: its checksum is not that of the checkpoint beside it",
            expected="the metrics.jsonl that this training wrote",
            do="restore it from a copy, or delete the run and train anew",
        )


def read_events(path: Path, *, whole_lines_only: bool = False, digest: str | None = None) -> list[dict[str, Any]]:
    """All events of a log, in order.

    Args:
        path: the file.
        whole_lines_only: stop at a last line that a kill cut short, instead of refusing it.
        digest: what :meth:`EventLog.sync` returned at its end; None: not known.

    Raises:
        ForeignFileError: for a missing file, a line that is no event, or a log that is not the one of ``digest``.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ForeignFileError(f"{path}: {error}", expected="a metrics.jsonl", do="give the folder of a run") from error
    events = []
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        if whole_lines_only and not line.endswith("\n"):
            break
        try:
            event = json.loads(line, parse_constant=_no_number)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict) or not isinstance(event.get("step"), int):
            raise ForeignFileError(
                f"line {number} of {path}: {line[:60]!r}",
                expected="a JSON object with a step",
                do="delete the run and train anew",
            )
        events.append(event)
    _check_digest(path, text, digest)
    return events


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
