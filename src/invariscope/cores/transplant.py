"""Transplant: does model b compute on with the core coordinates of model a, mapped by one affine map?

On half of the sequences fit z_b ~ M z_a + c. On the other half run model b on a *recipient* with its core coordinates
replaced by M z_a + c of a *donor*, another held-out sequence, and score its predictions by the donor's law. Feeding the
recipient's own inputs to both would be weak: what is left outside the core could answer alone. The controls are the same
procedure with a random core, an untrained model a, and a map fitted on shuffled pairs.

On a 4-state chain, and before the unembedding, the transplant is nearly free: any code of the states will do there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from invariscope.batch import Batch, check_batches
from invariscope.cores.core import Core
from invariscope.cores.measure import check_any
from invariscope.cores.metrics import Metric, cross_entropy, estimate_metric
from invariscope.errors import ShapeError, TooFewSamplesError
from invariscope.estimate import Estimate
from invariscope.numerics.operators import Operator, fit_operator
from invariscope.numerics.resampling import estimate_mean, permuted_groups
from invariscope.positions import Rows, parse_positions, positions_of, rows_of, select_positions
from invariscope.sites import edit_site, frozen, logits_at, output_logits, read_sites

__all__ = ["Transplant", "transplant"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Transplant:
    """What a transplant does to model b, on held-out sequences.

    Args:
        base: the metric of model b, unedited, on the donors' inputs.
        ceiling: of model b on recipients with its *own* coordinates of the donors, scored by the donors' law.
        donor: of model b on recipients with M z_a + c of the donors, scored by the donors' law.
        recipient: the same run scored by the recipients' law: high where the core carries the answer.
        shuffled: as ``donor``, the map fitted on shuffled pairs.
        cost: ``donor`` minus ``base``, paired row by row.
        r2: hold-out R² of the affine map.
    """

    base: Estimate
    ceiling: Estimate
    donor: Estimate
    recipient: Estimate
    shuffled: Estimate
    cost: Estimate
    r2: Estimate


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Side:
    """One batch: its coordinates in both models, and which sequences the map may see."""

    batch: Batch
    z_a: Tensor
    z_b: Tensor
    rows: Rows
    heldout: Bool[Tensor, "B"]


def transplant(
    core_a: Core,
    model_a: nn.Module,
    core_b: Core,
    model_b: nn.Module,
    batches: Iterable[Batch],
    *,
    metric: Metric | None = None,
    generator: torch.Generator | None = None,
) -> Transplant:
    """Replace the core coordinates of model b by those of model a, mapped, of another input.

    Args:
        core_a, model_a: where coordinates come from.
        core_b, model_b: where they are written; both cores are read at their own sites, at the same positions.
        batches: sequences of one length, at least 20 of them; half fit the map, half are donors and recipients.
        metric: None: cross-entropy, exact where the batches know the law.
        generator: of split, donors and bootstrap; None: seed 0.

    Raises:
        ShapeError: where the two cores are read at different positions or sequences differ in length.
        TooFewSamplesError: for too few sequences.
    """
    generator = generator or torch.Generator().manual_seed(0)
    metric = metric or cross_entropy()
    if core_a.provenance.positions != core_b.provenance.positions:
        raise ShapeError(
            f"cores read at {core_a.provenance.positions!r} and at {core_b.provenance.positions!r}",
            expected="the same positions",
            do="extract both cores at the same positions",
        )
    sides = _read(core_a, model_a, core_b, model_b, batches, generator)
    fit = [(side, ~side.heldout[side.rows.b]) for side in sides]
    z_a, z_b = (torch.cat([getattr(side, name)[mask] for side, mask in fit]) for name in ("z_a", "z_b"))
    # Sequences are numbered within each batch; keep them apart across batches.
    groups = torch.cat([side.rows.b[mask] + 1_000_000 * number for number, (side, mask) in enumerate(fit)])
    straight = fit_operator(z_a, z_b, groups=groups, generator=generator, num_bootstrap=0)
    shuffled = fit_operator(z_a, z_b[permuted_groups(groups, generator)], groups=groups, generator=generator, num_bootstrap=0)
    return _score(sides, core_b, model_b, straight, shuffled, metric, generator)


def _read(
    core_a: Core, model_a: nn.Module, core_b: Core, model_b: nn.Module, batches: Iterable[Batch], generator: torch.Generator
) -> list[_Side]:
    sides = []
    positions = parse_positions(core_a.provenance.positions)
    for batch in check_batches(batches):
        if batch.valid is not None and not bool((batch.valid == batch.valid[:1]).all()):
            raise ShapeError(
                "sequences of different lengths", expected="one length", do="transplant between sequences of one length"
            )
        if batch.num_rows < 4:
            raise TooFewSamplesError(
                f"a batch of {batch.num_rows} sequences",
                expected="at least 4: two to fit, two to exchange",
                do="use larger batches",
            )
        found = []
        for core, model in ((core_a, model_a), (core_b, model_b)):
            with (
                torch.no_grad(),
                frozen(model),
                read_sites(model, [core.provenance.site], positions=positions_of(batch, positions), valid=batch.valid) as seen,
            ):
                model(**batch.inputs)
            found.append((core.coordinates(seen[core.provenance.site].double()), seen.index))
        heldout = torch.zeros(batch.num_rows, dtype=torch.bool)
        heldout[torch.randperm(batch.num_rows, generator=generator)[: batch.num_rows // 2]] = True
        sides.append(_Side(batch=batch, z_a=found[0][0], z_b=found[1][0], rows=rows_of(batch, found[1][1]), heldout=heldout))
    check_any(sides)
    return sides


def _score(
    sides: list[_Side],
    core: Core,
    model: nn.Module,
    straight: Operator,
    shuffled: Operator,
    metric: Metric,
    generator: torch.Generator,
) -> Transplant:
    """Run model b on recipients with the donors' coordinates, mapped in several ways."""
    site = core.provenance.site
    positions, outputs_at = parse_positions(core.provenance.positions), parse_positions(core.provenance.outputs_at)
    values: dict[str, list[Tensor]] = {name: [] for name in ("base", "ceiling", "donor", "recipient", "shuffled")}
    parts: list[Rows] = []
    first_row = 0
    for side in sides:
        recipients = side.heldout.nonzero()[:, 0]
        donors = _donors_of(recipients, recipients[torch.randperm(len(recipients), generator=generator)])
        batch_r, batch_d = side.batch.take(recipients), side.batch.take(donors)
        index = select_positions(positions_of(batch_r, outputs_at), valid=batch_r.valid, shape=(batch_r.num_rows, batch_r.length))
        rows_r, rows_d = (rows_of(batch, index, first_row=first_row) for batch in (batch_r, batch_d))
        first_row += batch_r.num_rows
        z_a, z_b = (_of_sequences(z, side.rows, donors) for z in (side.z_a, side.z_b))
        moves = {"ceiling": z_b, "donor": straight.predict(z_a), "shuffled": shuffled.predict(z_a)}
        with torch.no_grad(), frozen(model):
            values["base"].append(metric(logits_at(output_logits(model(**batch_d.inputs)), index), rows_d))
            for name, coordinates in moves.items():
                with edit_site(
                    model,
                    site,
                    lambda x, z=coordinates: core.move(x, z),
                    positions=positions_of(batch_r, positions),
                    valid=batch_r.valid,
                ):
                    logits = logits_at(output_logits(model(**batch_r.inputs)), index)
                values[name].append(metric(logits, rows_d))
                if name == "donor":
                    values["recipient"].append(metric(logits, rows_r))
        parts.append(rows_d)
    rows = Rows.concatenate(parts)
    columns = {name: torch.cat(chunks).double() for name, chunks in values.items()}
    cost = estimate_mean(
        columns["donor"] - columns["base"], generator=generator, groups=rows.groups, weights=rows.weights, unit=metric.unit
    )
    scored = {name: estimate_metric(metric, column, rows, generator) for name, column in columns.items()}
    return Transplant(**scored, cost=cost, r2=straight.r2_heldout)


def _donors_of(recipients: Int[Tensor, "m"], order: Int[Tensor, "m"]) -> Int[Tensor, "m"]:
    """For each recipient the one before it in a random round: nobody is their own donor."""
    giver = dict(zip(order.tolist(), order.roll(1).tolist(), strict=True))
    return torch.tensor([giver[recipient] for recipient in recipients.tolist()])


def _of_sequences(z: Tensor, rows: Rows, sequences: Int[Tensor, "m"]) -> Tensor:
    """Coordinates of the given sequences, one after the other; all have the same number of rows."""
    per_sequence = z.view(int(rows.b.max()) + 1, -1, z.shape[1])
    return per_sequence[sequences].flatten(0, 1)
