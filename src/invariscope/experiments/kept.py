"""What was measured already is kept: a record in a sealed file, read back by whoever runs the study again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from invariscope.errors import ForeignFileError
from invariscope.storage.atomic import read_json, write_json
from invariscope.storage.records import from_json_record, to_json_record

__all__ = ["keep_record"]

SCHEMA_VERSION = 1


def keep_record(path: Path, kind: type, make: Callable[[], Any]) -> Any:
    """The findings in ``path``; where there is no such file, what ``make`` finds, written there.

    Args:
        path: the file. kind: the dataclass of the findings. make: finds them.

    Returns:
        The findings as JSON values.

    Raises:
        ForeignFileError: for a damaged file, or one of something else. ConfigError: for a record of another version's fields.
    """
    if not path.exists():
        record = to_json_record(make())
        write_json(path, {"schema_version": SCHEMA_VERSION, "findings": record})
        return record
    kept = read_json(path)
    if not isinstance(kept, dict) or "findings" not in kept:
        raise ForeignFileError(
            f"{path}, which holds no findings", expected="what this study measured", do="delete it and run again"
        )
    # Read back as the record it is, so that a damaged one is refused by name.
    return to_json_record(from_json_record(kind, kept["findings"]))
