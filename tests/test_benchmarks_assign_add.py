"""benchmarks/assign_add.py in a tiny setting: what it writes, and that all ways have one loss. No times are judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "assign_add.py"
COMMITTED = ROOT / "results" / "benchmarks" / "assign_add.json"
pytestmark = pytest.mark.xdist_group("benchmark-assign-add")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str, str]:
    out = tmp_path_factory.mktemp("benchmark") / "assign_add.json"
    settings = ["--steps", "16", "--rounds", "1", "--seeds", "1", "--train-steps", "8", "--width", "16", "--out", str(out)]
    done = subprocess.run([sys.executable, str(SCRIPT), *settings], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text()), out.with_suffix(".md").read_text(), done.stdout


def test_the_ways_have_one_loss(tiny) -> None:
    rows = {row["way"]: row for row in tiny[0]["ways"]}
    assert list(rows) == ["invariscope", 'invariscope, forward="last"', "by the book"]
    assert rows["by the book"]["loss_difference"] < 1e-9
    assert rows["by the book"]["times_ours"] == pytest.approx(
        rows["by the book"]["step_milliseconds"] / rows["invariscope"]["step_milliseconds"]
    )


def test_a_short_training_reaches_nothing_and_says_so(tiny) -> None:
    [row] = tiny[0]["quick"]
    assert row["steps_to_goal"] is None
    assert "not reached" in tiny[1]


def test_the_floor_is_the_sum_of_its_parts(tiny) -> None:
    rates = tiny[0]["rates"]
    assert rates["share"] == pytest.approx(sum(rates["floor_milliseconds"].values()) / rates["step_milliseconds"])
    assert sum(rates["profile"].values()) == pytest.approx(1)


def test_the_table_is_what_is_printed(tiny) -> None:
    assert tiny[1] in tiny[2]
    assert "TransformerLens was not measured" in tiny[1]


def test_the_committed_result_has_every_way_and_one_loss() -> None:
    committed = json.loads(COMMITTED.read_text())
    rows = {row["way"]: row for row in committed["ways"]}
    assert {"invariscope", "by the book", "TransformerLens"} < set(rows)
    assert all(row["loss_difference"] is None or row["loss_difference"] < 1e-9 for row in rows.values())
    assert len(committed["quick"]) == 3
