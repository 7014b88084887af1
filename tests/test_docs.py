"""The documentation's own code: result tables from claims.json, and docstrings that are shown as they are meant."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from invariscope.storage import Claim, Control, Mark, write_claims

DOCS = Path(__file__).parents[1] / "docs"


def extension(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / "_ext" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def claim(**given: object) -> Claim:
    fields = {
        "id": "markov-cores/near-optimal",
        "statement": "KL(true || model) is small",
        "source": "arXiv:2602.22600",
        "unit": "nats",
        "mark": Mark(kind="at_most", target=0.003),
        "measured": 0.00123456,
        "low": 0.001,
        "high": 0.0015,
        "preset": "quick",
    }
    return Claim(**(fields | given))  # pyright: ignore[reportArgumentType]  # a test's overrides


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_a_row_says_value_interval_mark_and_verdict() -> None:
    found = cells(extension("results").row(claim()))
    assert found == [
        "`near-optimal`",
        "KL(true \\|\\| model) is small (arXiv:2602.22600)",
        "–",
        "0.001235 [0.001, 0.0015] nats",
        "at most 0.003",
        "–",
        "✓ reproduced",
    ]


def test_a_failed_control_stands_in_the_row_with_its_reason() -> None:
    control = Control(name="untrained", value=0.002, mark=Mark(kind="above", target=0.1))
    found = cells(extension("results").row(claim(paper=0.01, controls=(control,))))
    assert found[2] == "0.01"
    assert found[5] == "untrained 0.002 (above 0.1)"
    assert found[6] == "≈ reproduced with caveat: control untrained is 0.002, and its mark is above 0.1"


def test_what_is_not_reproduced_or_not_measured_is_shown_as_it_is() -> None:
    row = extension("results").row
    assert cells(row(claim(measured=0.2, low=None, high=None)))[6] == "✗ not reproduced"
    assert cells(row(claim(measured=None, low=None, high=None)))[3:7:3] == ["– nats", "– not measured"]


def test_every_committed_preset_of_an_experiment_is_found(tmp_path: Path) -> None:
    results = extension("results")
    for experiment, preset in [("markov-cores", "quick"), ("markov-cores", "paper"), ("grokking", "quick")]:
        path = tmp_path / experiment / preset / "claims.json"
        path.parent.mkdir(parents=True)
        write_claims(path, [claim(preset=preset)], experiment=experiment, preset=preset)
    assert [path.parent.name for path in results.files_of("markov-cores", tmp_path)] == ["paper", "quick"]
    assert len(results.files_of(None, tmp_path)) == 3
    table = results.table(results.read_claims(tmp_path / "grokking" / "quick" / "claims.json"))
    assert table.startswith("**grokking, preset quick**\n\n| claim |")
    assert len(table.strip().splitlines()) == 5


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("overlap = ||Q_a' Q_b||_F^2 / k", r"overlap = \|\|Q_a' Q_b\|\|_F^2 / k"),
        ("a * b, and x_ twice", r"a \* b, and x\_ twice"),
        ("``a * b`` and a | b", r"``a * b`` and a \| b"),
        (":func:`keep_` of |x|", r":func:`keep_` of \|x\|"),
        ("**not** a * b", r"**not** a \* b"),
    ],
)
def test_formulas_in_docstrings_are_no_markup(written: str, shown: str) -> None:
    assert extension("api").plain_formulas([written]) == [shown]


def test_doctests_and_literal_blocks_stay_as_they_are() -> None:
    lines = ["Like this::", "", "    a * b | c", "", "a * b", "", ">>> 2 * 3", "6", "", "a | b"]
    shown = extension("api").plain_formulas(lines)
    assert shown == ["Like this::", "", "    a * b | c", "", "a \\* b", "", ">>> 2 * 3", "6", "", "a \\| b"]


def test_signatures_name_types_without_their_modules() -> None:
    short = extension("api").short_names
    signature = "(*, read: ~jaxtyping.Float[Tensor, 'D k'], provenance: ~invariscope.cores.core.Provenance = <factory>)"
    assert short(signature) == "(*, read: Float[Tensor, 'D k'], provenance: Provenance = ...)"
    assert short(None) is None


def test_every_page_is_reached_from_the_index() -> None:
    listed = {
        (page.parent / entry).resolve()
        for page in (DOCS / "index.md", DOCS / "errors" / "index.md")
        for block in re.findall(r"```\{toctree\}\n(.+?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        for entry in block.split()
        if not entry.startswith(":")
    }
    pages = {path.with_suffix("") for path in DOCS.rglob("*.md") if "_build" not in path.parts}
    assert pages - {DOCS / "index"} <= listed
