"""What happened during a training, one JSON line an event, in ``metrics.jsonl``.

A line is written whole and flushed. A run that resumes at step s first cuts the file to the lines up to s, so that the lines
after it are written once, whoever was killed when.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "metrics.jsonl"
>>> log = EventLog(path, resume_step=None)
>>> log.write({"step": 50, "train_loss": 1.25})
>>> log.close()
>>> read_events(path)
[{'step': 50, 'train_loss': 1.25}]
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from invariscope.errors import ForeignFileError
from invariscope.storage.atomic import dump_json, write_text

__all__ = ["EventLog", "read_events"]


class EventLog:
    """Append-only log of a training.

    Args:
        path: the file.
        resume_step: lines of later steps are cut off first; None starts anew.
    """

    def __init__(self, path: Path, *, resume_step: int | None) -> None:
        kept = [] if resume_step is None or not path.exists() else read_events(path, whole_lines_only=True)
        kept = [event for event in kept if event["step"] <= (resume_step or 0)]
        write_text(path, "".join(_line(event) for event in kept))
        self._file = path.open("a", encoding="utf-8")

    def write(self, event: dict[str, Any]) -> None:
        """Add one event; it must have a ``step``.

        Raises:
            NonFiniteError: for NaN and infinity, which JSON does not have; nothing is then written.
        """
        assert "step" in event, event
        self._file.write(_line(event))
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _line(event: dict[str, Any]) -> str:
    return dump_json(event, what=f"the event of step {event['step']}") + "\n"


def read_events(path: Path, *, whole_lines_only: bool = False) -> list[dict[str, Any]]:
    """All events of a log, in order.

    Args:
        path: the file.
        whole_lines_only: stop at a last line that a kill cut short, instead of refusing it.

    Raises:
        ForeignFileError: for a missing file or a line that is no event.
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
            event = json.loads(line)
        except ValueError:
            event = None
        if not isinstance(event, dict) or not isinstance(event.get("step"), int):
            raise ForeignFileError(
                f"line {number} of {path}: {line[:60]!r}",
                expected="a JSON object with a step",
                do="delete the run and train anew",
            )
        events.append(event)
    return events
