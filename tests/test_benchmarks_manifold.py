"""benchmarks/manifold.py in a quick setting: what it writes. No times are judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "manifold.py"
COMMITTED = ROOT / "results" / "benchmarks" / "manifold.json"
pytestmark = pytest.mark.xdist_group("benchmark-manifold")


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str, str]:
    out = tmp_path_factory.mktemp("benchmark") / "manifold.json"
    words = [sys.executable, str(SCRIPT), "--quick", "--rounds", "1", "--out", str(out)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text()), out.with_suffix(".md").read_text(), done.stdout


def test_every_vocabulary_has_its_row(quick) -> None:
    rows = quick[0]["steps"]
    assert [row["vocabulary"] for row in rows] == [32, 128]
    # Vocabulary changes the weights and not the coordinates.
    assert {row["coordinates"] for row in rows} == {86}
    for row in rows:
        assert row["times"] == pytest.approx(row["sampled_milliseconds"] / row["reduced_milliseconds"])
    assert quick[1] in quick[2]


def test_all_beginnings_are_followed(quick) -> None:
    assert quick[0]["flow"]["points"] == quick[0]["flow"]["reached"] == 625


def test_the_committed_result_has_three_vocabularies() -> None:
    committed = json.loads(COMMITTED.read_text())
    assert [row["vocabulary"] for row in committed["steps"]] == [32, 128, 512]
