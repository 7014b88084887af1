"""Commands in forks of one warm process, struck by a signal at a chosen moment, without paying for the imports each time.

A moment is a touch of the disk, counted from the command's start: between any two of them a process leaves the same files behind,
however fast the machine is, and the awkward ones (written and not yet renamed, renamed and not yet noted) are all among them.

``python -m faults.fork_server SCENARIO FOLDER`` prints what it saw as one line of JSON.
"""

from __future__ import annotations

import builtins
import fcntl
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TOUCHES: list[tuple[Any, str]] = [
    *((os, name) for name in ("open", "write", "fsync", "replace", "mkdir", "ftruncate", "pwrite", "close", "unlink", "scandir")),
    (fcntl, "flock"),
    (builtins, "open"),
]

NUM_KILLS_OF_THE_COMMAND, NUM_INTERRUPTS, NUM_KILLS_OF_A_TRAINING = 8, 6, 12


def strike_at(moment: int | None, sign: int) -> list[int]:
    """From now on count the touches of the disk; at the one numbered ``moment`` send ``sign`` to this very process."""
    count = [0]

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def touch(*args: Any, **kwargs: Any) -> Any:
            count[0] += 1
            if count[0] - 1 == moment:
                os.kill(os.getpid(), sign)
            return function(*args, **kwargs)

        return touch

    for owner, name in TOUCHES:
        setattr(owner, name, counted(getattr(owner, name)))
    return count


def fork(command: Callable[[], int], log: Path, *, moment: int | None = None, sign: int = signal.SIGKILL) -> int:
    """Start ``command`` in a fork; its words go to ``log``, and the number of its touches to a file beside it."""
    child = os.fork()
    if child:
        return child
    words = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    for stream in (1, 2):
        os.dup2(words, stream)
    status = 99
    try:
        count = strike_at(moment, sign)
        status = command()
        log.with_suffix(".touches").write_text(str(count[0]))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def ended(child: int) -> int:
    """The exit status of a fork; the negative signal where one ended it."""
    status = os.waitpid(child, 0)[1]
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def run_command(out: Path) -> int:
    from faults.small_study import registered, small_run
    from invariscope.cli.main import main

    with registered():
        return main(small_run(out))


def run_training(folder: Path) -> int:
    """One seed in its locked folder."""
    from invariscope.errors import FolderError
    from invariscope.training import train
    from training.test_train import KILL_CONFIG
    from training.toy_tasks import CHAIN, TINY

    try:
        train(CHAIN, TINY, KILL_CONFIG, seeds=[3], folder=folder, engine="inline", progress=False)
    except FolderError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def warm_up(folder: Path) -> None:
    """Import and build now what each fork would pay for."""
    assert run_command(folder / "warm") == 0


def strike_the_command(folder: Path) -> dict[str, Any]:
    """The whole command, killed in each eighth of its touches and interrupted in between, always in the same folder."""
    out, log, rng = folder / "out", folder / "log", np.random.default_rng(20260222)
    warm_up(folder)
    assert ended(fork(lambda: run_command(folder / "whole"), log)) == 0, log.read_text()
    # A run that finds everything finished touches the disk least: a moment of it comes in every run.
    assert ended(fork(lambda: run_command(folder / "whole"), log)) == 0, log.read_text()
    total = int(log.with_suffix(".touches").read_text())
    plan = [
        (int(rng.integers(total * part // num, total * (part + 1) // num)), sign, part / num)
        for sign, num in ((signal.SIGKILL, NUM_KILLS_OF_THE_COMMAND), (signal.SIGINT, NUM_INTERRUPTS))
        for part in range(num)
    ]
    seen: list[dict[str, Any]] = []
    for moment, sign, _ in sorted(plan, key=lambda entry: entry[2]):
        status = ended(fork(lambda: run_command(out), log, moment=moment, sign=sign))
        seen.append({"signal": sign, "moment": moment, "status": status, "said": log.read_text().splitlines()})
    status = ended(fork(lambda: run_command(out), log))
    return {"total": total, "seen": seen, "status": status, "said": log.read_text().splitlines()}


def strike_a_training(folder: Path) -> dict[str, Any]:
    """One training in its locked folder, killed within its next few checkpoints again and again."""
    rng, log = np.random.default_rng(20260223), folder / "log"
    warm_up(folder)
    statuses, files = [], []
    for _ in range(NUM_KILLS_OF_A_TRAINING):
        moment = int(rng.integers(1, 120))
        statuses.append(ended(fork(lambda: run_training(folder / "out"), log, moment=moment)))
        files.append(len(list(folder.glob("out/*/checkpoints/step-*.safetensors"))))
    for name in ("out", "whole"):
        assert ended(fork(lambda: run_training(folder / name), log)) == 0, log.read_text()  # noqa: B023  # ended at once
    return {"statuses": statuses, "files": files}


def race(folder: Path) -> dict[str, Any]:
    """Three trainings, then two whole commands, begun at one moment in one folder."""
    warm_up(folder)
    assert ended(fork(lambda: run_training(folder / "whole"), folder / "log")) == 0
    rounds = []
    jobs = [(run_training, folder / f"training-{index}", 3) for index in range(4)] + [(run_command, folder / "out", 2)]
    for job, path, num in jobs:
        logs = [folder / f"log-{index}" for index in range(num)]
        gate, opened = os.pipe()

        def wait_and_run(job: Callable[[Path], int] = job, path: Path = path, gate: int = gate, opened: int = opened) -> int:
            os.close(opened)
            os.read(gate, 1)
            return job(path)

        children = [fork(wait_and_run, log) for log in logs]
        os.close(opened)
        os.close(gate)
        statuses = [ended(child) for child in children]
        rounds.append([{"status": s, "said": log.read_text().splitlines()} for s, log in zip(statuses, logs, strict=True)])
    return {"rounds": rounds}


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    print(
        json.dumps({"command": strike_the_command, "training": strike_a_training, "race": race}[sys.argv[1]](Path(sys.argv[2])))
    )
