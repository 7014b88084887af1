"""A disk that is full or read-only: one line that names the file, nothing half-written, and the same command goes on afterwards.

Twice: on a real one-megabyte disk (root writes into a folder without permissions, so only a disk refuses it), and, wherever that
is not allowed, with the operating system's own refusals at every single touch of the disk in a training.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli.test_run_killed import numbers
from faults.fork_server import TOUCHES
from faults.small_study import registered, small_run
from invariscope.cli.main import main
from invariscope.errors import FolderError
from invariscope.storage import Manifest, is_temporary
from invariscope.training import train
from training.test_train import CONFIG
from training.toy_tasks import CHAIN
from training.toy_tasks import TINY as MODEL

TESTS = Path(__file__).parents[1]
SHORT = replace(CONFIG, steps=2, eval_every=1, checkpoint_every=1, eval_sequences=8)


def said_by(argv: list[str]) -> dict[str, Any]:
    """Status and words of a command in this process."""
    with registered(), contextlib.redirect_stderr(io.StringIO()) as err, contextlib.redirect_stdout(io.StringIO()):
        status = main(argv)
    return {"status": status, "said": err.getvalue().splitlines()}


def on_a_small_disk(disk: Path) -> None:
    """Run the study on a disk that is too small, read-only, still too small, and large enough; print what it said each time."""

    def remount(options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", str(disk)], check=True)

    out, seen = disk / "out", []
    for options, argv in (
        ("size=100k", small_run(out)),
        ("ro", small_run(out)),
        ("rw,size=3m", small_run(out)),
        ("ro", ["report", str(out)]),
        ("rw,size=64m", small_run(out)),
    ):
        remount(options)
        before = {path: path.stat().st_mtime_ns for path in sorted(disk.rglob("*"))}
        result = said_by(argv)
        changed = before != {path: path.stat().st_mtime_ns for path in sorted(disk.rglob("*"))}
        leftovers = [path.name for path in disk.rglob("*") if is_temporary(path.name)]
        status = Manifest.load(out).status
        seen.append({**result, "options": options, "changed": changed, "leftovers": leftovers, "manifest": status})
    shutil.copytree(out, disk.with_name("copy"))
    print(json.dumps(seen))


def small_disks_are_allowed(folder: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    asked = ["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def test_a_run_on_a_full_and_on_a_read_only_disk(whole: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if not small_disks_are_allowed(disk):
        pytest.skip("mounting a small disk in a namespace of its own is not allowed here; the test below refuses by hand")
    code = f"from pathlib import Path; from faults.test_disks import *; on_a_small_disk(Path({str(disk)!r}))"
    script = 'mount -t tmpfs -o size=1m tmpfs "$1" && exec "$2" -c "$3"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", str(disk), sys.executable, code],
        env=os.environ | {"PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    full, read_only, no_report, report, enough = json.loads(done.stdout.splitlines()[-1])
    for seen, reason in (
        (full, "No space left on device"),
        (read_only, "Read-only file system"),
        (no_report, "No space left on device"),
        (report, "Read-only file system"),
    ):
        assert seen["status"] == 2, seen
        errors = [line for line in seen["said"] if line.startswith("error: ")]
        assert seen["said"][-1:] == errors, seen
        assert str(disk) in errors[0]
        assert reason in errors[0]
        assert "--out" in errors[0]
        assert not any("Traceback" in line for line in seen["said"]), seen
        assert seen["leftovers"] == []
    assert full["manifest"] in ("failed", "running")
    assert not read_only["changed"]
    assert not report["changed"]
    # The study itself had room; only the page that shows it had not.
    assert no_report["manifest"] == "finished"
    assert "report.html" in no_report["said"][-1]
    assert (enough["status"], enough["manifest"]) == (0, "finished")
    assert numbers(tmp_path / "copy") == numbers(whole)


def refusing(function: Callable[..., Any], number: int, touch: int, count: list[int]) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        mode = args[1] if len(args) > 1 else None
        reads = function.__name__ == "open" and mode in (None, "r", "rb", os.O_RDONLY)
        count[0] += not reads
        if count[0] > touch and not reads:
            raise OSError(number, os.strerror(number))
        return function(*args, **kwargs)

    return refuse


@contextlib.contextmanager
def refused(touch: int, number: int, patch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Let the operating system refuse the touch of the disk numbered ``touch``, and every later one that makes or writes."""
    count = [0]
    with patch.context() as patched:
        for owner, name in TOUCHES:
            if name in ("close", "flock", "scandir", "unlink"):
                continue

            patched.setattr(owner, name, refusing(getattr(owner, name), number, touch, count))
        yield count


def train_in(folder: Path) -> None:
    train(CHAIN, MODEL, SHORT, seeds=[3], folder=folder, engine="inline", progress=False)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS], ids=errno.errorcode.__getitem__)
def test_a_training_whose_disk_refuses_at_any_moment_names_the_file_and_goes_on_afterwards(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_in(tmp_path / "whole")
    expected, touch, refusals = numbers(tmp_path / "whole"), 0, 0
    while True:
        folder = tmp_path / f"at-{touch}"
        error = None
        with refused(touch, number, monkeypatch) as count:
            try:
                train_in(folder)
            except FolderError as caught:
                error = caught
        if count[0] <= touch:
            break
        if error is not None:
            refusals += 1
            assert str(folder) in error.given
            assert os.strerror(number) in error.given
            assert "--out" in error.do
        assert [path for path in folder.rglob("*") if is_temporary(path.name)] == []
        train_in(folder)
        assert numbers(folder) == expected
        touch += 1
    assert error is None
    assert touch > 30
    # What is not needed, such as the process id in the lock, may be refused without harm.
    assert refusals > touch - 12
