"""The run's outcome in the terminal: a table for people, plain lines for logs, and where the report is.

Both say the same: verdict (a sign and a word), id, measured value with interval and unit, mark, controls. Plain lines hold one
claim each, so that ``grep "not reproduced"`` works on a log.
"""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from invariscope.report.content import ClaimText, Content, ControlText, read_content
from invariscope.storage.run_folder import RunFolder

__all__ = ["print_summary"]

_SIGNS = {"reproduced": "✓", "reproduced with caveat": "◐", "not reproduced": "✗", "not measured": "–"}
_STYLES = {"reproduced": "green", "reproduced with caveat": "yellow", "not reproduced": "bold red", "not measured": "dim"}
_ASCII = {"✓": "+", "◐": "~", "✗": "x", "–": "-", "≥": ">=", "≤": "<=", "±": "+-", "×": "x", "\u2212": "-", "\u202f": " "}
_ASCII |= dict(zip("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789", strict=True))


def print_summary(folder: str | Path, console: Console | None = None) -> None:
    """Print the claims of the run in ``folder`` and the path of its report.

    Args:
        folder: a run's folder.
        console: where to; a new one on standard output by default. A table where it is a terminal, plain lines elsewhere.

    Raises:
        ForeignFileError: where a file is missing, damaged, or none of ours.
        FolderError: where the run has no claims yet.
    """
    console = console or Console()
    content = read_content(folder)
    report = RunFolder.read(folder).report_path
    if console.is_terminal:
        _print_table(content, console)
    else:
        for claim in (*content.claims, *content.by_construction):
            _plain(console, _line(claim, by_construction=claim in content.by_construction))
    _plain(console, content.answer)
    if content.warning:
        _plain(console, content.warning)
    if report.exists():
        _plain(console, f"Report: {report}")
    else:
        _plain(console, f"No report yet: invariscope report {folder}")


def _plain(console: Console, text: str) -> None:
    # Paths and ids are copied out of terminals: neither wrapped nor coloured.
    console.print(_encodable(text, console), markup=False, highlight=False, soft_wrap=True)


def _encodable(text: str, console: Console) -> str:
    """``text`` in letters that the console can write: a log in ASCII or Latin-1 must not end a run with an error."""
    try:
        text.encode(console.encoding)
    except UnicodeEncodeError:
        for sign, plain in _ASCII.items():
            text = text.replace(sign, plain)
        return text.encode(console.encoding, errors="replace").decode(console.encoding)
    return text


def _line(claim: ClaimText, *, by_construction: bool) -> str:
    parts = [f"{_SIGNS[claim.verdict]} {claim.verdict}", claim.id, _measured(claim), f"mark {claim.mark}"]
    parts += [f"control {_control(control)}" for control in claim.controls]
    if by_construction:
        parts.append("by construction, not counted")
    return " | ".join([*parts, *([claim.note] if claim.note else [])])


def _measured(claim: ClaimText) -> str:
    return " ".join(part for part in (claim.measured, claim.interval, claim.unit) if part)


def _control(control: ControlText) -> str:
    text = f"{control.name} {control.value}" + (f" {control.interval}" if control.interval else "")
    return text if not control.mark else f"{text} (mark {control.mark}, {'met' if control.passed else 'missed'})"


def _print_table(content: Content, console: Console) -> None:
    table = Table(title=content.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("verdict", no_wrap=False, min_width=12)
    table.add_column("claim", ratio=2, overflow="fold")
    table.add_column("measured", ratio=2)
    table.add_column("mark", min_width=7)
    table.add_column("controls", ratio=3)
    for claim in (*content.claims, *content.by_construction):
        aside = claim in content.by_construction
        name = claim.id.rpartition("/")[2]
        cells = [
            Text(f"{_SIGNS[claim.verdict]} {claim.verdict}", style="dim" if aside else _STYLES[claim.verdict]),
            Text(f"{name}\nby construction" if aside else name, style="dim" if aside else ""),
            Text(_measured(claim)),
            Text(claim.mark),
            Text("\n".join(_control(control) for control in claim.controls) or "–", style="dim"),
        ]
        for cell in cells:
            cell.plain = _encodable(cell.plain, console)
        table.add_row(*cells)
    console.print(table)
