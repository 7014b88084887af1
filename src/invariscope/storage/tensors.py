"""Tensors on disk: a safetensors file that knows what it is and notices when a bit of it has changed.

The format is safetensors, which runs no code when it is read. Its metadata hold one entry, ``invariscope``: JSON with the
schema's version, the ``kind`` of thing stored, the caller's metadata, the tied names, and the SHA-256 of the whole file (taken
with zeros in the digest's own place). So a file that is cut off, damaged, somebody else's, or of another kind is refused by name,
and equal tensors and metadata give equal bytes.

>>> import tempfile, torch
>>> path = Path(tempfile.mkdtemp()) / "core.safetensors"
>>> save_tensors(path, {"mean": torch.zeros(2)}, kind="core", metadata={"rank": 3})
>>> tensors, metadata = load_tensors(path, kind="core")
>>> tensors["mean"].tolist(), metadata
([0.0, 0.0], {'rank': 3})
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invariscope.errors import ConfigError, ForeignFileError
from invariscope.storage.atomic import JSON, dump_json, read_bytes, write_bytes

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["TENSORS_SCHEMA_VERSION", "load_tensors", "save_tensors"]

TENSORS_SCHEMA_VERSION = 1

_ENTRY = "invariscope"
_BLANK = "0" * 64
# More than any header of ours, and far less than memory: a damaged length must not make us read on.
_MAX_HEADER_BYTES = 100_000_000


def save_tensors(path: Path | str, tensors: Mapping[str, Tensor], *, kind: str, metadata: Mapping[str, JSON]) -> None:
    """Write ``tensors`` and ``metadata`` to ``path``, as a whole or not at all.

    Args:
        path: the file; folders on the way are made.
        tensors: dense tensors of any shape and device. Names that share one tensor (same storage, offset, shape, strides and
            type: tied weights) are written once, under the alphabetically first. Tensors that merely overlap are written
            one by one.
        kind: what this file holds, such as ``core`` or ``checkpoint``; asked for again on loading.
        metadata: a JSON dictionary.

    Raises:
        ConfigError: for a type of number that safetensors does not have, such as complex128.
        NonFiniteError: for NaN or infinity in the metadata (tensors may hold them).
        FolderError: where the disk refuses.

    Notes:
        The order of ``tensors`` does not matter to the bytes; that of the keys in ``metadata`` does.
    """
    from safetensors.torch import save

    unique, ties = _without_ties(tensors)
    dense = {}
    for name, tensor in unique.items():
        # A clone, so that neither views nor an optimiser that steps meanwhile reach what is being written.
        dense[name] = tensor.detach().cpu().resolve_conj().resolve_neg().clone().contiguous()
    entry = {
        "schema_version": TENSORS_SCHEMA_VERSION,
        "kind": kind,
        "sha256": _BLANK,
        "ties": ties,
        "metadata": dict(metadata),
    }
    try:
        blank = save(dense, {_ENTRY: dump_json(entry, what=f"the metadata of {path}")})
    except KeyError as error:  # what safetensors says about a type that it does not know
        types = ", ".join(f"{name} {tensor.dtype}" for name, tensor in dense.items())
        raise ConfigError(
            f"tensors for {path} of types {types}",
            expected=f"types that safetensors can hold, which {error} is not",
            do="store real and imaginary parts by torch.view_as_real",
        ) from error
    digest = hashlib.sha256(blank).hexdigest()
    # The digest stands right after kind, in front of everything of the caller's that might look like it.
    marker = f'\\"sha256\\": \\"{_BLANK}\\"'.encode()
    write_bytes(path, blank.replace(marker, marker.replace(_BLANK.encode(), digest.encode()), 1))


def load_tensors(path: Path | str, *, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors (on the CPU, by name in alphabetical order) and the metadata in ``path``.

    Tied names come back as one tensor under each name.

    Raises:
        ForeignFileError: where the file is missing, cut off, damaged, somebody else's, of another kind, or written by a later
            version with another schema.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    raw = read_bytes(path)
    entry = _read_entry(raw, path)
    version, found = entry.get("schema_version"), entry.get("kind")
    if version != TENSORS_SCHEMA_VERSION:
        raise ForeignFileError(
            f"{path} with schema version {version}",
            expected=f"schema version {TENSORS_SCHEMA_VERSION}",
            do="use the version of invariscope that wrote it, or write it anew",
        )
    if found != kind:
        raise ForeignFileError(f"{path}, which holds a {found}", expected=f"a {kind}", do=f"pass the file of a {kind}")
    digest = entry.get("sha256")
    if not isinstance(digest, str) or len(digest) != len(_BLANK):
        raise _damaged(path, "it has no checksum")
    blank = raw.replace(digest.encode(errors="replace"), _BLANK.encode(), 1)
    if hashlib.sha256(blank).hexdigest() != digest:
        raise _damaged(path, "its checksum does not fit its content")
    try:
        stored = load(raw)
        ties: dict[str, str] = entry["ties"]
        stored |= {name: stored[first] for name, first in ties.items()}
    # A type of number that torch does not have, or a tie to nothing, is a KeyError.
    except (SafetensorError, KeyError) as error:
        raise _damaged(path, str(error)) from error
    return {name: stored[name] for name in sorted(stored)}, entry["metadata"]


def _without_ties(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors to write, and for every other name the one that it is tied to."""
    firsts: dict[object, str] = {}
    unique: dict[str, Tensor] = {}
    ties: dict[str, str] = {}
    for name in sorted(tensors):
        tensor = tensors[name]
        identity: object = name  # empty tensors share the null pointer and nothing else
        if tensor.numel():
            identity = (
                tensor.device,
                tensor.untyped_storage().data_ptr(),
                tensor.storage_offset(),
                tensor.shape,
                tensor.stride(),
                tensor.dtype,
            )
        if identity in firsts:
            ties[name] = firsts[identity]
        else:
            firsts[identity] = name
            unique[name] = tensor
    return unique, ties


def _read_entry(raw: bytes, path: Path | str) -> dict[str, Any]:
    """Our own entry among the metadata of a safetensors file."""
    length = int.from_bytes(raw[:8], "little")
    if len(raw) < 8 or length > _MAX_HEADER_BYTES or length > len(raw) - 8:
        raise _damaged(path, f"it has {len(raw)} bytes, which do not hold its header")
    try:
        header = json.loads(raw[8 : 8 + length].decode())
        entry = json.loads(header["__metadata__"][_ENTRY])
    except (KeyError, TypeError) as error:
        raise ForeignFileError(
            f"{path}, a safetensors file without an entry of ours",
            expected="a file that invariscope wrote",
            do="pass a core, checkpoint or moments file from a run's folder",
        ) from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"its header is no JSON: {error}") from error
    if not isinstance(entry, dict) or not all(isinstance(entry.get(part), dict) for part in ("ties", "metadata")):
        raise _damaged(path, "its entry is not complete")
    return entry


def _damaged(path: Path | str, why: str) -> ForeignFileError:
    return ForeignFileError(
        f"{path}, which is cut off, damaged, or no safetensors file ({why})",
        expected="a whole safetensors file that invariscope wrote",
        do="restore it from a copy, or remove it and run the command again",
    )
