"""The directive ``{results} EXPERIMENT``: the committed claims of an experiment as tables, made when the pages are built.

It reads ``results/EXPERIMENT/*/claims.json``, one table a file; without an argument, those of every experiment. A number in
the documentation is thus always a number that a run wrote down, and its verdict is derived anew from that number.
"""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from invariscope.storage import Claim, ClaimsFile, Control, read_claims

RESULTS = Path(__file__).parents[2] / "results"
HEADER = ("claim", "statement", "paper", "measured", "mark", "controls", "verdict")
SIGNS = {"reproduced": "✓", "reproduced with caveat": "≈", "not reproduced": "✗", "not measured": "–"}


def number(value: float | None) -> str:
    """Four significant digits, or a dash."""
    return "–" if value is None else f"{value:.4g}"


def interval(measured: Claim | Control, value: float | None) -> str:
    """A value with its interval, where it has one that is not a point."""
    low, high = measured.low, measured.high
    return number(value) if low is None or low == high else f"{number(value)} [{number(low)}, {number(high)}]"


def control_text(control: Control) -> str:
    """A control's name, value and mark."""
    mark = "" if control.mark is None else f" ({control.mark})"
    return f"{control.name} {interval(control, control.value)}{mark}"


def row(claim: Claim) -> str:
    """One claim as a row of a Markdown table."""
    verdict = f"{SIGNS[claim.verdict]} {claim.verdict}"
    cells = (
        f"`{claim.id.split('/')[-1]}`",
        f"{claim.statement} ({claim.source})" if claim.source else claim.statement,
        number(claim.paper),
        f"{interval(claim, claim.measured)} {claim.unit}".strip(),
        str(claim.mark),
        "; ".join(control_text(control) for control in claim.controls) or "–",
        f"{verdict}: {claim.full_note}" if claim.full_note else verdict,
    )
    return line(cells)


def line(cells: tuple[str, ...]) -> str:
    """Cells as one line of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def table(file: ClaimsFile) -> str:
    """All claims of one ``claims.json`` as Markdown."""
    rows = [line(HEADER), line(("---",) * len(HEADER)), *map(row, file.claims)]
    return f"**{file.experiment}, preset {file.preset}**\n\n" + "\n".join(rows) + "\n"


def files_of(experiment: str | None, folder: Path = RESULTS) -> list[Path]:
    """The committed ``claims.json`` of one experiment, or of all."""
    return sorted(folder.glob(f"{experiment or '*'}/*/claims.json"))


class ResultsDirective(SphinxDirective):
    """Puts the tables into the page."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One table a committed run, or a sentence that says there is none."""
        # A new file has no dependency to notice it by.
        self.env.note_reread()
        files = files_of(self.arguments[0] if self.arguments else None)
        if not files:
            return [nodes.paragraph(text="No results are committed yet.")]
        return self.parse_text_to_nodes("\n".join(table(read_claims(file)) for file in files))


def setup(app: Sphinx) -> dict[str, object]:
    """Register the directive."""
    app.add_directive("results", ResultsDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
