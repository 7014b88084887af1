"""A worker that dies during a command, and Ctrl-C at several moments of one with workers: one line, nobody left, no loss."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.test_run_killed import files, numbers
from faults.small_study import small_run
from faults.test_kills_and_races import INTERRUPTED
from invariscope.cli.main import main
from invariscope.storage import Manifest
from parallel.test_processes import until

TESTS = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds worker processes by /proc")


def processes() -> Iterator[tuple[int, int, int, str]]:
    """Process id, parent, session and state of every process."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent, _, session = path.read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):  # it has just ended
            continue
        yield int(path.parent.name), int(parent), int(session), state


def session_of(process: subprocess.Popen[str]) -> list[int]:
    """Every living process of the command's session but the command itself."""
    return [pid for pid, _, session, state in processes() if session == process.pid != pid and state not in "ZX"]


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    found = []
    for pid in session_of(process):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"loky" in words and b"resource_tracker" not in words:
            found.append(pid)
    return found


def start(out: Path) -> subprocess.Popen[str]:
    """The command with two workers, slowed down by more steps so that no moment is missed."""
    return subprocess.Popen(
        [sys.executable, "-m", "faults.small_study", *small_run(out, "--engine", "processes", "--workers", "2", *LONGER)],
        env=os.environ | {"PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


LONGER = ("--train.steps", "400", "--train.checkpoint-every", "40")


def wait_until(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    while not condition():
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)


@pytest.fixture(scope="module")
def longer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the longer study that nothing disturbed."""
    from faults.small_study import registered

    out = tmp_path_factory.mktemp("longer") / "out"
    with registered():
        assert main(small_run(out, *LONGER)) == 0
    return out


@pytest.mark.usefixtures("small")
def test_a_killed_worker_ends_the_command_with_one_line_and_the_same_command_goes_on(longer: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start(out)
    wait_until(lambda: len(list(out.glob("runs/*/checkpoints/*"))) >= 2, process)
    os.kill(workers_of(process)[0], signal.SIGKILL)
    said, err = process.communicate()
    assert process.returncode == 1, err
    assert said == ""
    # loky's resource tracker, a process of its own, sometimes warns after us that a broken pool's semaphores are gone already.
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    assert "Traceback" not in err, err
    assert len(errors) == 1, err
    assert errors[0].startswith("error: a worker process that died (exit codes of the workers: {SIGKILL(-9)")
    assert "with jobs 0, 1 under way; expected workers that live" in errors[0]
    assert until(lambda: session_of(process) == [])
    assert Manifest.load(out).status == "failed"
    assert main(small_run(out, *LONGER)) == 0
    assert numbers(out) == numbers(longer)


@pytest.mark.parametrize("moment", ["while it imports", "while its workers import", "while they train"])
@pytest.mark.usefixtures("small")
def test_ctrl_c_stops_everybody_quietly(moment: str, longer: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start(out)
    maps = Path(f"/proc/{process.pid}/maps")
    reached: dict[str, Callable[[], object]] = {
        "while it imports": lambda: "libtorch_cpu" in maps.read_text(),
        "while its workers import": lambda: workers_of(process),
        "while they train": lambda: "runs/seed-0001/state.safetensors" in files(out),
    }
    wait_until(reached[moment], process)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err
    assert err.splitlines()[-1] == INTERRUPTED, err
    assert "Traceback" not in err
    assert "Warning" not in err
    # The helper that tidies up after Python's workers ends a moment after the last of them.
    assert until(lambda: session_of(process) == [])
    if moment == "while they train":
        assert Manifest.load(out).status == "running"
        assert main(small_run(out, *LONGER)) == 0
        assert numbers(out) == numbers(longer)
