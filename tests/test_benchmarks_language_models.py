"""benchmarks/language_models.py on a tiny folder: every way has its row. No times are judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tiny_language_models import save_tiny_folder

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "language_models.py"
COMMITTED = ROOT / "results" / "benchmarks" / "language_models.json"
WAYS = ["forward and backward", "extraction", "without factors", "whole prompts", "one at a time"]
pytestmark = pytest.mark.xdist_group("benchmark-language-models")


def test_every_way_has_its_row(tmp_path: Path) -> None:
    folder, out = save_tiny_folder(tmp_path / "model"), tmp_path / "result.json"
    command = [sys.executable, str(SCRIPT), "--model", str(folder), "--num", "24", "--slow", "12", "--batch-sizes", "6"]
    done = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [found] = json.loads(out.read_text())["models"]
    assert [row["way"] for row in found["rows"]] == WAYS
    assert all(row["cpu_seconds"] > 0 for row in found["rows"])
    assert found["rows"][0]["over_unit"] == 1
    assert found["best_batch_size"] == 6
    assert out.with_suffix(".md").read_text() in done.stdout
    assert "mark at most 1.2" in done.stdout


def test_the_committed_result_has_both_models_and_states_its_marks() -> None:
    committed = json.loads(COMMITTED.read_text())
    assert [found["model"] for found in committed["models"]] == ["smollm2-135m", "gemma3-270m"]
    assert committed["settings"]["num"] == 512
    for found in committed["models"]:
        assert set(found["ratios"]) == {"extraction", "without factors", "one at a time"}
        assert {row["way"] for row in found["rows"]} == set(WAYS)
        extraction = [row["cpu_seconds"] for row in found["rows"] if row["way"] == "extraction"]
        best = next(row for row in found["rows"] if (row["way"], row["batch_size"]) == ("extraction", found["best_batch_size"]))
        assert best["cpu_seconds"] == min(extraction)
