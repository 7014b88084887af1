"""Measure one behaviour in one language model: sweep the layers, then look at one of them closely."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from invariscope.cores import Core
from invariscope.cores.behaviour import BehaviourData, sweep_behaviour
from invariscope.cores.edit_bench import EditBench
from invariscope.cores.layer_effects import coordinates_and_values, resid_post
from invariscope.cores.layer_sweep import LayerSweep
from invariscope.cores.measure import Edit, measure_edits
from invariscope.cores.stability import LEAST_GROUPS, MAX_STABILITY_SAMPLES, Stability, direction_stability
from invariscope.cores.sweep_layers import LayerCores, extraction_batches
from invariscope.experiments.language_cores.findings import Histogram, LayerDetail, ModelFindings
from invariscope.models.downstream import STATE, Downstream
from invariscope.models.pretrained import LanguageModel
from invariscope.positions import Rows
from invariscope.sites import Objective, frozen, site_gradients, verify_model
from invariscope.tasks.task import derive_seed

__all__ = ["measure_model"]

NUM_BINS = 24
EDITS = ("full", "keep", "remove", "flip")


def measure_model(
    lm: LanguageModel, data: BehaviourData, *, seed: int, judged: Sequence[int] = (), progress: bool = True
) -> tuple[ModelFindings, LayerCores]:
    """Everything that is measured of one model.

    Args:
        lm: the model.
        data: the behaviour, encoded for it.
        seed: of random subspaces, splits and bootstraps.
        judged: the layers that claims name; the first is looked at where the rule chooses none.
        progress: show bars.
    """

    def generator(purpose: str) -> torch.Generator:
        return torch.Generator().manual_seed(derive_seed(seed, lm.name, data.name, purpose))

    sweep, cores = sweep_behaviour(lm, data, generator=generator("sweep"), progress=progress)
    layer = judged[0] if judged else sweep.chosen
    verification = verify_model(lm.model, _verified(data))
    findings = ModelFindings(
        name=lm.name,
        facts={name: str(value) for name, value in lm.describe().items()},
        deviation=verification.worst,
        tolerance=verification.tolerance,
        sweep=sweep,
        detail=None if layer is None else _detail(lm, data, sweep, cores, layer, generator("stability")),
        notes=data.notes,
    )
    return findings, cores


def _verified(data: BehaviourData) -> list[list[int]]:
    """Some prompts of different lengths, as token ids without padding; text of no behaviour where all have one length."""
    found: dict[int, list[int]] = {}
    for batches in (data.heldout, data.unrelated):
        if len(found) > 1:
            break
        for batch in batches:
            for ids, mask in zip(batch.inputs["input_ids"], batch.inputs["attention_mask"], strict=True):
                row = ids[mask.bool()].tolist()
                found.setdefault(len(row), row)
    return list(found.values())[:6]


def _detail(
    lm: LanguageModel, data: BehaviourData, sweep: LayerSweep, cores: LayerCores, layer: int, generator: torch.Generator
) -> LayerDetail:
    projection, rank = sweep.projections[0], sweep.ranks[0]
    core = cores[layer, projection, rank]
    bench = EditBench.of(lm.model, data.heldout, (), data.settings)
    states = bench.at(layer)
    z, values = coordinates_and_values(bench, states, core)
    names = _names(bench.rows, data.classes)
    margins = _margins(bench, layer, states.few, core)
    edges = _edges(list(margins.values()))
    return LayerDetail(
        layer=layer,
        projection=projection,
        rank=rank,
        edges=tuple(edges.tolist()),
        histograms=tuple(
            Histogram(edit=edit, label=label, counts=_counts(found, edges, [name == label for name in names]))
            for edit, found in margins.items()
            for label in dict.fromkeys(names)
        ),
        points=tuple(zip(z[:, 0].tolist(), values[:, -1].tolist(), names, strict=True)),
        stability=_stability(lm, data, layer, rank, generator),
    )


def _names(rows: Rows, classes: Sequence[str]) -> list[str]:
    if rows.labels is None or not classes:
        return ["all prompts"] * rows.num
    return [str(classes[int(label)]) for label in rows.labels.tolist()]


class _margin_of:  # noqa: N801 (a metric, called as the others are)
    """The last number of an objective as a metric: of two classes the margin of class 1."""

    name, unit, higher_is_better = "margin", "logits", True

    def __init__(self, objective: Objective) -> None:
        self.objective = objective

    def __call__(self, logits: Tensor, rows: Rows) -> Tensor:
        return self.objective(logits, rows)[:, -1]

    def chance(self, rows: Rows) -> float | None:
        return None


def _margins(bench: EditBench, layer: int, states: Sequence, core: Core) -> dict[str, Tensor]:
    edits: dict[str, Edit | None] = {edit: None if edit == "full" else getattr(core, edit) for edit in EDITS}
    metric = _margin_of(bench.on_few(bench.settings.objective))
    values, _ = measure_edits(
        bench.above(layer, whole=False),
        states,
        edits,
        [metric],
        site=STATE,
        positions=bench.settings.positions,
        outputs_at="last",
    )
    return {edit: values[edit, metric.name] for edit in EDITS}


def _edges(margins: Sequence[Tensor]) -> Tensor:
    """Common bins; the outermost two hold what lies beyond the central 99 %."""
    every = torch.cat(list(margins))
    low, high = torch.quantile(every, torch.tensor([0.005, 0.995], dtype=every.dtype)).tolist()
    room = max(high - low, 1e-6) / NUM_BINS
    return torch.linspace(low - room, high + room, NUM_BINS + 1, dtype=torch.float64)


def _counts(values: Tensor, edges: Tensor, chosen: Sequence[bool]) -> tuple[int, ...]:
    inside = values[torch.tensor(chosen)].clamp(float(edges[0]), float(edges[-1]))
    places = (torch.bucketize(inside, edges, right=True) - 1).clamp(0, NUM_BINS - 1)
    return tuple(torch.bincount(places, minlength=NUM_BINS).tolist())


def _stability(lm: LanguageModel, data: BehaviourData, layer: int, rank: int, generator: torch.Generator) -> Stability | None:
    activations, jacobians, groups, first_row = [], [], [], 0
    last = Downstream(lm.model)
    with frozen(lm.model):
        for batch in extraction_batches(lm.model, data.extraction, data.settings):
            found = site_gradients(
                last,
                batch,
                sites=[resid_post(layer)],
                objective=data.settings.objective,
                positions=data.settings.read_at,
                outputs_at="last",
            )[resid_post(layer)]
            activations.append(found.activations.double().cpu())
            jacobians.append(found.jacobians.double().cpu())
            rows = torch.arange(first_row, first_row + batch.num_rows)
            groups.append(rows if batch.groups is None else batch.groups.cpu())
            first_row += batch.num_rows
    every = torch.cat(groups)
    if len(every.unique()) < LEAST_GROUPS:
        return None
    few = slice(0, MAX_STABILITY_SAMPLES)
    return direction_stability(torch.cat(activations)[few], torch.cat(jacobians)[few], every[few], rank=rank, generator=generator)
