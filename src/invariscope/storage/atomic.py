"""Files that are either the old ones or the new ones, and never half of one.

A file is written under a temporary name in its own folder, forced to the disk and then renamed over the old one: renaming
inside one file system is atomic (POSIX ``rename``), so a process that is killed at any moment leaves the old file, the new
file, or the old file and a temporary one that :func:`is_temporary` recognises.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> write_json(folder / "seeds.json", {"seeds": [0, 1]})
>>> read_json(folder / "seeds.json"), [path.name for path in folder.iterdir()]
({'seeds': [0, 1]}, ['seeds.json'])
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from invariscope.errors import ConfigError, FolderError, ForeignFileError, NonFiniteError

__all__ = ["JSON", "dump_json", "is_temporary", "read_bytes", "read_json", "write_bytes", "write_json", "write_text"]

# None, bool, int, float, str, and lists and string-keyed dictionaries of them. The recursive type itself refuses dict[str, float]
# where dict[str, JSON] is asked for, and everything read would have to be narrowed at each use.
JSON: TypeAlias = Any

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.tmp")


def write_bytes(path: Path | str, data: bytes) -> None:
    """Write ``data`` to ``path`` as a whole or not at all; folders on the way are made.

    Raises:
        FolderError: where the disk is full, read-only or otherwise refuses; the old file, if there was one, is untouched.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise FolderError(
            f"{path}, which cannot be written ({error.strerror or error})",
            expected="a folder on a disk with free space that this user may write to",
            do="free some space, mend the permissions, or choose another folder with --out",
        ) from error


def write_text(path: Path | str, text: str) -> None:
    """Write ``text`` to ``path`` in UTF-8, as :func:`write_bytes` does."""
    write_bytes(path, text.encode())


def write_json(path: Path | str, value: JSON) -> None:
    """Write ``value`` to ``path`` as JSON: keys in the order given, indented by one, one newline at the end.

    Equal values give equal bytes.

    Raises:
        NonFiniteError: for NaN and infinity, which JSON does not have.
        ConfigError: for tensors, paths and whatever else JSON does not have.
        FolderError: as :func:`write_bytes`.
    """
    write_text(path, dump_json(value, what=str(path), indent=1) + "\n")


def dump_json(value: JSON, *, what: str, indent: int | None = None, sort_keys: bool = False) -> str:
    """``value`` as strict JSON text; ``what`` names it in the error.

    Raises:
        NonFiniteError: for NaN and infinity, which JSON does not have.
        ConfigError: for tensors, paths and whatever else JSON does not have.
    """
    try:
        return json.dumps(value, indent=indent, sort_keys=sort_keys, allow_nan=False, ensure_ascii=False)
    except ValueError as error:
        raise NonFiniteError(
            f"NaN or infinity among the values of {what}",
            expected="finite numbers, or null for what was not measured",
            do="find out where the number comes from before writing it",
        ) from error
    except TypeError as error:
        raise ConfigError(
            f"something among the values of {what} that JSON does not have ({error})",
            expected="None, numbers, texts, and lists and string-keyed dictionaries of them",
            do="turn it into those first, such as a tensor by .tolist() and a path by str()",
        ) from error


def read_json(path: Path | str) -> JSON:
    """The JSON value in ``path``.

    Raises:
        ForeignFileError: where the file is missing, cut off or no JSON; NaN and infinity are no JSON.
    """
    data = read_bytes(path)
    try:
        return json.loads(data.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ForeignFileError(
            f"{path}, which is no whole JSON file ({error})",
            expected="a file that invariscope wrote",
            do="restore the file from a copy, or remove it and run the command again",
        ) from error


def read_bytes(path: Path | str) -> bytes:
    """What stands in ``path``.

    Raises:
        ForeignFileError: where it cannot be read, with the operating system's reason.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ForeignFileError(
            f"{path}, which cannot be read ({error.strerror or error})",
            expected="a file that invariscope wrote",
            do="check the path",
        ) from error


def is_temporary(name: str) -> bool:
    """Whether ``name`` is one of ours for a file that was being written.

    >>> is_temporary(".manifest.json.0123abcd.tmp"), is_temporary("notes.tmp")
    (True, False)
    """
    return _TEMPORARY.fullmatch(name) is not None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _sync_folder(folder: Path) -> None:
    # Without this the rename itself may be lost with the power; where a file system cannot do it, the file is whole all the same.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
