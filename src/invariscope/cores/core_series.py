"""A core over the checkpoints of one run, as a record: what :func:`invariscope.cores.follow_core` measured, step by step.

It prints as a table, is written as JSON, and is what the figures of a core over training are drawn from
(:mod:`invariscope.figures.core_over_training`, :mod:`invariscope.figures.follow_curves`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from invariscope.errors import ForeignFileError, InvariscopeError
from invariscope.estimate import Estimate, Similarity
from invariscope.storage.atomic import read_json, write_json
from invariscope.storage.records import from_json_record, to_json_record

__all__ = ["CoreAtStep", "CoreSeries", "Eigenvalue"]

KIND, SCHEMA_VERSION = "core series", 1

Eigenvalue = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreAtStep:
    """What was measured at one checkpoint.

    Args:
        step: optimiser steps done.
        cross_entropy: of the unedited model, in nats.
        sufficient: smallest rank whose keep loses at most the tolerance; None where none of the ranks that were tried does, or
            the model is not better than chance. necessary: smallest rank whose removal reaches chance, likewise.
        energy_99, energy_999: ranks by 99 % and 99.9 % of the energy: printed, never judged by.
        keep_loss: share of what the site carries that keeping the core alone loses, on held-out sequences; None where the
            model is not better than chance.
        overlap: of the core's write span with the last checkpoint's, beside chance.
        eigenvalues: of the operator in the core, as (real, imaginary); empty where the task states no candidate map.
        spectrum_error: largest distance of those from the task's eigenvalues, with its interval; None where it states none.
        means: mean core coordinates of each of the series' tokens, [len(tokens), k], turned onto the last checkpoint's by the
            orthogonal map that fits best (no stretching); empty where the series has no tokens.
    """

    step: int
    cross_entropy: float
    sufficient: int | None
    necessary: int | None
    energy_99: int
    energy_999: int
    keep_loss: float | None
    overlap: Similarity
    eigenvalues: tuple[Eigenvalue, ...]
    spectrum_error: Estimate | None
    means: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreSeries:
    """A core over the checkpoints of one run.

    Args:
        task: its name. site, positions: where. projection: of the cores.
        rank: of every core in the series; rank_rule: how it was chosen, at the last checkpoint.
        dim: D of the site.
        tolerance: of the causal ranks.
        chance: cross-entropy of the best constant answer on the held-out sequences, in nats.
        map_name: the candidate map whose spectrum is followed; empty where the task states none.
        coordinates: that it is fitted on, ``core`` or ``law``.
        expected: the task's eigenvalues that a core of this rank can carry, as (real, imaginary).
        num_sequences: extracted from, and held out. operator_sequences: behind each spectrum.
        checkpoints: what was found, by step.
        tokens: ids that the extraction sequences hold where the site is read; empty where there are fewer than two.
    """

    task: str
    site: str
    positions: str | int
    projection: str
    rank: int
    rank_rule: str
    dim: int
    tolerance: float
    chance: float
    map_name: str
    coordinates: str
    expected: tuple[Eigenvalue, ...]
    num_sequences: int
    operator_sequences: int
    checkpoints: tuple[CoreAtStep, ...]
    tokens: tuple[int, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Headings of :meth:`cells`."""
        return ("step", "nats", "suffices", "necessary", ".99", ".999", "keep loss", "overlap", "chance", "spectrum error")

    def cells(self) -> list[list[str]]:
        """The series as text, one list a checkpoint; a dash where there is no value."""
        return [
            [
                str(found.step),
                f"{found.cross_entropy:.4f}",
                _count(found.sufficient),
                _count(found.necessary),
                str(found.energy_99),
                str(found.energy_999),
                "-" if found.keep_loss is None else f"{found.keep_loss:.2%}",
                f"{found.overlap.value:.3f}",
                f"{found.overlap.null_mean:.3f}",
                "-" if found.spectrum_error is None else str(found.spectrum_error),
            ]
            for found in self.checkpoints
        ]

    def summary(self) -> str:
        """What was followed, in one line."""
        judged = f", {self.map_name} on {self.coordinates} coordinates" if self.map_name else ""
        return (
            f"{self.task} at {self.site}, positions {self.positions}: {self.projection} cores of rank {self.rank} of {self.dim} "
            f"({self.rank_rule}), tolerance {self.tolerance:g}, chance {self.chance:.4f} nats{judged}"
        )

    def table(self) -> str:
        """The series as text: :meth:`summary`, headings, and one line a checkpoint."""
        lines = [list(self.columns), *self.cells()]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.columns))]
        text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
        return "\n".join([self.summary(), *text])

    def save(self, path: Path | str) -> None:
        """Write the series as JSON; see :meth:`load`.

        Raises:
            FolderError: where the disk refuses.
        """
        write_json(Path(path), {"kind": KIND, "schema_version": SCHEMA_VERSION, "series": to_json_record(self)})

    @classmethod
    def load(cls, path: Path | str) -> CoreSeries:
        """The series that :meth:`save` wrote.

        Raises:
            ForeignFileError: for a missing, damaged or foreign file.
        """
        value = read_json(path)
        if not isinstance(value, dict) or (value.get("kind"), value.get("schema_version")) != (KIND, SCHEMA_VERSION):
            raise ForeignFileError(
                f"{path}, which holds no {KIND} of schema version {SCHEMA_VERSION}",
                expected="a file that CoreSeries.save wrote",
                do="follow the core again",
            )
        try:
            return from_json_record(cls, value.get("series"))
        except InvariscopeError as error:
            raise ForeignFileError(f"{path}: {error.given}", expected=error.expected, do="follow the core again") from error


def _count(rank: int | None) -> str:
    return "-" if rank is None else str(rank)
