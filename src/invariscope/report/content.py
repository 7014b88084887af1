"""What the report says, before it is a page: claims, counts, figures and provenance of one run folder, as text.

:func:`read_content` reads ``manifest.json``, ``claims.json`` and ``figures/*.json`` and nothing else; it imports no experiment
and no model, so that a report can be rebuilt wherever the folder is carried. The template only places what stands here.

>>> answer_of({"reproduced": 11, "reproduced with caveat": 1, "not reproduced": 0, "not measured": 0}, num_by_construction=1)
'Of 12 claims, 11 are reproduced and 1 is reproduced with a caveat. One more is true by construction and does not count.'
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from invariscope.errors import FolderError
from invariscope.figures import Figure
from invariscope.report.numbers import format_duration, format_mark, format_measured, format_number
from invariscope.storage.claims import Claim, Control, Verdict
from invariscope.storage.claims_file import ClaimsFile, read_claims
from invariscope.storage.manifest import Manifest
from invariscope.storage.run_folder import RunFolder

__all__ = ["VERDICTS", "ClaimText", "Content", "ControlText", "answer_of", "count_verdicts", "read_content"]

VERDICTS: tuple[Verdict, ...] = ("reproduced", "reproduced with caveat", "not reproduced", "not measured")
"""In the order of the page."""
assert set(VERDICTS) == set(get_args(Verdict))

_PAPER = re.compile(r"arXiv:\s*(\d{4}\.\d{4,5})", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlText:
    """One control of a claim, as text; ``mark`` is empty where nothing is asked of it."""

    name: str
    value: str
    interval: str
    mark: str
    passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimText:
    """One row of the claims table, as text."""

    id: str
    anchor: str
    statement: str
    source: str
    figure: str
    note: str
    paper: str
    measured: str
    interval: str
    unit: str
    basis: str
    mark: str
    controls: tuple[ControlText, ...]
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Everything that the page shows.

    Args:
        title: the experiment's name.
        summary: the experiment in one line; empty where none is known.
        answer: the outcome in a sentence.
        counts: verdicts of the claims that count.
        headline_facts: preset, seeds, device and duration in a few words.
        warning: that the run did not finish; empty where it did.
        claims, by_construction: rows that count, and rows that do not.
        figures: in the order in which the claims name them, then by name.
        command: the command that made it.
        making: label and value of each fact.
        collapsed: title and text of what is long: configuration and environment.
        papers: name and address of every paper tested.
        version: invariscope's, of the run.
    """

    title: str
    summary: str
    answer: str
    counts: dict[Verdict, int]
    headline_facts: tuple[str, ...]
    warning: str
    claims: tuple[ClaimText, ...]
    by_construction: tuple[ClaimText, ...]
    figures: tuple[Figure, ...]
    command: str
    making: tuple[tuple[str, str], ...]
    collapsed: tuple[tuple[str, str], ...]
    papers: tuple[tuple[str, str], ...]
    version: str


def read_content(folder: str | Path) -> Content:
    """Read one run folder.

    Args:
        folder: what ``invariscope run --out`` wrote.

    Returns:
        What the report shows.

    Raises:
        ForeignFileError: where a file is missing, damaged, or none of ours.
        FolderError: where the run has left no claims yet.
    """
    run = RunFolder.read(folder)
    manifest = Manifest.load(folder)
    if not run.claims_path.exists():
        raise FolderError(
            f"{run.path}, a run that is {manifest.status} and holds no claims.json",
            expected="a run that has reached its claims",
            do="give the run's command again: it goes on where it stopped",
        )
    written = read_claims(run.claims_path)
    figures = _ordered_figures(run.figures, written)
    drawn = {figure.name for figure in figures}
    rows = {claim.id: _claim_text(claim, drawn) for claim in written.claims}
    headline = tuple(rows[claim.id] for claim in written.claims if not claim.by_construction)
    aside = tuple(rows[claim.id] for claim in written.claims if claim.by_construction)
    counts = count_verdicts(written)
    return Content(
        title=manifest.experiment or written.experiment,
        summary=manifest.summary,
        answer=written.answer or answer_of(counts, num_by_construction=len(aside)),
        counts=counts,
        headline_facts=_headline_facts(manifest),
        warning=_warning(manifest),
        claims=headline,
        by_construction=aside,
        figures=figures,
        command=manifest.command,
        making=_making(manifest),
        collapsed=(
            ("Configuration, every value", _pretty(manifest.config)),
            ("Environment, every version", _pretty(manifest.environment)),
        ),
        papers=_papers(written),
        version=_version(manifest),
    )


def count_verdicts(written: ClaimsFile) -> dict[Verdict, int]:
    """How many claims got each verdict; those that are true by construction are left out."""
    verdicts = [claim.verdict for claim in written.claims if not claim.by_construction]
    return {verdict: verdicts.count(verdict) for verdict in VERDICTS}


