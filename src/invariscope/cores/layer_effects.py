"""What cores and their controls do at one layer: keep, remove, flip, transfer, specificity, and the margin of any two tokens."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from invariscope.batch import Batch
from invariscope.cores.choice_metrics import change_elsewhere, choice_accuracy, choice_margin
from invariscope.cores.controls import ALL_CONTROLS, CONTROLS
from invariscope.cores.core import Core
from invariscope.cores.edit_bench import EditBench, LayerStates
from invariscope.cores.layer_sweep import LayerEffect, LayerFindings
from invariscope.cores.measure import Edit
from invariscope.cores.metrics import Metric, auc
from invariscope.cores.moments import Moments
from invariscope.cores.validate import Effects, validate_core
from invariscope.estimate import Estimate
from invariscope.models.downstream import STATE, Downstream
from invariscope.numerics.operators import fit_operator
from invariscope.positions import Positions

__all__ = ["LEAST_GROUPS", "coordinates_and_values", "measure_layer", "resid_post"]

LEAST_GROUPS = 10
"""Groups of held-out prompts below which no R² is given."""


def resid_post(layer: int) -> str:
    """The site of a layer of the sweep."""
    return f"blocks.{layer}.resid_post"


def measure_layer(
    bench: EditBench,
    layer: int,
    moments: Moments,
    cores: Mapping[tuple[str, int], Core],
    arbitrary: Mapping[str, Core],
    generator: torch.Generator,
) -> LayerFindings:
    """Every effect at one layer.

    Args:
        bench: the held-out prompts.
        layer: from 0.
        moments: of the behaviour there. cores: from them, by (projection, rank).
        arbitrary: cores of arbitrary margins, by name, of the first rank or of rank 1.
        generator: of random subspaces and bootstraps.
    """
    settings, states = bench.settings, bench.at(layer)
    first_rank = settings.ranks[0]
    effects: list[LayerEffect] = []
    for rank in settings.ranks:
        controls = moments.controls(rank, _control_names(bench, moments), num_random=settings.num_random, generator=generator)
        if rank == 1:
            controls |= {f"core of {name}": [core] for name, core in arbitrary.items()}
        for number, projection in enumerate(settings.projections):
            core = cores[projection, rank]
            found = _measured(bench, layer, states, core, controls if number == 0 else {}, generator)
            beside = _specificity(bench, layer, states, core, generator)
            with_model = number == 0 and rank == first_rank
            beside |= _whole_answers(bench, layer, core, generator, with_model=with_model)
            effects += _records(bench, layer, projection, found, beside, with_model=with_model)
    for name, core in arbitrary.items():
        effects += _own_margin(bench, layer, states, name, core, generator)
    energy = moments.singular_values.square()
    shares = energy.cumsum(0) / energy.sum()
    fits = {projection: _fits(bench, states, cores[projection, first_rank], generator) for projection in settings.projections}
    return LayerFindings(
        layer=layer,
        site=resid_post(layer),
        share=tuple(float(shares[rank - 1]) for rank in settings.ranks),
        r2={projection: overall for projection, (overall, _) in fits.items() if overall is not None},
        within={projection: within for projection, (_, within) in fits.items() if within is not None},
        effects=tuple(effects),
    )


def coordinates_and_values(bench: EditBench, states: LayerStates, core: Core) -> tuple[Tensor, Tensor]:
    """The core's coordinates [n, k] at the token of each prompt that it was extracted at, and the unedited objective [n, K]."""

    def rows(batch: Batch) -> Tensor:
        state = batch.inputs["state"]
        return state[batch.marked] if bench.settings.at_marked and batch.marked is not None else state[:, -1]

    z = torch.cat([core.coordinates(rows(batch).double()).cpu() for batch in states.prompts])
    return z, bench.settings.objective(bench.unedited, bench.rows).double()


def _control_names(bench: EditBench, moments: Moments) -> Sequence[str]:
    if bench.settings.controls is not None:
        return bench.settings.controls
    return ALL_CONTROLS if moments.classes is not None and moments.classes.num_classes > 1 else CONTROLS


def _edited(
    bench: EditBench,
    above: Downstream,
    batches: Sequence,
    core: Core,
    metrics: Sequence[Metric],
    generator: torch.Generator,
    controls: Mapping[str, Sequence[Core]] | None = None,
    positions: Positions | None = None,
) -> Effects:
    return validate_core(
        core,
        above,
        batches,
        metrics=metrics,
        controls=controls,
        edits=bench.settings.edits,
        site=STATE,
        positions=bench.settings.positions if positions is None else positions,
        outputs_at="last",
        generator=generator,
        # The state at the head of the layers above is the core's own site under another name.
        force=True,
    )


def _measured(
    bench: EditBench,
    layer: int,
    states: LayerStates,
    core: Core,
    controls: Mapping[str, Sequence[Core]],
    generator: torch.Generator,
) -> Effects:
    """The behaviour's metrics under every edit, from the logits of a few tokens."""
    objective = bench.on_few(bench.settings.objective)
    metrics: list[Metric] = [choice_accuracy(objective), choice_margin(objective)]
    if bench.two_classes:
        if objective.num_outputs == 1:
            metrics.append(auc(objective))
        metrics += [auc(bench.on_few(found), name=_auc_of(name)) for name, found in bench.settings.transfers.items()]
    return _edited(bench, bench.above(layer, whole=False), states.few, core, metrics, generator, controls)


