"""A GGUF file as a folder that transformers reads at once: its weights dequantised to float32, once, in the user's cache.

Dequantising takes tens of seconds and the result is the same every time, so it is kept under the file's SHA-256. A copy is
written to a temporary folder and renamed when it is whole: a kill leaves no half copy in use, and what it does leave is removed
by the next conversion. Of two processes at once the second waits and takes the first one's copy. A seal with the digest of every
file lies beside it; a copy that does not match is made anew.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import hashlib
import importlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from invariscope.errors import ConfigError, FolderError, ForeignFileError
from invariscope.storage.atomic import read_json, write_json

__all__ = ["CACHE_VARIABLE", "cache_folder", "converted_copy", "file_digest", "quiet_transformers"]

CACHE_VARIABLE = "INVARISCOPE_CACHE"
SEAL_NAME, SCHEMA_VERSION = "seal.json", 1
_CHUNK_BYTES = 1 << 20
_GGUF_MAGIC = b"GGUF"


def cache_folder() -> Path:
    """Where copies are kept: what the environment variable INVARISCOPE_CACHE says, else the user's cache folder."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    import platformdirs

    return Path(platformdirs.user_cache_dir("invariscope"))


def file_digest(paths: Sequence[Path]) -> str:
    """SHA-256 of the files, one after the other."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()


def converted_copy(
    paths: Sequence[Path], *, sha256: str | None = None, cache: Path | None = None, say: Callable[[str], None] = lambda line: None
) -> Path:
    """The folder with the dequantised copy of a GGUF file, which is made where there is none yet.

    Args:
        paths: the parts of the file, in order.
        sha256: that it must have; None: any.
        cache: None: :func:`cache_folder`.
        say: is told when a copy is made, made anew, or waited for.

    Raises:
        ForeignFileError: for a file with another digest, or one that transformers cannot read: truncated, or no GGUF.
        ConfigError: for an architecture that transformers cannot read from GGUF.
        FolderError: where the cache cannot be written.
    """
    try:
        found = file_digest(paths)
    except OSError as error:
        raise ForeignFileError(
            f"{error.filename}, which cannot be read ({error.strerror})",
            expected="a .gguf file that this user may read",
            do="mend its permissions, or copy it elsewhere",
        ) from error
    if sha256 is not None and found != sha256:
        raise ForeignFileError(
            f"{paths[0].name} with SHA-256 {found[:12]}...",
            expected=f"the published file, {sha256[:12]}...",
            do="install its package again: the file is damaged, or not the one it says",
        )
    cache = cache_folder() if cache is None else cache
    key = f"{found[:16]}-v{SCHEMA_VERSION}"
    copy = cache / "models" / key
    if _is_whole(copy):
        return copy
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        wait = f"Another process is dequantising {paths[0].name}: waiting for it"
        with _alone(cache / f".{key}.lock", lambda: say(wait)) as alone:
            # Only now is it known that nobody is just finishing it.
            if not _is_whole(copy):
                _make(paths, copy, alone=alone, say=say)
    except OSError as error:
        raise FolderError(
            f"{copy.parent}, which cannot be written ({error.strerror or error})",
            expected="a cache folder with room for the float32 weights",
            do=f"make room, or name another folder in the environment variable {CACHE_VARIABLE}",
        ) from error
    return copy


@contextmanager
def _alone(path: Path, waiting: Callable[[], None]) -> Iterator[bool]:
    """Inside, this process is the only one that converts this file; False where the file system cannot lock."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    alone = True
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError:
            # Then two processes both convert, and the slower one takes what it finds.
            alone = False
        yield alone
    finally:
        os.close(descriptor)


def _make(paths: Sequence[Path], copy: Path, *, alone: bool, say: Callable[[str], None]) -> None:
    prefix = f".converting-{copy.name}-"
    if alone:
        # Whoever left these was killed: nobody else can be at work on this file.
        for left in copy.parent.glob(f"{prefix}*"):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=copy.parent) as scratch:
        if copy.exists():
            say(f"The copy in {copy} is damaged: it is made anew")
            # In one step: a copy that is half removed would look like one that is there.
            copy.rename(Path(scratch) / "damaged")
        else:
            say(f"Dequantising {paths[0].name} to float32, once, into {copy}")
        made = Path(scratch) / "copy"
        _convert(paths, Path(scratch), made)
        try:
            made.rename(copy)
        except OSError:
            # Another process was faster; what it made is the same.
            if not _is_whole(copy):
                raise


def _convert(paths: Sequence[Path], scratch: Path, made: Path) -> None:
    with paths[0].open("rb") as file:
        if file.read(4) != _GGUF_MAGIC:
            raise ForeignFileError(f"{paths[0]}, which is no GGUF file", expected="a .gguf file", do="give the model's own file")
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = paths[0]
    if len(paths) > 1:
        source = scratch / "whole.gguf"
        with source.open("wb") as whole:
            for path in paths:
                with path.open("rb") as part:
                    shutil.copyfileobj(part, whole, _CHUNK_BYTES)
    where: dict[str, Any] = {"gguf_file": source.name, "local_files_only": True}
    try:
        with quiet_transformers():
            model: Any = AutoModelForCausalLM.from_pretrained(source.parent, dtype=torch.float32, **where)
            tokenizer = AutoTokenizer.from_pretrained(source.parent, **where)
            # Otherwise saving asks a quantiser that dequantising has left behind.
            if hasattr(model.config, "quantization_config"):
                del model.config.quantization_config
            model.hf_quantizer = None
    except NotImplementedError as error:
        raise ConfigError(
            f"{paths[0].name}: {error}", expected="an architecture that transformers reads from GGUF", do="give its folder"
        ) from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            # The disk's own complaint; transformers raises OSError without a number for files that it cannot read.
            raise
        # Whatever the reader stumbles over (struct, numpy, value errors) is the file's fault: it begins as a GGUF and ends early.
        cause = " ".join(str(error).split())[:120]
        raise ForeignFileError(
            f"{paths[0]}, which cannot be read to its end ({type(error).__name__}: {cause})",
            expected="a whole GGUF file",
            do="copy or download it again",
        ) from error
    try:
        with quiet_transformers():
            model.save_pretrained(made)
            tokenizer.save_pretrained(made)
    except SafetensorError as error:
        # Its own word for a full disk; the file that was read is not at fault.
        raise OSError(errno.EIO, " ".join(str(error).split())[:120]) from error
    files = {path.name: file_digest([path]) for path in sorted(made.iterdir())}
    write_json(made / SEAL_NAME, {"schema_version": SCHEMA_VERSION, "files": files})


def _is_whole(copy: Path) -> bool:
    try:
        seal: Any = read_json(copy / SEAL_NAME)
        return seal["schema_version"] == SCHEMA_VERSION and all(
            file_digest([copy / name]) == digest for name, digest in seal["files"].items()
        )
    except (OSError, ForeignFileError, KeyError, TypeError):
        return False


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Inside, transformers draws no progress bars; its settings are restored whatever happens."""
    from transformers.utils import logging

    gguf: Any = importlib.import_module("transformers.modeling_gguf_pytorch_utils")
    shown, bar = logging.is_progress_bar_enabled(), getattr(gguf, "tqdm", None)
    try:
        logging.disable_progress_bar()
        if bar is not None:
            # It asks tqdm itself and not the setting.
            gguf.tqdm = functools.partial(bar, disable=True)
        yield
    finally:
        if bar is not None:
            gguf.tqdm = bar
        if shown:
            logging.enable_progress_bar()
