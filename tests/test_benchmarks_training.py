"""benchmarks/training.py in a tiny setting: what it writes, and that all ways end at one loss. No times are judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "training.py"
COMMITTED = ROOT / "results" / "benchmarks" / "training.json"
pytestmark = pytest.mark.xdist_group("benchmark-training")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str, str]:
    out = tmp_path_factory.mktemp("benchmark") / "training.json"
    settings = ["--steps", "24", "--widths", "16", "--out", str(out)]
    done = subprocess.run([sys.executable, str(SCRIPT), *settings], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text()), out.with_suffix(".md").read_text(), done.stdout


def test_both_ways_end_at_one_loss(tiny) -> None:
    ours, book = tiny[0]["training"]
    assert (ours["way"], book["way"]) == ("invariscope", "by the book")
    # The same initial weights, batches and settings: what differs is the order of sums.
    assert book["loss"] == pytest.approx(ours["loss"], abs=2e-4)
    # Below the entropy of a token without its context: something was learnt.
    assert ours["loss"] < 2.48


def test_every_row_has_its_rates(tiny) -> None:
    result, _, _ = tiny
    for row in result["training"]:
        assert row["seeds_an_hour"] == pytest.approx(3600 / row["cpu_seconds"])
    assert [row["way"] for row in result["machine_wide"]] == ["invariscope", "by the book"]
    [rate] = result["rates"]
    # 2048 tokens, 12 D^2 + 12 D weights, twice as many operations, three passes; and the attention's two products.
    assert rate["operations"] == 3 * (2 * 2048 * (12 * 16**2 + 12 * 16) + 4 * 2048 * 16 * 16)
    assert rate["gigaflops"] == pytest.approx(rate["share_of_square"] * rate["square_gigaflops"])
    assert sum(rate["profile"].values()) == pytest.approx(1)
    assert min(rate["profile"].values()) >= 0


def test_the_table_says_what_is_printed_and_what_was_not_measured(tiny) -> None:
    _, table, printed = tiny
    assert table in printed
    assert "TransformerLens was not measured" in table


def test_the_committed_result_has_every_way_and_one_loss() -> None:
    committed = json.loads(COMMITTED.read_text())
    assert [(row["width"], row["way"]) for row in committed["training"]] == [
        (width, way) for width in (64, 128) for way in ("invariscope", "by the book", "TransformerLens")
    ]
    losses = {(row["width"], row["way"]): row["loss"] for row in committed["training"]}
    for width in (64, 128):
        assert losses[width, "by the book"] == pytest.approx(losses[width, "invariscope"], abs=1e-3)
        assert losses[width, "TransformerLens"] == pytest.approx(losses[width, "invariscope"], abs=5e-3)
    assert {row["width"]: row["mark"] for row in committed["rates"]} == {64: 0.5, 128: 0.7}
    shown = COMMITTED.with_suffix(".md").read_text()
    assert all(f"{row['share_of_square']:.2f} (mark {row['mark']:.1f})" in shown for row in committed["rates"])


def test_settings_that_cannot_be_are_refused() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--widths", "30"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "widths that 4 divides" in done.stderr
