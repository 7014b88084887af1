"""One writer a folder: a lock that the operating system takes back when its holder dies.

The lock is an ``flock`` on ``folder/.lock``, so it lives exactly as long as the process that holds it: after ``kill -9``
nothing stale is left to be removed. The file itself stays (removing it would let two processes lock two files of one name);
its content, the holder's process id, only serves the message.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> with folder_lock(folder):
...     (folder / LOCK_NAME).read_text() == str(os.getpid())
True
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from invariscope.errors import FolderError

__all__ = ["LOCK_NAME", "folder_lock"]

LOCK_NAME = ".lock"


@contextmanager
def folder_lock(folder: Path | str) -> Iterator[None]:
    """Hold ``folder`` for this process until the context is left. Not re-entrant.

    Raises:
        FolderError: where another process (or another context in this one) holds it, with that process's id, and where the
            folder cannot be written.
    """
    path = Path(folder) / LOCK_NAME
    try:
        # Python's descriptors are not inherited, so worker processes do not keep the lock alive.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise FolderError(
            f"{folder}, which cannot be locked ({error.strerror})",
            expected="a folder that this user may write to",
            do="mend the permissions, or choose another folder with --out",
        ) from error
    try:
        _acquire(descriptor, folder)
        # The id only serves a message: a full disk has to stop what is to be written, which says so better.
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, folder: Path | str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace")
        raise FolderError(
            f"{folder}, which process {holder or '(just starting)'} is writing to",
            expected="a folder that no other run is using",
            do="wait until that run has ended, stop it, or choose another folder with --out",
        ) from error
    except OSError as error:
        raise FolderError(
            f"{folder}, whose file system cannot lock files ({error.strerror})",
            expected="a file system with flock",
            do="choose a folder on a local disk with --out",
        ) from error