def answer_of(counts: Mapping[Verdict, int], *, num_by_construction: int = 0) -> str:
    """The outcome in a sentence: every verdict that occurs, with its number."""
    total = sum(counts.values())
    words = {
        "reproduced": "reproduced",
        "reproduced with caveat": "reproduced with a caveat",
        "not reproduced": "not reproduced",
        "not measured": "not measured",
    }
    parts = [f"{num} {'is' if num == 1 else 'are'} {words[verdict]}" for verdict, num in counts.items() if num]
    if not total:
        text = "This run tested no claim."
    elif len(parts) == 1:
        only = next(words[verdict] for verdict, num in counts.items() if num)
        text = f"The one claim is {only}." if total == 1 else f"All {total} claims are {only}."
    else:
        text = f"Of {total} claims, {', '.join(parts[:-1])} and {parts[-1]}."
    if num_by_construction == 1:
        text += " One more is true by construction and does not count."
    elif num_by_construction:
        text += f" {num_by_construction} more are true by construction and do not count."
    return text


def _claim_text(claim: Claim, drawn: set[str]) -> ClaimText:
    basis = []
    if claim.seeds:
        basis.append(f"seed{'s' if len(claim.seeds) > 1 else ''} {_seeds(claim.seeds)}")
    if claim.num is not None and claim.num != len(claim.seeds):
        basis.append(f"n\u00a0=\u00a0{format_number(claim.num)}")
    return ClaimText(
        id=claim.id,
        anchor=re.sub(r"[^a-zA-Z0-9_-]+", "-", claim.id),
        statement=claim.statement,
        source=claim.source,
        figure=claim.figure if claim.figure in drawn else "",
        note=claim.full_note,
        paper=format_number(claim.paper),
        measured=format_number(claim.measured),
        interval=_interval(claim.low, claim.high),
        unit=claim.unit,
        basis=", ".join(basis),
        mark=format_mark(claim.mark),
        controls=tuple(_control_text(control) for control in claim.controls),
        verdict=claim.verdict,
    )


def _control_text(control: Control) -> ControlText:
    return ControlText(
        name=control.name,
        value=format_number(control.value),
        interval=_interval(control.low, control.high),
        mark=format_mark(control.mark) if control.mark else "",
        passed=not control.complaint,
    )


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else format_measured(0, low, high).removeprefix("0 ")


def _seeds(seeds: tuple[int, ...]) -> str:
    """Seeds in few words: a run of neighbours as a span."""
    if len(seeds) > 3 and seeds == tuple(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def _ordered_figures(folder: Path, written: ClaimsFile) -> tuple[Figure, ...]:
    figures = {path.stem: Figure.load(path) for path in sorted(folder.glob("*.json"))}
    named = dict.fromkeys(claim.figure for claim in written.claims if claim.figure in figures)
    return tuple(figures[name] for name in [*named, *(name for name in figures if name not in named)])


def _headline_facts(manifest: Manifest) -> tuple[str, ...]:
    facts = [f"preset {manifest.preset}" if manifest.preset else ""]
    facts.append(f"seed{'s' if len(manifest.seeds) > 1 else ''} {_seeds(manifest.seeds)}" if manifest.seeds else "")
    facts.append(f"on {manifest.device}" if manifest.device else "")
    facts.append(f"took {format_duration(manifest.seconds)}" if manifest.seconds is not None else "")
    facts.append(manifest.started[:10])
    return tuple(fact for fact in facts if fact)


def _warning(manifest: Manifest) -> str:
    if manifest.status == "finished":
        return ""
    state = "had failed" if manifest.status == "failed" else "had not finished"
    return f"This run {state} when the page was written, so what stands here may be incomplete. The same command completes it."


def _making(manifest: Manifest) -> tuple[tuple[str, str], ...]:
    environment = manifest.environment
    versions = environment.get("versions") or {}
    git = environment.get("git")
    threads = {name: value for name, value in (environment.get("threads") or {}).items() if value is not None}
    started = f"{manifest.started[:19].replace('T', ' ')} UTC"
    facts = [
        ("Experiment and preset", " / ".join(part for part in (manifest.experiment, manifest.preset) if part)),
        ("Seeds", _seeds(manifest.seeds)),
        ("Engine", manifest.engine),
        ("Forward pass in training", manifest.forward),
        ("Device", manifest.device),
        ("Processor", str(environment.get("cpu") or "")),
        ("Cores and threads", _cores(environment, threads)),
        ("Versions", ", ".join(f"{name} {version}" for name, version in versions.items() if version)),
        ("System", str(environment.get("platform") or "")),
        ("Code", f"{git['commit'][:12]}{', with uncommitted changes' if git.get('dirty') else ''}" if git else ""),
        ("Started", started),
        ("Took", format_duration(manifest.seconds) if manifest.seconds is not None else ""),
        ("Configuration's hash", manifest.config_hash[:16]),
    ]
    return tuple((label, value) for label, value in facts if value)


def _cores(environment: Mapping[str, Any], threads: Mapping[str, Any]) -> str:
    cores = environment.get("num_usable_cores") or environment.get("num_cores")
    parts = [f"{cores} cores" if cores else "", *(f"{name} {value}" for name, value in threads.items())]
    return ", ".join(part for part in parts if part)


def _papers(written: ClaimsFile) -> tuple[tuple[str, str], ...]:
    numbers = dict.fromkeys(number for claim in written.claims for number in _PAPER.findall(claim.source))
    return tuple((f"arXiv:{number}", f"https://arxiv.org/abs/{number}") for number in numbers)


def _version(manifest: Manifest) -> str:
    return str((manifest.environment.get("versions") or {}).get("invariscope") or "")


def _pretty(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