def _auc_of(name: str) -> str:
    return f"auc of {name}"


def _specificity(
    bench: EditBench, layer: int, states: LayerStates, core: Core, generator: torch.Generator
) -> dict[tuple[str, str], Estimate]:
    """What else changes, by (metric, edit), from the logits of all tokens."""
    positions = bench.settings.positions
    runs: list[tuple[Sequence[Batch], Metric, Positions]] = [
        (states.prompts, change_elsewhere(bench.unedited, bench.settings.answers), positions)
    ]
    if bench.unrelated_unedited is not None:
        # Text that is about nothing marks no token.
        quiet: Positions = "last" if bench.settings.at_marked else positions
        runs.append((states.unrelated, change_elsewhere(bench.unrelated_unedited, name="unrelated"), quiet))
    found = {}
    for batches, metric, where in runs:
        effects = _edited(bench, bench.above(layer, whole=True), batches, core, [metric], generator, positions=where)
        found |= {(metric.name, edit): effects["core", edit, metric.name] for edit in bench.settings.edits}
    return found


def _whole_answers(
    bench: EditBench, layer: int, core: Core, generator: torch.Generator, *, with_model: bool
) -> dict[tuple[str, str], Estimate]:
    """Accuracy by whole answers under each edit of the prompt, and without; nothing where every answer is one token."""
    if bench.whole_answers is None:
        return {}
    edits: dict[str, Edit | None] = {edit: getattr(core, edit) for edit in bench.settings.edits}
    found = bench.whole_answers.accuracies(
        bench.model,
        edits | ({"full": None} if with_model else {}),
        site=resid_post(layer),
        positions=bench.settings.positions,
        rows=bench.rows,
        generator=generator,
    )
    return {("whole answers", edit): value for edit, value in found.items()}


def _records(
    bench: EditBench,
    layer: int,
    projection: str,
    found: Effects,
    beside: Mapping[tuple[str, str], Estimate],
    *,
    with_model: bool,
) -> list[LayerEffect]:
    """One record a name and edit; the unedited model once a layer, and never the site's mean."""
    effects = []
    for name, edit in dict.fromkeys((row.name, row.edit) for row in found.rows):
        if edit == "mean" or (name == "model" and not with_model):
            continue
        measured = {row.metric: row.estimate for row in found.rows if (row.name, row.edit) == (name, edit)}
        transfers = tuple(measured[_auc_of(title)] for title in bench.settings.transfers) if bench.two_classes else ()
        effects.append(
            LayerEffect(
                layer=layer,
                name=name,
                projection=projection if name == "core" else "",
                rank=found.rank,
                edit=edit,
                accuracy=measured["accuracy"],
                margin=measured["margin"],
                auc=measured.get("auc"),
                transfers=transfers,
                elsewhere=beside.get(("elsewhere", edit)) if name == "core" else None,
                unrelated=beside.get(("unrelated", edit)) if name == "core" else None,
                whole_answers=beside.get(("whole answers", edit)) if name in ("core", "model") else None,
            )
        )
    return effects


def _own_margin(
    bench: EditBench, layer: int, states: LayerStates, name: str, core: Core, generator: torch.Generator
) -> list[LayerEffect]:
    """What the core of an arbitrary margin does to that margin; its classes are above and below the median."""
    values = bench.arbitrary[name]
    parts = (values > values.median()).long().split([batch.num_rows for batch in states.few])
    relabelled = [dataclasses.replace(batch, labels=part) for batch, part in zip(states.few, parts, strict=True)]
    objective = bench.on_few(bench.settings.arbitrary[name])
    metrics = [choice_accuracy(objective), choice_margin(objective), auc(objective)]
    found = _edited(bench, bench.above(layer, whole=False), relabelled, core, metrics, generator)
    return [
        LayerEffect(
            layer=layer,
            name=f"margin of {name}",
            projection="",
            rank=core.rank,
            edit=edit,
            accuracy=found["core", edit, "accuracy"],
            margin=found["core", edit, "margin"],
            auc=found["core", edit, "auc"],
        )
        for edit in bench.settings.edits
    ]


def _fits(
    bench: EditBench, states: LayerStates, core: Core, generator: torch.Generator
) -> tuple[Estimate | None, Estimate | None]:
    """Hold-out R² of the unedited objective on the core's coordinates, over all prompts and within labels.

    None for fewer than :data:`LEAST_GROUPS` groups, of which no share can be held out, and within labels where there are none.
    """
    z, values = coordinates_and_values(bench, states, core)
    groups, labels = bench.rows.groups, bench.rows.labels
    if len(groups.unique()) < LEAST_GROUPS:
        return None, None
    overall = fit_operator(z, values, groups=groups, generator=generator, num_bootstrap=0).r2_heldout
    if labels is None:
        return overall, None
    z, values = (_without_class_means(x, labels) for x in (z, values))
    return overall, fit_operator(z, values, groups=groups, generator=generator, num_bootstrap=0).r2_heldout


def _without_class_means(x: Tensor, labels: Tensor) -> Tensor:
    num = int(labels.max()) + 1
    sums = torch.zeros(num, x.shape[1], dtype=x.dtype).index_add_(0, labels, x)
    return x - (sums / torch.bincount(labels, minlength=num)[:, None])[labels]
