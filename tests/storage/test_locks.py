"""One writer a folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from invariscope.errors import FolderError
from invariscope.storage.locks import folder_lock

HOLD = """
import sys
from invariscope.storage.locks import folder_lock
with folder_lock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_holder_is_told_who_the_first_is_and_gets_it_after_kill_9(tmp_path: Path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(FolderError) as caught, folder_lock(tmp_path):
            pass
        assert str(tmp_path) in caught.value.given
        assert f"process {holder.pid} " in caught.value.given
        assert "--out" in caught.value.do
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    with folder_lock(tmp_path):
        assert (tmp_path / ".lock").read_text() == str(os.getpid())


def test_it_is_free_again_after_leaving_and_after_an_exception(tmp_path: Path):
    num_open = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    with pytest.raises(ZeroDivisionError), folder_lock(tmp_path):
        raise ZeroDivisionError
    with folder_lock(tmp_path):
        with pytest.raises(FolderError, match=f"process {os.getpid()} is writing to"), folder_lock(tmp_path):
            pass
        # The one who was refused has not taken it from the one who holds it.
        with pytest.raises(FolderError), folder_lock(tmp_path):
            pass
    if num_open:
        assert len(os.listdir("/proc/self/fd")) == num_open


def test_a_child_that_outlives_its_parent_does_not_keep_the_lock(tmp_path: Path):
    script = """
import os, signal, subprocess, sys
from invariscope.storage.locks import folder_lock
with folder_lock(sys.argv[1]):
    subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], close_fds=False)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    reader, writer = os.pipe()  # the child lives until we close the writer
    try:
        done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], stdin=reader, check=False)
        assert done.returncode == -signal.SIGKILL
        with folder_lock(tmp_path):
            pass
    finally:
        os.close(reader)
        os.close(writer)


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path):
    with pytest.raises(FolderError, match=r"nowhere, which cannot be locked \(No such file"), folder_lock(tmp_path / "nowhere"):
        pass
