"""Anything measured: a value, its interval, how many samples it stands on, and what chance would give.

:class:`Estimate` is one number with an interval. :class:`Similarity` is a comparison of two things in [0, 1] and is never
without the value on held-out data and the value under the null, because canonical correlations of independent data are
far from zero (at d = 40 and n = 100 they average .57).
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Estimate", "Similarity", "html_table"]


def html_table(caption: str, rows: Iterable[Sequence[object]], *, headings: Sequence[str] = ()) -> str:
    """A small table for notebooks: all text escaped, no script, and no colour, so that it is readable on light and dark.

    Args:
        caption: above the table.
        rows: cells; where there are no ``headings`` the first cell of a row is its heading.
        headings: of the columns.

    >>> html_table("ranks", [("k", "<3>")])
    '<table><caption>ranks</caption><tbody><tr><th scope="row">k</th><td>&lt;3&gt;</td></tr></tbody></table>'
    """

    def cell(kind: str, value: object, attributes: str = "") -> str:
        return f"<{kind}{attributes}>{html.escape(str(value))}</{kind}>"

    lines = []
    for row in rows:
        first = [] if headings else [cell("th", row[0], ' scope="row"')]
        lines.append(f"<tr>{''.join([*first, *(cell('td', value) for value in row[len(first) :])])}</tr>")
    head = "".join(cell("th", heading, ' scope="col"') for heading in headings)
    top = f"<thead><tr>{head}</tr></thead>" if headings else ""
    return f"<table>{cell('caption', caption)}{top}<tbody>{''.join(lines)}</tbody></table>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One measured number.

    Args:
        value: the estimate.
        low, high: its interval at ``level``; None where none was asked for.
        num: how many samples it stands on.
        unit: what it is measured in, such as ``nats`` or ``share``.
        level: the interval's coverage.
        method: how the interval was made, such as ``bootstrap over 512 groups``.
        chance: what a model without knowledge gets, where that is known.
    """

    value: float
    low: float | None = None
    high: float | None = None
    num: int
    unit: str = ""
    level: float = 0.95
    method: str = ""
    chance: float | None = None

    def __str__(self) -> str:
        text = f"{self.value:.4g}"
        if self.low is not None and self.high is not None:
            text += f" [{self.low:.4g}, {self.high:.4g}]"
        if self.unit:
            text += f" {self.unit}"
        if self.chance is not None:
            text += f" (chance {self.chance:.4g})"
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Similarity:
    """How alike two things are, in [0, 1], beside its hold-out value and its chance level.

    Args:
        name: which similarity, such as ``cca``.
        value: on the samples that it was fitted on (for an overlap: the overlap).
        heldout: the same fit scored on held-out samples; None where nothing is fitted.
        components: one value a component, largest first, on the fitted samples; ``value`` is their mean.
        heldout_components: the same on held-out samples. heldout_intervals: 95 % of each, from a bootstrap over held-out groups.
        null_mean, null_low, null_high: mean and central 95 % of the (hold-out) value when the whole procedure is repeated on
            data that have nothing in common.
        null_components: mean of each component under the null.
        num_fit, num_heldout: samples fitted and held out.
        dims: dimension of each side. rank: number of components.
        num_permutations: repetitions behind the null; 0 where it is in closed form.
    """

    name: str
    value: float
    heldout: float | None = None
    components: tuple[float, ...] = ()
    heldout_components: tuple[float, ...] = ()
    heldout_intervals: tuple[tuple[float, float], ...] = ()
    null_mean: float
    null_low: float
    null_high: float
    null_components: tuple[float, ...] = ()
    num_fit: int = 0
    num_heldout: int = 0
    dims: tuple[int, int]
    rank: int
    num_permutations: int = 0

    def __str__(self) -> str:
        heldout = "" if self.heldout is None else f", held out {self.heldout:.4f}"
        sizes = f"n {self.num_fit}+{self.num_heldout}, " if self.num_fit else ""
        return (
            f"{self.name} {self.value:.4f}{heldout}; null {self.null_mean:.4f} [{self.null_low:.4f}, {self.null_high:.4f}] "
            f"({sizes}d {self.dims[0]} and {self.dims[1]}, k {self.rank})"
        )

    def _repr_html_(self) -> str:
        rows: list[tuple[str, str]] = [("value", f"{self.value:.4f}")]
        if self.heldout is not None:
            rows.append(("held out", f"{self.heldout:.4f}"))
        rows.append(("null", f"{self.null_mean:.4f} [{self.null_low:.4f}, {self.null_high:.4f}]"))
        for name, values in (("components", self.components), ("components, held out", self.heldout_components)):
            if values:
                rows.append((name, " ".join(f"{value:.4f}" for value in values)))
        if self.num_fit:
            rows.append(("samples", f"{self.num_fit} fitted, {self.num_heldout} held out"))
        rows.append(("dimensions", f"{self.dims[0]} and {self.dims[1]}, {self.rank} components"))
        return html_table(f"Similarity: {self.name}", rows)
