"""The process engine: one thread a worker, and none that stays behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from invariscope.errors import JobError
from invariscope.parallel.jobs import map_jobs
from invariscope.parallel.processes import default_num_workers, run_processes

MISBEHAVE = "parallel.job_helpers:misbehave"

# A run that holds its folder while its worker waits for ever.
WAIT = f"""
import sys
from invariscope.parallel import map_jobs
from invariscope.storage import folder_lock
with folder_lock(sys.argv[1]):
    map_jobs({MISBEHAVE!r}, [dict(how="wait", folder=sys.argv[1], index=i) for i in range(3)], num_workers=1)
"""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process whose parent was killed may wait for its reaper; it does nothing any more.
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")


def until(condition: Callable[[], bool], seconds: float = 60) -> bool:
    """Whether it comes true; the time only bounds a failure."""
    for _ in range(round(seconds / 0.05)):
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def waiting_pids(folder: Path) -> list[int]:
    return [int(path.name.removeprefix("pid-")) for path in folder.glob("pid-*")]


def start_waiting(folder: Path) -> tuple[subprocess.Popen[str], list[int]]:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-W", "error", "-c", WAIT, str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    assert until(lambda: len(waiting_pids(folder)) == 1 or process.poll() is not None)
    return process, waiting_pids(folder)


def test_workers_have_one_thread_each_and_are_gone_afterwards():
    outcomes = dict(run_processes("parallel.job_helpers:facts", ['{"seconds": 0.1}'] * 4, num_workers=2))
    found: list[dict[str, Any]] = [json.loads(outcomes[index].result or "null") for index in range(4)]
    assert [each["torch_threads"] for each in found] == [1] * 4
    assert [each["variables"] for each in found] == [["1", "1"]] * 4
    pids = {each["pid"] for each in found}
    assert 1 <= len(pids) <= 2
    assert os.getpid() not in pids
    assert {each["parent"] for each in found} == {os.getpid()}
    assert not any(is_alive(pid) for pid in pids)


def test_a_worker_that_dies_is_an_error_and_no_hang():
    jobs = [{"how": how, "index": index} for index, how in enumerate(["", "die", "", ""])]
    with pytest.raises(JobError) as caught:
        map_jobs(MISBEHAVE, jobs, engine="processes", num_workers=1)
    error = caught.value
    assert error.given == (
        f"a worker process that died (exit codes of the workers: {{SIGKILL(-9)}}) during {MISBEHAVE}, with jobs 1 under way"
    )
    assert "lack of memory" in error.do
    assert "fewer workers" in error.do
    assert "\n" not in str(error)
    assert "unexpectedly terminated" in getattr(error, "traceback", "")


def test_an_exception_in_on_done_passes_through_and_stops_the_workers(tmp_path: Path):
    jobs = [{"how": ""}, {"how": "wait", "folder": str(tmp_path)}]

    def refuse(index: int, _: object) -> None:
        assert until(lambda: len(waiting_pids(tmp_path)) == 1)
        raise ZeroDivisionError(index)

    with pytest.raises(ZeroDivisionError, match="0"):
        map_jobs(MISBEHAVE, jobs, engine="processes", num_workers=2, on_done=refuse)
    assert not is_alive(waiting_pids(tmp_path)[0])


def test_an_interrupt_passes_through_and_stops_the_workers_quietly(tmp_path: Path):
    process, pids = start_waiting(tmp_path)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole group
    _, stderr = process.communicate(timeout=60)
    assert len(pids) == 1
    assert stderr.rstrip().endswith("KeyboardInterrupt")
    assert stderr.count("Traceback") == 1, stderr
    assert "resource_tracker" not in stderr
    assert "Warning" not in stderr
    assert not any(is_alive(pid) for pid in pids)


def test_workers_do_not_outlive_a_parent_that_is_killed(tmp_path: Path):
    process, pids = start_waiting(tmp_path)
    process.kill()
    process.wait()
    assert len(pids) == 1
    assert until(lambda: not any(is_alive(pid) for pid in pids))
    assert process.stderr is not None
    process.stderr.close()


def test_the_number_of_workers_follows_the_jobs_and_the_cores():
    cores = len(os.sched_getaffinity(0))
    assert default_num_workers(0) == default_num_workers(1) == 1
    assert 1 <= default_num_workers(10_000) <= cores
