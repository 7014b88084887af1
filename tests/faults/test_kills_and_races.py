"""kill -9 at 20 random moments, Ctrl-C at six more, and several processes on one folder: nothing is lost, nothing is damaged.

Eight of the kills strike the whole command ``invariscope run`` (training, measuring, writing) of a small study, and twelve one
training in its locked folder; all moments are drawn with a fixed seed. Kills at moments of the clock, of the real study and of
one training, stand in ``cli/test_run_killed.py`` and ``training/test_train.py``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from cli.test_run_killed import numbers
from faults.fork_server import NUM_INTERRUPTS, NUM_KILLS_OF_A_TRAINING, NUM_KILLS_OF_THE_COMMAND
from invariscope.storage import Manifest, is_temporary

TESTS = Path(__file__).parents[1]
INTERRUPTED = "interrupted; what was finished is kept, and the same command goes on from there"


def seen_by(scenario: str, folder: Path) -> dict[str, Any]:
    environment = os.environ | {"PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "faults.fork_server", scenario, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def assert_equal_numbers(found: Path, expected: Path) -> None:
    a, b = numbers(found), numbers(expected)
    assert sorted(a) == sorted(b)
    assert [name for name, content in b.items() if a[name] != content] == []
    assert [path for path in found.rglob("*") if is_temporary(path.name)] == []


def test_there_are_twenty_kills() -> None:
    assert NUM_KILLS_OF_THE_COMMAND + NUM_KILLS_OF_A_TRAINING == 20


def test_a_command_killed_and_interrupted_at_random_moments_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    seen = seen_by("command", tmp_path)
    moments = [strike["moment"] for strike in seen["seen"]]
    assert len(set(moments)) == len(moments) == NUM_KILLS_OF_THE_COMMAND + NUM_INTERRUPTS
    for strike in seen["seen"]:
        if strike["signal"] == signal.SIGKILL:
            assert strike["status"] == -signal.SIGKILL, strike
        else:
            assert strike["status"] == 130, strike
            assert strike["said"][-1] == INTERRUPTED
            assert not any("Traceback" in line for line in strike["said"]), strike
    assert seen["status"] == 0, seen["said"]
    assert Manifest.load(tmp_path / "out").status == "finished"
    assert_equal_numbers(tmp_path / "out", tmp_path / "whole")


def test_a_training_killed_at_random_moments_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    seen = seen_by("training", tmp_path)
    assert seen["statuses"] == [-signal.SIGKILL] * NUM_KILLS_OF_A_TRAINING
    # It went on each time, and the last kill still came before the end.
    assert seen["files"] == sorted(seen["files"])
    assert 5 < seen["files"][-1] < 20
    assert_equal_numbers(tmp_path / "out", tmp_path / "whole")


def test_of_several_processes_on_one_folder_one_works_and_the_others_say_so_in_one_line(tmp_path: Path) -> None:
    rounds = seen_by("race", tmp_path)["rounds"]
    for processes in rounds:
        assert {process["status"] for process in processes} <= {0, 2}, processes
        assert [process["status"] for process in processes].count(0) >= 1
        for process in processes:
            if process["status"] == 2:
                assert len(process["said"]) == 1, process
                assert "writing to; expected a folder that no other run is using; wait until" in process["said"][0]
    # Whoever comes after the winner has finished finds it done; that this never happens is not the point.
    assert sum(process["status"] == 2 for processes in rounds for process in processes) >= len(rounds)
    for index in range(len(rounds) - 1):
        assert_equal_numbers(tmp_path / f"training-{index}", tmp_path / "whole")
    assert sorted(process["status"] for process in rounds[-1]) == [0, 2]
    assert Manifest.load(tmp_path / "out").status == "finished"
