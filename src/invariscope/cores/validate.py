"""Test a core causally: keep it, remove it, flip it, beside controls of equal rank (arXiv:2602.22600, "Validate").

Sufficient: keeping it alone stays near the unedited model. Necessary: removing it falls to chance. Each effect stands in one
table with what random directions, principal components and gradients do under the same edit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from invariscope.batch import Batch
from invariscope.cores.core import Core
from invariscope.cores.measure import measure_edits
from invariscope.cores.metrics import Metric, accuracy, cross_entropy, estimate_metric, metric_value
from invariscope.errors import ConfigError, unknown_name
from invariscope.estimate import Estimate, html_table
from invariscope.models import fingerprint
from invariscope.numerics.resampling import estimate_mean
from invariscope.positions import Positions, Rows, parse_positions
from invariscope.sites import LogitsOf

__all__ = ["EDITS", "EffectRow", "Effects", "check_origin", "validate_core"]

EDITS = ("keep", "remove", "flip")


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRow:
    """One measured effect.

    Args:
        name: ``model`` (edits ``full`` and ``mean``), ``core``, or a control.
        edit: ``full`` (none), ``mean`` (the site set to its mean), ``keep``, ``remove`` or ``flip``.
        metric: its name.
        estimate: the value; for several draws of a control their mean, with their range as its interval.
    """

    name: str
    edit: str
    metric: str
    estimate: Estimate


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Effects:
    """A table of causal effects: ``effects["core", "keep", "cross_entropy"]`` is an Estimate.

    Args:
        rows: one effect each.
        rank: of the core and of every control.
        values: per row of the data, for ``model`` and ``core``, by (name, edit, metric): what differences are taken of. Pooled
            metrics (``auc``) are one number for all rows, and have no entry.
        groups, weights: of the rows of the data.
    """

    rows: tuple[EffectRow, ...]
    rank: int
    values: Mapping[tuple[str, str, str], Float[Tensor, "n"]]
    groups: Tensor
    weights: Tensor | None

    def __getitem__(self, key: tuple[str, str, str]) -> Estimate:
        for row in self.rows:
            if (row.name, row.edit, row.metric) == key:
                return row.estimate
        raise unknown_name("effect", "/".join(map(str, key)), ["/".join((row.name, row.edit, row.metric)) for row in self.rows])

    def change(self, edit: str, metric: str, *, generator: torch.Generator | None = None) -> Estimate:
        """The core's effect minus the unedited model, row by row, with a paired bootstrap interval over groups.

        Raises:
            UnknownNameError: for an edit or a metric that was not measured, or one that is pooled.
        """
        for key in (("core", edit, metric), ("model", "full", metric)):
            if key not in self.values:
                raise unknown_name("effect", "/".join(key), ["/".join(known) for known in self.values])
        difference = self.values["core", edit, metric] - self.values["model", "full", metric]
        generator = generator or torch.Generator().manual_seed(0)
        unit = self["core", edit, metric].unit
        return estimate_mean(difference, generator=generator, groups=self.groups, weights=self.weights, unit=unit)

    def table(self) -> str:
        """The effects as text: one line a name and edit, one column a metric."""
        lines = self._cells()
        widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
        text = "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        )
        return f"rank {self.rank}\n{text}"

    def _cells(self) -> list[list[str]]:
        """Headings, then one line a name and edit."""
        metrics = list(dict.fromkeys(row.metric for row in self.rows))
        keys = list(dict.fromkeys((row.name, row.edit) for row in self.rows))
        lines = [["", "edit", *metrics]]
        return lines + [[name, edit, *(str(self[name, edit, metric]) for metric in metrics)] for name, edit in keys]

    def _repr_html_(self) -> str:
        headings, *rows = self._cells()
        return html_table(f"Effects at rank {self.rank}", rows, headings=headings)


def validate_core(
    core: Core,
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    metrics: Sequence[Metric] | None = None,
    controls: Mapping[str, Sequence[Core]] | None = None,
    edits: Sequence[str] = EDITS,
    site: str | None = None,
    positions: Positions | None = None,
    outputs_at: Positions | None = None,
    generator: torch.Generator | None = None,
    logits_of: LogitsOf | None = None,
    force: bool = False,
) -> Effects:
    """Measure the core and its controls under every edit.

    Args:
        core: the core.
        model: the model that it came from.
        batches: held-out batches: not those that the core was extracted from.
        metrics: None: cross-entropy and accuracy.
        controls: from ``moments.controls(rank=core.rank)``; several draws of one are averaged, and their range printed.
        edits: among ``keep``, ``remove`` and ``flip``.
        site, positions, outputs_at: None: those of the core's provenance.
        generator: of the bootstrap; None: seed 0.
        force: test a core of another site or other weights all the same.

    Raises:
        UnknownNameError: for an unknown edit. ConfigError: where a control has another rank, the core knows no site, or it came
            from another site or other weights than these.
        ShapeError: for a core of another width than the site.
    """
    metrics = (cross_entropy(), accuracy()) if metrics is None else metrics
    generator = generator or torch.Generator().manual_seed(0)
    for edit in edits:
        if edit not in EDITS:
            raise unknown_name("edit", edit, EDITS)
    site = site or core.provenance.site
    if not site:
        raise ConfigError("a core that does not know its site", expected="a site", do="pass site= and positions=")
    if not force:
        check_origin(core, model, site=site)
    positions = parse_positions(core.provenance.positions) if positions is None else positions
    outputs_at = parse_positions(core.provenance.outputs_at) if outputs_at is None else outputs_at
    subjects = {("core", 0): core}
    for name, drawn in (controls or {}).items():
        for number, control in enumerate(drawn):
            if control.rank != core.rank:
                raise ConfigError(
                    f"a control {name!r} of rank {control.rank} beside a core of rank {core.rank}",
                    expected="controls of equal rank",
                    do="call moments.controls(rank=core.rank, ...)",
                )
            subjects[name, number] = control
    functions = {("model", 0, "full"): None, ("model", 0, "mean"): core.constant}
    functions |= {(*key, edit): getattr(subject, edit) for key, subject in subjects.items() for edit in edits}
    values, rows = measure_edits(
        model, batches, functions, metrics, site=site, positions=positions, outputs_at=outputs_at, logits_of=logits_of
    )
    pooled = {metric.name for metric in metrics if hasattr(metric, "pool")}
    return Effects(
        rows=tuple(_effect_rows(values, metrics, rows, generator)),
        rank=core.rank,
        values={
            (name, edit, metric): column
            for ((name, _, edit), metric), column in values.items()
            if name in ("model", "core") and metric not in pooled
        },
        groups=rows.groups,
        weights=rows.weights,
    )


def check_origin(core: Core, model: nn.Module, *, site: str | None = None) -> None:
    """Raise where the core says that it came from elsewhere; a core that says nothing is taken as it is.

    Args:
        core: the core. model: the one that it is read or edited in.
        site: where; None: at the core's own.

    Raises:
        ConfigError: for a core of another site or of other weights.
    """
    made = core.provenance
    if site is not None and made.site and made.site != site:
        raise ConfigError(
            f"a core of {made.site!r} edited in at {site!r}",
            expected="the site that the core was extracted from",
            do="leave site out, or pass force=True to see what it does there",
        )
    if made.model and made.model != (given := fingerprint(model)):
        raise ConfigError(
            f"a core of the weights {made.model} and a model with the weights {given}",
            expected="the model that the core was extracted from, untrained since",
            do="extract the core from this model, or pass force=True (--force) to see what another model's core does",
        )


def _effect_rows(
    values: Mapping[tuple[tuple[str, int, str], str], Tensor], metrics: Sequence[Metric], rows: Rows, generator: torch.Generator
) -> list[EffectRow]:
    draws: dict[tuple[str, str, str], list[Tensor]] = {}
    for ((name, _, edit), metric), column in values.items():
        draws.setdefault((name, edit, metric), []).append(column)
    by_name = {metric.name: metric for metric in metrics}
    return [
        EffectRow(
            name=name,
            edit=edit,
            metric=metric,
            estimate=estimate_metric(by_name[metric], columns[0], rows, generator)
            if len(columns) == 1
            else _over_draws(by_name[metric], columns, rows),
        )
        for (name, edit, metric), columns in draws.items()
    ]


def _over_draws(metric: Metric, columns: Sequence[Tensor], rows: Rows) -> Estimate:
    means = [metric_value(metric, column, rows) for column in columns]
    return Estimate(
        value=sum(means) / len(means),
        low=min(means),
        high=max(means),
        num=rows.num,
        unit=metric.unit,
        level=1.0,
        method=f"range over {len(means)} draws",
        chance=metric.chance(rows),
    )
