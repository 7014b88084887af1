"""Every script in examples/ runs as a reader would run it, and says what it promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from invariscope.storage.shipped_models import shipped_model

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
SAYS = {
    "your_own_module.py": ("core", "flip", "flipped: 0.0", "1024 tokens edited"),
    "your_own_model.py": ("tense in smollm2-135m", "core", "flipped at 1 token", "steering.safetensors"),
}
NEEDS = {"your_own_model.py": "smollm2-135m"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(path: Path):
    if path.name in NEEDS and not shipped_model(NEEDS[path.name]).installed:
        pytest.skip(f"{NEEDS[path.name]} is not installed: {shipped_model(NEEDS[path.name]).pip_line}")
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    for words in SAYS[path.name]:
        assert words in done.stdout


def test_there_is_an_example_for_each_promise():
    assert {path.name for path in EXAMPLES} == set(SAYS)
