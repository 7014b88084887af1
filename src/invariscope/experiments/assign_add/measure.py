"""Train one model and measure it: pools, phases, circuits over its checkpoints, gradients, cores, pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from invariscope.circuits import (
    Phase,
    Phases,
    associative_memory,
    attention_routing,
    circuit_lag,
    find_phases,
    measure_circuits,
    ov2_mlp2_accuracy,
    variable_identity,
)
from invariscope.experiments.assign_add.config import Config
from invariscope.experiments.assign_add.cores import find_cores
from invariscope.experiments.assign_add.findings import (
    CircuitAtStep,
    GradientAtStep,
    PhaseFindings,
    PhaseSpan,
    PoolAccuracy,
    SeedFindings,
)
from invariscope.experiments.assign_add.pictures import draw_pictures, step_of
from invariscope.experiments.kept import keep_record
from invariscope.models import Transformer
from invariscope.models.folded import folded_logits
from invariscope.numerics.resampling import estimate_mean
from invariscope.storage.records import from_json_record
from invariscope.tasks import AssignAdd, derive_seed
from invariscope.training import initial_model, list_checkpoints, load_model, load_run, seed_folder, train

__all__ = ["measure_seed", "seed_job"]

ACCURACY_SEQUENCES = 4096
PROBE_SEQUENCES = 4096
SERIES_SEQUENCES = 192
GRADIENT_SEQUENCES = 4096
"""Behind each gradient: with the 256 of a training step its cosine with anything is that of noise."""
LEAST_GRADIENTS = 5
FEWEST_VARIABLES = 3
"""A gradient needs so many variables: two of them can be shuffled in one way only."""


def seed_job(*, config: dict[str, Any], folder: str, seed: int) -> Any:
    """Train one model and :func:`measure_seed`, as a job of JSON values (:mod:`invariscope.parallel`)."""
    study, path = from_json_record(Config, config), Path(folder)
    kept = path / "runs" / f"findings-{seed:04d}.json"
    train(study.task, study.model(), study.training(), seeds=[seed], folder=path / "runs", engine="inline", progress=False)
    return keep_record(kept, SeedFindings, lambda: measure_seed(study, path, seed))


def measure_seed(study: Config, folder: Path, seed: int) -> SeedFindings:
    """Everything that is measured of the model of ``seed``, trained in ``folder``."""
    task, run = study.task, load_run(seed_folder(folder / "runs", seed))
    checkpoints = list_checkpoints(seed_folder(folder / "runs", seed))
    untrained = initial_model(study.model(), seed)
    phases = find_phases(run.metrics, _generator(seed, "phases"), num_steps=study.train.steps)
    circuits = tuple(_circuit(load_model(path), step_of(path), study, seed) for path in checkpoints)
    return SeedFindings(
        seed=seed,
        modulus=task.modulus,
        num_steps=study.train.steps,
        steps=tuple(event["step"] for event in run.metrics),
        pools={pool: tuple(event["pools"][pool]["accuracy"] for event in run.metrics) for pool in task.corners},
        accuracies=tuple(_accuracies(run.model, untrained, task, seed)),
        circuits=circuits,
        gradients=tuple(_gradients(study, phases, checkpoints, seed)),
        phases=_phase_findings(phases, circuits, seed),
        measures=measure_circuits(
            run.model,
            task,
            _generator(seed, "measures"),
            num_sequences=study.num_sequences,
            num_pairs=study.num_pairs,
            num_shuffles=study.num_shuffles,
            probe_sequences=PROBE_SEQUENCES,
        ),
        untrained=measure_circuits(
            untrained,
            task,
            _generator(seed, "measures"),
            num_sequences=study.num_sequences,
            num_pairs=study.num_pairs,
            num_shuffles=study.num_shuffles,
            probe_sequences=PROBE_SEQUENCES,
        ),
        cores=find_cores(run.model, task, num=study.core_sequences, seed=seed, folder=folder / "cores")
        if study.core_sequences
        else None,
        pictures=draw_pictures(run.model, task, checkpoints, phases, study, _generator(seed, "pictures"))
        if seed == study.seeds[0]
        else None,
    )


def _generator(seed: int, *parts: str | int) -> torch.Generator:
    return torch.Generator().manual_seed(derive_seed(seed, "assign-add", *parts))


def _right(model: Transformer, task: AssignAdd, pool: str, seed: int) -> tuple[Tensor, Tensor]:
    """Whether each answer is right, and the group of its sum."""
    right, groups = [], []
    with torch.no_grad():
        for batch in task.batches(ACCURACY_SEQUENCES, batch_size=512, seed=derive_seed(seed, "accuracy"), pool=pool):
            assert batch.targets is not None
            assert batch.groups is not None
            right.append(folded_logits(model, batch.inputs["tokens"]).argmax(-1) == batch.targets[:, 0])
            groups.append(batch.groups)
    return torch.cat(right).double(), torch.cat(groups)


def _accuracies(model: Transformer, untrained: Transformer, task: AssignAdd, seed: int) -> Iterable[PoolAccuracy]:
    for pool in task.corners:
        right, groups = _right(model, task, pool, seed)
        yield PoolAccuracy(
            pool=pool,
            trained=estimate_mean(
                right, generator=_generator(seed, pool), groups=groups, unit="accuracy", chance=task.chance().accuracy
            ),
            untrained=float(_right(untrained, task, pool, seed)[0].mean()),
        )


def _circuit(model: Transformer, step: int, study: Config, seed: int) -> CircuitAtStep:
    # The same sequences at every step.
    generator = _generator(seed, "circuits")
    routing = attention_routing(
        model, study.task, [study.task.sample(SERIES_SEQUENCES, generator=generator)], generator=generator
    )
    return CircuitAtStep(
        step=step,
        attn1_equal_to_operands=routing.attn1_equal_to_operands.overall.value,
        attn2_equal_to_values=routing.attn2_equal_to_values.overall.value,
        number_to_own_variable=routing.number_to_own_variable.overall.value,
        qk2_ov1_variable_identity=variable_identity(model, study.task).argmax_on_diagonal.value,
        ov2_mlp2_accuracy=ov2_mlp2_accuracy(model, study.task).every.value,
    )


def _gradients(study: Config, phases: Phases, checkpoints: Sequence[Path], seed: int) -> Iterable[GradientAtStep]:
    """From addition to the jump's end; the first checkpoints after addition where that is a moment.

    None where the learning rate falls: a training so short has no phase between the two.
    """
    task, constant = study.task, study.train.schedule == "constant"
    if not constant or task.num_variables < FEWEST_VARIABLES or phases.addition.step is None or phases.jump is None:
        return
    after = [path for path in checkpoints if step_of(path) >= phases.addition.step]
    until = [path for path in after if step_of(path) <= phases.jump.end]
    for path in until if len(until) >= LEAST_GRADIENTS else after[:LEAST_GRADIENTS]:
        generator = _generator(seed, "gradient", step_of(path))
        batch = task.sample(GRADIENT_SEQUENCES, generator=generator)
        found = associative_memory(load_model(path), task, batch, generator, study.num_shuffles)
        yield GradientAtStep(step=step_of(path), merged=found.merged, rebuilt=found.rebuilt, query=found.query, key=found.key)


def _phase_findings(phases: Phases, circuits: Sequence[CircuitAtStep], seed: int) -> PhaseFindings:
    steps = [found.step for found in circuits]
    lags = {
        name: circuit_lag(phases, steps, [getattr(found, name) for found in circuits], _generator(seed, "lag", name))
        for name in ("attn1_equal_to_operands", "attn2_equal_to_values", "qk2_ov1_variable_identity")
    }
    jump, curves = phases.jump, phases.curves
    meanwhile = None
    if jump is not None:
        numbers = curves.of("0var-held")
        before, after = (int(torch.searchsorted(curves.steps.double(), edge)) for edge in (jump.start, jump.end))
        last = len(numbers) - 1
        meanwhile = float(numbers[min(after, last)] - numbers[min(before, last)])
    return PhaseFindings(
        addition=_span(phases.addition),
        routing=_span(phases.routing),
        refinement=_span(phases.refinement),
        in_order=phases.in_order,
        jump_size=None if jump is None else jump.size,
        jump_start=None if jump is None else jump.start,
        jump_end=None if jump is None else jump.end,
        addition_in_jump=meanwhile,
        dips=dict(phases.dips),
        lags={name: lag for name, lag in lags.items() if lag is not None},
    )


def _span(phase: Phase) -> PhaseSpan:
    return PhaseSpan(name=phase.name, step=phase.step, low=phase.low, high=phase.high)
