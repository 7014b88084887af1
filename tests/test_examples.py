"""Every script in examples/ runs as a reader would run it, and says what it promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
SAYS = {"your_own_module.py": ("core", "flip", "flipped: 0.0", "1024 tokens edited")}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(path: Path):
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    for words in SAYS[path.name]:
        assert words in done.stdout


def test_there_is_an_example_for_each_promise():
    assert {path.name for path in EXAMPLES} == set(SAYS)
