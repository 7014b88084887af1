"""The report: one HTML file that opens from a disk without a network, claims first.

Everything is inside the file: the style, one copy of plotly, the figures' numbers, each figure's table and its CSV as a ``data:``
address. A content security policy in the page makes the browser itself refuse every request. The page follows the reader's
light or dark scheme, fits a phone, can be walked through by keyboard, and prints.

``build_report("out/markov-cores")`` writes ``out/markov-cores/report.html`` and returns its path.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2

from invariscope.errors import ConfigError
from invariscope.figures import Figure
from invariscope.figures.frames import frame_to_json
from invariscope.report.content import Content, read_content
from invariscope.report.numbers import format_number
from invariscope.storage.atomic import write_text
from invariscope.storage.run_folder import RunFolder

__all__ = ["MAX_REPORT_BYTES", "build_report", "render"]

MAX_REPORT_BYTES = 8_000_000
"""A report has to stay small enough to be sent by mail."""

_MAX_TABLE_ROWS = 400

# Two runs' arrows that end in one point.
_MARK_SVG = (
    '<svg viewBox="0 0 32 32" aria-hidden="true" focusable="false"><g fill="none" stroke="currentColor" stroke-width="2.5">'
    '<path d="M3 5c12 0 12 11 21 11"/><path d="M3 27c12 0 12-11 21-11"/><path d="M3 16h21"/></g>'
    '<circle cx="26" cy="16" r="4.5" fill="var(--accent)"/></svg>'
)
_FAVICON_SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><g fill="none" stroke="#7a828e" stroke-width="3">'
    '<path d="M3 5c12 0 12 11 21 11"/><path d="M3 27c12 0 12-11 21-11"/><path d="M3 16h21"/></g>'
    '<circle cx="25" cy="16" r="5.5" fill="#2a85bd"/></svg>'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    text: str
    number: bool


def build_report(folder: str | Path) -> Path:
    """Write ``folder/report.html`` from what the run left in ``folder``.

    Args:
        folder: a run's folder with manifest.json, claims.json and figures/.

    Returns:
        The report's path.

    Raises:
        ForeignFileError: where a file is missing, damaged, or none of ours.
        FolderError: where the run has no claims yet, or the folder cannot be written.
        ConfigError: where the figures hold so many numbers that the page would be above :data:`MAX_REPORT_BYTES`.

    Notes:
        An old report stays until the new one is complete. Equal folders give equal bytes.
    """
    content = read_content(folder)
    text = render(content)
    size = len(text.encode())
    if size > MAX_REPORT_BYTES:
        largest = max(content.figures, key=lambda figure: len(str(figure.plot)) + len(figure.csv_text()))
        raise ConfigError(
            f"a report of {size / 1e6:.1f} MB for {folder}",
            expected=f"at most {MAX_REPORT_BYTES / 1e6:.0f} MB",
            do=f"draw fewer points; the largest figure is {largest.name!r}",
        )
    path = RunFolder.read(folder).report_path
    write_text(path, text)
    return path


def render(content: Content) -> str:
    """The page as text."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_resource),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("template.html.jinja").render(
        title=content.title,
        summary=content.summary,
        answer=content.answer,
        counts=[
            {"verdict": verdict, "num": num}
            for verdict, num in content.counts.items()
            # Nothing may hide that a claim failed, so its zero is shown as well.
            if num or verdict in ("reproduced", "reproduced with caveat", "not reproduced")
        ],
        headline_facts=content.headline_facts,
        warning=content.warning,
        claims=content.claims,
        by_construction=content.by_construction,
        figures=[_figure_view(figure) for figure in content.figures],
        command=content.command,
        making=content.making,
        collapsed=content.collapsed,
        papers=[{"name": name, "address": address} for name, address in content.papers],
        citation=_citation(content.version),
        footer=f"Written by invariscope {content.version}".rstrip() + ". This file is whole: it loads nothing from anywhere.",
        favicon=f"data:image/svg+xml,{quote(_FAVICON_SVG)}",
        mark_svg=_MARK_SVG,
        css=_resource("page.css"),
        js=_resource("page.js"),
        plotly_js=_plotly_script() if content.figures else "",
    )


def _resource(name: str) -> str:
    return resources.files(__package__ or "").joinpath(name).read_text(encoding="utf-8")


def _plotly_script() -> str:
    # Imported here: the terminal summary and the errors for bad folders need no plotly.
    from plotly.offline import get_plotlyjs

    script = get_plotlyjs()
    assert "</script" not in script.lower(), "plotly's bundle would end the script element that holds it"
    assert "<!--" not in script, "plotly's bundle would open an HTML comment inside its script element"
    return script


def _figure_view(figure: Figure) -> dict[str, Any]:
    csv = base64.b64encode(figure.csv_text().encode()).decode()
    return {
        "name": figure.name,
        "title": figure.title,
        "caption": figure.caption,
        "alt": figure.alt,
        "plot": figure.plot | ({"frames": [frame_to_json(frame) for frame in figure.frames]} if figure.frames else {}),
        "slider": figure.slider,
        "labels": [frame.label for frame in figure.frames],
        "columns": figure.columns,
        "rows": [[_cell(value) for value in row] for row in figure.rows[:_MAX_TABLE_ROWS]],
        "num_rows": len(figure.rows),
        "left_out": len(figure.rows) > _MAX_TABLE_ROWS,
        "csv": f"data:text/csv;charset=utf-8;base64,{csv}",
    }


def _cell(value: object) -> _Cell:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _Cell(text=format_number(value), number=True)
    return _Cell(text="" if value is None else str(value), number=False)


def _citation(version: str) -> str:
    return f"The invariscope authors. invariscope: what is invariant inside trained transformers. Version {version or 'unknown'}."
