"""Files that are either the old ones or the new ones, and never half of one.

A file is written under a temporary name in its own folder, forced to the disk and then renamed over the old one: renaming
inside one file system is atomic (POSIX ``rename``), so a process that is killed at any moment leaves the old file, the new
file, or the old file and a temporary one that :func:`is_temporary` recognises.

A JSON object that states its ``schema_version`` is one of our documents (manifest, claims, figure): it is written with the
SHA-256 of its values as its last entry, which reading checks and takes out again. JSON has no redundancy of its own, and one
flipped bit turns a measured 0.91 into a 0.93 that nothing else would notice.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> write_json(folder / "seeds.json", {"seeds": [0, 1]})
>>> read_json(folder / "seeds.json"), [path.name for path in folder.iterdir()]
({'seeds': [0, 1]}, ['seeds.json'])
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import secrets
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from invariscope.errors import ConfigError, FolderError, ForeignFileError, NonFiniteError

__all__ = [
    "JSON",
    "dump_json",
    "encode_text",
    "is_temporary",
    "read_bytes",
    "read_json",
    "write_bytes",
    "write_json",
    "write_text",
]

# None, bool, int, float, str, and lists and string-keyed dictionaries of them. The recursive type itself refuses dict[str, float]
# where dict[str, JSON] is asked for, and everything read would have to be narrowed at each use.
JSON: TypeAlias = Any

_SEAL = "sha256"
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
    """Write ``text`` to ``path`` in UTF-8, as :func:`write_bytes` does.

    What UTF-8 does not have, such as the bytes of an odd file name on the command line, is written as ``\\udcff``: in JSON
    that is the very same text.
    """
    write_bytes(path, encode_text(text))


def encode_text(text: str) -> bytes:
    r"""``text`` in UTF-8, a lone surrogate as its escape.

    >>> encode_text("\udcff")
    b'\\udcff'
    """
    return text.encode(errors="backslashreplace")


def write_json(path: Path | str, value: JSON) -> None:
    """Write ``value`` to ``path`` as JSON: keys in the order given, indented by one, one newline at the end.

    Equal values give equal bytes. An object with a ``schema_version`` gets its checksum as the last entry.

    Raises:
        NonFiniteError: for NaN and infinity, which JSON does not have.
        ConfigError: for tensors, paths and whatever else JSON does not have.
        FolderError: as :func:`write_bytes`.
    """
    if _is_document(value):
        value = {**value, _SEAL: _seal_of(value, what=str(path))}
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
    """The JSON value in ``path``, without the checksum that :func:`write_json` adds to an object with a ``schema_version``.

    Raises:
        ForeignFileError: where the file is missing, cut off or no JSON; NaN and infinity, also as 1e999, are no JSON; and where
            there is a checksum and it does not fit. One without any is taken as it is.
    """
    data = read_bytes(path)
    try:
        value = json.loads(data.decode(), parse_constant=_refuse_constant, parse_float=_finite_float)
        if _is_document(value) and _SEAL in value:
            seal = value.pop(_SEAL)
            if seal != _seal_of(value, what=str(path)):
                raise ValueError("its checksum does not fit its content")
        return value
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


def _is_document(value: JSON) -> bool:
    return isinstance(value, dict) and "schema_version" in value


def _seal_of(document: JSON, *, what: str) -> str:
    """SHA-256 of the values, not of the bytes: indenting the file anew does no harm."""
    return hashlib.sha256(encode_text(dump_json(document, what=what))).hexdigest()


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _finite_float(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_constant(text)


def _sync_folder(folder: Path) -> None:
    # Without this the rename itself may be lost with the power; where a file system cannot do it, the file is whole all the same.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
