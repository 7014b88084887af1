"""The real study, tiny: killed at random moments and interrupted, it ends with the bytes of a run that was never stopped."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from invariscope.cli.main import main
from invariscope.storage import Manifest, is_temporary

Start = Callable[..., "subprocess.Popen[str]"]

NUM_KILLS = 5

TINY = """
sequence_length = 4
width = 8
num_heads = 1
mlp_width = 8
extract_sequences = 32
evaluate_sequences = 32
operator_sequences = 64
num_random = 1
das_steps = 2
probe_tokens = 256

[train]
steps = 12
batch_size = 4
eval_every = 3
eval_sequences = 4
checkpoint_every = 3
warmup_steps = 2

[real]
seeds = [0, 1]
"""


def files(out: Path) -> set[str]:
    """What is there for good."""
    found = (path for path in out.rglob("*") if not is_temporary(path.name))
    return {path.relative_to(out).as_posix() for path in found if path.is_file()}


def numbers(out: Path) -> dict[str, bytes]:
    """Every file that must not depend on when it was written: all but manifests and the report, which hold times, and locks."""
    beside = {"manifest.json", "report.html", ".lock"}
    return {name: (out / name).read_bytes() for name in files(out) if name.rpartition("/")[2] not in beside}


def wait_for(process: subprocess.Popen[str], out: Path, num_files: int) -> None:
    """Until ``out`` holds ``num_files`` files: progress is counted, since seconds mean something else on every machine."""
    while len(files(out)) < num_files and process.poll() is None:
        time.sleep(0.01)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing stopped; beside it its ``tiny.toml``."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "tiny.toml").write_text(TINY)
    assert main(tiny_run(folder / "whole")) == 0
    return folder / "whole"


def tiny_run(out: Path) -> list[str]:
    """The command that makes or goes on with ``out``; ``tiny.toml`` lies beside it."""
    return ["run", "markov-cores", "--config", str(out.with_name("tiny.toml")), "--out", str(out), "--engine", "inline"]


def test_a_run_that_is_interrupted_and_killed_again_and_again_ends_as_if_nothing_had_happened(
    whole: Path, tmp_path: Path, start: Start
) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    # Without the last files, among them the report: after them a run may end before the kill strikes.
    out, total = tmp_path / "out", len(files(whole)) - 5
    rng = np.random.default_rng(20260222)

    # Ctrl-C, as a terminal sends it, to everybody; seeds train in processes of their own.
    process = start(*tiny_run(out), "--engine", "auto")
    wait_for(process, out, 6)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err
    assert err.splitlines()[-1] == "interrupted; what was finished is kept, and the same command goes on from there"
    assert Manifest.load(out).status == "running"

    # kill -9 in each fifth of the run, at a random file of it and a random moment after that file.
    for part in range(NUM_KILLS):
        low, high = total * part // NUM_KILLS, total * (part + 1) // NUM_KILLS
        process = start(*tiny_run(out))
        wait_for(process, out, int(rng.integers(max(low, 1), high)))
        time.sleep(rng.uniform(0, 0.05))
        process.kill()
        _, err = process.communicate()
        assert process.returncode == -signal.SIGKILL, f"the run had ended before kill {part}: {err}"

    process = start(*tiny_run(out))
    _, err = process.communicate()
    assert process.returncode == 0, err
    expected, found = numbers(whole), numbers(out)
    assert sorted(found) == sorted(expected)
    assert [name for name, content in expected.items() if found[name] != content] == []
    assert {"claims.json", "runs/real/seed-0000/metrics.jsonl", "runs/real/seed-0000/state.safetensors"} <= set(found)
    assert {name.partition("/")[0] for name in found} == {"claims.json", "cores", "figures", "runs"}


def test_a_truncated_checkpoint_is_named_and_refused(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    shutil.copy(whole.with_name("tiny.toml"), tmp_path)
    damaged = out / "runs" / "twelve" / "seed-0001" / "checkpoints" / "step-00000012.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-100])
    before = numbers(out)
    capsys.readouterr()
    assert main(tiny_run(out)) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("error: ")
    assert str(damaged) in said
    assert numbers(out) == before


def test_too_few_samples_for_the_null_are_bad_input(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(whole.with_name("tiny.toml"), tmp_path)
    assert main([*tiny_run(tmp_path / "out"), "--evaluate-sequences", "2"]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("error: ")
    assert "expected" in said
    assert not (tmp_path / "out" / "claims.json").exists()
