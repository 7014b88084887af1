"""benchmarks/baselines.py in a tiny setting: what it writes and that the rows are what they say. No times are judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "baselines.py"
COMMITTED = ROOT / "results" / "benchmarks" / "baselines.json"
pytestmark = pytest.mark.xdist_group("benchmark-baselines")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str, str]:
    out = tmp_path_factory.mktemp("benchmark") / "baselines.json"
    command = [sys.executable, str(SCRIPT), "--quick", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text()), out.with_suffix(".md").read_text(), done.stdout


def test_every_way_has_its_row_and_its_passes(tiny) -> None:
    result, _, _ = tiny
    rows = {row["way"]: row for row in result["ways"]}
    assert list(rows) == ["core", "DAS, 10 steps", "DAS, 20 steps", "linear probe"]
    assert (rows["core"]["forward"], rows["core"]["backward"], rows["core"]["cpu_over_core"]) == (64, 64 * 12, 1.0)
    # One pass for the mean, two a step, and two for the loss over all sequences.
    assert rows["DAS, 20 steps"]["forward"] == 64 + 2 * 20 * 32 + 2 * 64
    assert rows["linear probe"]["backward"] == 0
    assert all(row["cpu_seconds"] > 0 for row in rows.values())


def test_the_core_keeps_and_removal_is_felt(tiny) -> None:
    rows = {row["way"]: row for row in tiny[0]["ways"]}
    assert rows["core"]["keep_loss"] < 0.3
    assert rows["core"]["removed"] > 0.7


def test_the_table_says_what_is_printed_and_committed(tiny) -> None:
    _, table, printed = tiny
    assert table in printed
    committed = json.loads(COMMITTED.read_text())
    assert [row["way"] for row in committed["ways"]] == ["core", "DAS, 150 steps", "DAS, 600 steps", "linear probe"]
    shown = COMMITTED.with_suffix(".md").read_text()
    assert all(f"{row['cpu_seconds']:.2f}" in shown for row in committed["ways"])


def test_another_ending_is_refused() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--out", "table.txt"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "expected a name that ends in .json" in done.stderr
