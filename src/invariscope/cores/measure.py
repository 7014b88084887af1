"""Run a model under edits at one site and measure each; the one loop behind rank curves, effects and transplants."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from invariscope.batch import Batch, check_batches
from invariscope.cores.core import Core
from invariscope.cores.metrics import Metric
from invariscope.errors import ConfigError, TooFewSamplesError
from invariscope.positions import Positions, Rows, parse_positions, positions_of, rows_of, select_positions
from invariscope.sites import LogitsOf, edit_site, frozen, logits_at, output_logits, read_sites

__all__ = ["Edit", "measure_edits", "measure_law", "site_rows"]

Key = TypeVar("Key", bound=Hashable)
Edit = Callable[[Tensor], Tensor]


def measure_edits(
    model: nn.Module,
    batches: Iterable[Batch],
    edits: Mapping[Key, Edit | None],
    metrics: Sequence[Metric],
    *,
    site: str,
    positions: Positions,
    outputs_at: Positions,
    logits_of: LogitsOf | None = None,
) -> tuple[dict[tuple[Key, str], Float[Tensor, "n"]], Rows]:
    """Every metric of every row under every edit (None: no edit), in one pass over ``batches``.

    Returns:
        Values [n] float64 by (edit, metric name), and the rows.

    Raises:
        ConfigError: where two metrics have one name. TooFewSamplesError: where there are no batches; and as :func:`edit_site`
            and the metrics do.
    """
    names = [metric.name for metric in metrics]
    if len(set(names)) < len(names):
        raise ConfigError(
            f"metrics called {', '.join(names)}", expected="one metric a name", do="measure the second one in a call of its own"
        )
    values: dict[tuple[Key, str], list[Tensor]] = {(key, metric.name): [] for key in edits for metric in metrics}
    parts: list[Rows] = []
    first_row = 0
    with torch.no_grad(), frozen(model):
        for batch in check_batches(batches):
            index = select_positions(positions_of(batch, outputs_at), valid=batch.valid, shape=(batch.num_rows, batch.length))
            rows = rows_of(batch, index, first_row=first_row)
            first_row += batch.num_rows
            parts.append(_on_cpu(rows))
            for key, edit in edits.items():
                edited = (
                    nullcontext()
                    if edit is None
                    else edit_site(model, site, edit, positions=positions_of(batch, positions), valid=batch.valid)
                )
                with edited:
                    logits = logits_at(output_logits(model(**batch.inputs), logits_of), index)
                for metric in metrics:
                    values[key, metric.name].append(metric(logits, rows).double().cpu())
    check_any(parts)
    return {key: torch.cat(chunks) for key, chunks in values.items()}, Rows.concatenate(parts)


def site_rows(
    model: nn.Module,
    batches: Iterable[Batch],
    function: Callable[[Tensor], Tensor],
    *,
    site: str,
    positions: Positions,
) -> tuple[Float[Tensor, "n k"], Rows]:
    """``function`` of the activations at a site, such as ``core.coordinates``, over all batches; never N x D of them.

    Returns:
        Its values [n, k] in float64, and the rows.
    """
    values, parts, first_row = [], [], 0
    with torch.no_grad(), frozen(model):
        for batch in check_batches(batches):
            with read_sites(model, [site], positions=positions_of(batch, positions), valid=batch.valid) as seen:
                model(**batch.inputs)
            values.append(function(seen[site].double()).cpu())
            parts.append(_on_cpu(rows_of(batch, seen.index, first_row=first_row)))
            first_row += batch.num_rows
    check_any(parts)
    return torch.cat(values), Rows.concatenate(parts)


def measure_law(core: Core, model: nn.Module, batches: Iterable[Batch]) -> tuple[Float[Tensor, "n V"], Rows]:
    """The output law read from the core alone: softmax of the logits at μ + P(h - μ), [n, V] in float64, and the rows."""
    positions, outputs_at = parse_positions(core.provenance.positions), parse_positions(core.provenance.outputs_at)
    laws, parts, first_row = [], [], 0
    with torch.no_grad(), frozen(model):
        for batch in check_batches(batches):
            index = select_positions(positions_of(batch, outputs_at), valid=batch.valid, shape=(batch.num_rows, batch.length))
            with edit_site(model, core.provenance.site, core.keep, positions=positions_of(batch, positions), valid=batch.valid):
                logits = logits_at(output_logits(model(**batch.inputs)), index)
            laws.append(logits.double().softmax(-1).cpu())
            parts.append(_on_cpu(rows_of(batch, index, first_row=first_row)))
            first_row += batch.num_rows
    check_any(parts)
    return torch.cat(laws), Rows.concatenate(parts)


def _on_cpu(rows: Rows) -> Rows:
    # Values are gathered on the CPU; what is known about them must not stay on the model's device.
    fields = {field.name: getattr(rows, field.name) for field in dataclasses.fields(rows)}
    return dataclasses.replace(rows, **{name: value.cpu() for name, value in fields.items() if value is not None})


def check_any(parts: Sequence[object]) -> None:
    """Raise where nothing was measured.

    Raises:
        TooFewSamplesError: for empty batches.
    """
    if not parts:
        raise TooFewSamplesError(
            "batches that are empty", expected="at least one batch", do="pass task.batches(num, ...) or a list"
        )
