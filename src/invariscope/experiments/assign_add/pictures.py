"""What the report draws of one model: attention in one sequence over training, identity block, neurons, cosines, score terms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from invariscope.circuits import (
    SHARED_SITES,
    Phases,
    attention_maps,
    fourier_neurons,
    neuron_table,
    score_decomposition,
    shared_computation,
    variable_identity,
)
from invariscope.experiments.assign_add.config import Config
from invariscope.experiments.assign_add.findings import AttentionPicture, Cosines, NeuronPicture, Pictures, TermsAtStep
from invariscope.models import Transformer
from invariscope.tasks import AssignAdd
from invariscope.training import load_model

__all__ = ["draw_pictures", "step_of"]

NUM_MOMENTS = 8
NUM_NEURONS = 4
NUM_CONTEXTS = 2
EDGES = tuple(round(-1 + 0.05 * index, 2) for index in range(41))


def step_of(checkpoint: Path) -> int:
    """The step in the name of a checkpoint.

    >>> step_of(Path("checkpoints/step-00001200.safetensors"))
    1200
    """
    return int(checkpoint.stem.removeprefix("step-"))


def draw_pictures(
    model: Transformer, task: AssignAdd, checkpoints: Sequence[Path], phases: Phases, study: Config, generator: torch.Generator
) -> Pictures:
    """Everything that is drawn of one model.

    Args:
        model, task: what was trained, on what. checkpoints: of its training, by step. phases: of it.
        study: how many sums. generator: of sequences.
    """
    moments = _moments(checkpoints, phases)
    [row] = task.sample(1, generator=generator, pool=f"{task.num_operands}var-seen").inputs["tokens"]
    batches = [task.sample(study.num_sequences, generator=generator)]
    identity = variable_identity(model, task)
    return Pictures(
        attention=tuple(_attention(load_model(path), task, row, step_of(path)) for path in moments),
        cosines=tuple(_cosines(model, task, study.num_pairs, generator)),
        variables=tuple(task.text(token[None]) for token in task.variable_tokens),
        identity=_table(identity.scores, 3),
        neurons=tuple(_neurons(model, task, generator)),
        terms=tuple(_terms(load_model(path), task, batches, step_of(path), generator) for path in moments),
    )


def _moments(checkpoints: Sequence[Path], phases: Phases) -> list[Path]:
    """Checkpoints spread evenly, and those nearest to the three phases."""
    last = len(checkpoints) - 1
    chosen = {round(index * last / (NUM_MOMENTS - 1)) for index in range(NUM_MOMENTS)}
    came = [phase.step for phase in (phases.addition, phases.routing, phases.refinement)]
    for step in (step for step in came if step is not None):
        distances = [abs(step_of(path) - step) for path in checkpoints]
        chosen.add(distances.index(min(distances)))
    return [checkpoints[index] for index in sorted(chosen)]


def _attention(model: Transformer, task: AssignAdd, row: Tensor, step: int) -> AttentionPicture:
    maps = attention_maps(model, task, row[None])
    return AttentionPicture(
        step=step,
        tokens=tuple(task.text(token[None]) for token in row),
        first=_table(maps.first[0, 0], 4),
        last=_table(maps.second[0, 0][-1:], 4)[0],
    )


def _cosines(model: Transformer, task: AssignAdd, num: int, generator: torch.Generator) -> Iterable[Cosines]:
    found = shared_computation(model, task, generator, num)
    for site in SHARED_SITES:
        pairs = found.at(site)
        yield Cosines(
            site=site,
            matched=pairs.mean,
            shuffled=pairs.shuffled_mean,
            edges=EDGES,
            matched_counts=_histogram(pairs.cosines),
            shuffled_counts=_histogram(pairs.shuffled),
        )


def _neurons(model: Transformer, task: AssignAdd, generator: torch.Generator) -> Iterable[NeuronPicture]:
    """The neuron with most energy of each of the strongest frequencies."""
    if task.num_operands != 2:
        return
    table = neuron_table(model, task, generator, num_contexts=NUM_CONTEXTS)
    found = fourier_neurons(model, task, table, generator)
    energies = found.shares.energies
    best = found.shares.shares.max(1).values
    for frequency, _ in found.frequencies[:NUM_NEURONS]:
        of_frequency = torch.where((found.shares.frequencies == frequency) & found.active, energies, -1.0)
        neuron = int(of_frequency.argmax())
        if float(of_frequency[neuron]) > 0:
            yield NeuronPicture(neuron=neuron, frequency=frequency, share=float(best[neuron]), values=_table(table[neuron], 3))


def _terms(model: Transformer, task: AssignAdd, batches: list, step: int, generator: torch.Generator) -> TermsAtStep:
    found = score_decomposition(model, task, batches, generator=generator)
    return TermsAtStep(step=step, sources=found.sources, terms=_table(found.values.terms, 4), total=found.values.total.value)


def _table(values: Tensor, digits: int) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(round(float(value), digits) for value in row) for row in values)


def _histogram(values: Tensor) -> tuple[int, ...]:
    """Values a bin of :data:`EDGES`; those beyond the ends count in the outermost bins."""
    inner = torch.tensor(EDGES[1:-1], dtype=values.dtype)
    return tuple(torch.bincount(torch.searchsorted(inner, values), minlength=len(EDGES) - 1).tolist())
