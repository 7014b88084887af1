"""What the tests of the command line share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.fake_experiment import ENTRY
from invariscope.experiments import registry

TESTS = Path(__file__).parents[1]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The fake experiment in the registry, and an empty working folder."""
    monkeypatch.setitem(registry.EXPERIMENTS, "fake", ENTRY)  # pyright: ignore[reportArgumentType]  # a dictionary
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Start ``invariscope ARGS`` in a process of its own; module "cli.fake_experiment" has the fake experiment too."""

    def started(*args: str, module: str = "invariscope") -> subprocess.Popen[str]:
        environment = os.environ | {"PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            [sys.executable, "-m", module, *args],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    return started
