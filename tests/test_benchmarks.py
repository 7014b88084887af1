"""benchmarks/extraction.py in a tiny setting: what it writes, that the routes agree, and what it refuses. No times are judged."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "extraction.py"
COMMITTED = ROOT / "results" / "benchmarks" / "extraction.json"
# One worker makes the tiny run, not each.
pytestmark = pytest.mark.xdist_group("benchmark-extraction")

ROUTES = ["factored", "covariance float64", "covariance float32", "naive"]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_extraction", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        # As Python does for a script; only while it is read, because names there are those of packages here.
        patch.syspath_prepend(SCRIPT.parent)
        spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str, str]:
    """The result, the tables beside it, and what was printed."""
    out = tmp_path_factory.mktemp("benchmark") / "new folder" / "extraction.json"
    settings = ["--quick", "--sizes", "40", "--dim", "8", "--stream", "2000"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *settings, "--out", str(out)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text()), out.with_suffix(".md").read_text(), done.stdout


def rows_of(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["route"]: row for row in result["extraction"]}


def test_every_route_and_every_size_has_its_row(tiny) -> None:
    result, _, _ = tiny
    assert [(row["route"], row["num"]) for row in result["extraction"]] == [(route, 40) for route in ROUTES]
    assert [row["num"] for row in result["streaming"]] == [2000]
    assert result["settings"] == {"dim": 8, "rank": 4, "seed": 0, "chunk": 4096, "sizes": [40], "stream": [2000]}
    assert all(row["cpu_seconds"] > 0 for row in result["extraction"] + result["streaming"])
    assert rows_of(result)["factored"]["cpu_over_factored"] == 1.0


def test_the_routes_agree_where_they_can(tiny) -> None:
    rows = rows_of(tiny[0])
    assert rows["naive"]["sigma_error"] == rows["naive"]["projector_error"] == 0
    assert 0 < rows["factored"]["sigma_error"] <= 1e-12
    assert rows["factored"]["projector_error"] <= 1e-12
    assert rows["factored"]["num_kept"] == rows["factored"]["num_carried"] == 8
    # Squaring the condition loses the tail first, and in float32 some of the core's digits too.
    assert rows["covariance float32"]["num_kept"] < rows["covariance float64"]["num_kept"] < 8
    assert rows["covariance float64"]["projector_error"] < 1e-10 < rows["covariance float32"]["projector_error"] < 1e-4


def test_the_result_names_the_machine_but_not_its_name(tiny) -> None:
    machine = tiny[0]["machine"]
    assert machine["threads"] == {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "torch": 1}
    assert machine["versions"]["torch"] == torch.__version__
    assert len(machine["platform"].split()) == 2


def test_streaming_counts_the_operations_of_two_qrs(tiny) -> None:
    row = tiny[0]["streaming"][0]
    assert row["floor_seconds"] * row["matmul_gigaflops"] * 1e9 == pytest.approx(2 * 2000 * 8**2 * 2)
    assert row["share_of_floor"] == pytest.approx(row["floor_seconds"] / row["cpu_seconds"])
    by_hand = sum(2 * (4096 + c) * c**2 - 2 / 3 * c**3 for c in (8, 9)) / (2 * 4096 * 8**2 * 2)
    assert row["qr_operations_over_floor"] == pytest.approx(by_hand)


def test_the_tables_are_printed_and_written(tiny, script) -> None:
    result, tables, printed = tiny
    assert tables == script.render(result)
    assert printed.startswith(tables)
    assert "factored and naive differ by at most" in printed
    assert "| naive | 40 |" in tables
    header = next(line for line in tables.splitlines() if line.startswith("| route"))
    assert {line.count("|") for line in tables.splitlines() if "| 40 |" in line} == {header.count("|")}


def test_the_committed_tables_are_those_of_the_committed_numbers(script) -> None:
    result = json.loads(COMMITTED.read_text(encoding="utf-8"))
    assert COMMITTED.with_suffix(".md").read_text(encoding="utf-8") == script.render(result)
    assert result["settings"]["sizes"] == [500, 2000, 8000]
    assert result["settings"]["stream"] == [10_000, 100_000, 1_000_000]
    ours = [row for row in result["extraction"] if row["route"] == "factored"]
    assert max(max(row["sigma_error"], row["projector_error"]) for row in ours) <= 1e-8
    assert all(row["num_kept"] == row["num_carried"] for row in ours)


def test_inputs_are_what_the_table_says(script) -> None:
    h, j = script.make_inputs(600, 12, 3, seed=0)
    again, _ = script.make_inputs(600, 12, 3, seed=0)
    assert torch.equal(h, again)
    values = torch.linalg.svdvals(h - h.mean(0))
    assert 1e7 < float(values[0] / values[-1]) < 1e9
    assert float(values[2] / values[3]) > 3
    chunks = list(script.stream_inputs(5000, 4, 2, seed=0))
    assert [len(one) for one, _ in chunks] == [4096, 904]
    # Both share their three strong directions.
    leading = [torch.linalg.svd(x - x.mean(0)).Vh[:3] for x in (h, j)]
    assert float(torch.linalg.svdvals(leading[0] @ leading[1].T).min()) > 0.98


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--dim", "3"], "--dim 3; expected at least 4, half of them for the core; give a larger one"),
        (["--sizes", "5"], "N = 5; expected at least 10 for a core of rank 8; give a larger one"),
        (["--stream", "2", "--dim", "8"], "N = 2; expected at least 6 for a core of rank 4; give a larger one"),
        (["--out", "table.txt"], "--out table.txt; expected a name that ends in .json; the tables get the same name with .md"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_measured(arguments, says, script, capsys) -> None:
    with pytest.raises(SystemExit) as stopped:
        script.main(arguments)
    assert stopped.value.code == 2
    assert says in capsys.readouterr().err


def test_a_cell_that_crashes_is_named(script, capfd) -> None:
    with pytest.raises(SystemExit, match=r"the process that measures .*'route': 'shortcut'.* ended with status 1; see above"):
        script.measure(route="shortcut", num=40, dim=8, rank=4, seed=0, repeats=1)
    assert "KeyError" in capfd.readouterr().err
