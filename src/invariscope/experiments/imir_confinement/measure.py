"""What is measured: shares outside the manifold, the noise of samples, two descents step by step, and what attracts."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from invariscope.batch import Batch
from invariscope.experiments.imir_confinement.config import CONTROLS, LARGE_LAW, MODELS, TASKS, Case, Config
from invariscope.experiments.kept import keep_record
from invariscope.manifold import (
    InductionManifold,
    ReducedLoss,
    check_invariance,
    descend,
    expected_gradient,
    follow_offspan,
    random_point,
    set_weights,
)
from invariscope.models.disentangled import Disentangled, DisentangledConfig
from invariscope.numerics.power_law import fit_power_law
from invariscope.storage.records import from_json_record
from invariscope.tasks import derive_seed
from invariscope.tasks.blocks import BlockTask

__all__ = ["OPTIMISERS", "Attraction", "Findings", "OffSpan", "SampledShare", "measure_job"]

OPTIMISERS = ("SGD", "SGD with weight decay", "Adam")


@dataclass(frozen=True, slots=True, kw_only=True)
class OffSpan:
    """Shares of the exact gradient outside the manifold, at random points of it.

    Args:
        name: of the task or control. model: of the model. dim: of the manifold. weights: of the model.
        shares: one a seed.
    """

    name: str
    model: str
    dim: int
    weights: int
    shares: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledShare:
    """Mean share of a sampled gradient outside by batch size, and its power law's slope: mean, least and largest of seeds."""

    sizes: tuple[int, ...]
    shares: tuple[float, ...]
    slope: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Attraction:
    """A training of the full model that begins outside the manifold.

    Args:
        optimiser: its name. seed: of weights and batches.
        steps: that are kept. outside, inside: squared norms of the weights there. losses: in nats.
    """

    optimiser: str
    seed: int
    steps: tuple[int, ...]
    outside: tuple[float, ...]
    inside: tuple[float, ...]
    losses: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All of the study.

    Args:
        confined, broken: of tasks and models, and of the controls. sampled: of samples.
        loss_difference, coordinate_difference: largest, between descent in the full model and in coordinates.
        descent_losses: of the full model, in nats. attraction: by optimiser and seed.
    """

    confined: tuple[OffSpan, ...]
    broken: tuple[OffSpan, ...]
    sampled: SampledShare
    loss_difference: float
    coordinate_difference: float
    descent_losses: tuple[float, ...]
    attraction: tuple[Attraction, ...]


def measure_job(*, config: dict[str, Any], folder: str) -> Any:
    """All of it, as a job of JSON values (:mod:`invariscope.parallel`), kept in ``folder``."""
    study = from_json_record(Config, config)
    return keep_record(Path(folder) / "findings.json", Findings, lambda: measure(study))


def measure(study: Config) -> Findings:
    """Everything that the claims stand on."""
    loss, coordinates, losses = _two_descents(study)
    return Findings(
        confined=tuple(_confined(study)),
        broken=tuple(_off_span(name, "as the control says", case, study, _law(case.task)) for name, case in CONTROLS.items()),
        sampled=_sampled(study),
        loss_difference=loss,
        coordinate_difference=coordinates,
        descent_losses=losses,
        attraction=tuple(_trained(study, name, seed) for name in OPTIMISERS for seed in study.seeds[: study.trainings]),
    )


def _generator(*parts: str | int) -> torch.Generator:
    return torch.Generator().manual_seed(derive_seed("imir-confinement", *parts))


def _manifold(case: Case) -> InductionManifold:
    task = case.task
    config = DisentangledConfig(vocab_size=task.vocab_size, num_labels=task.num_labels, **case.model)
    return InductionManifold(config, case.claimed.symmetry, relation=task.relation, **case.span)


def _plain(name: str, **model: Any) -> Case:
    return Case(task=TASKS[name], claimed=TASKS[name], model=model)


def _law(task: BlockTask) -> list[Batch]:
    return list(task.enumerate("train", 8192))


def _confined(study: Config) -> list[OffSpan]:
    found = []
    for name, task in TASKS.items():
        law = _law(task)
        assert task.symmetry is not None
        plain = Disentangled(_manifold(_plain(name)).config, generator=_generator(name))
        check_invariance(plain, law, task.symmetry)
        small = sum(batch.num_rows for batch in law) <= LARGE_LAW
        for model, choices in MODELS.items() if small else list(MODELS.items())[:1]:
            found.append(_off_span(name, model, _plain(name, **choices), study, law))
    return found


def _off_span(name: str, model: str, case: Case, study: Config, law: list[Batch]) -> OffSpan:
    manifold, shares = _manifold(case), []
    full = Disentangled(manifold.config, generator=_generator(name, model), initial_std=0.3).double()
    std = study.point_std if case.point_std is None else case.point_std
    for seed in study.seeds:
        point = random_point(manifold, _generator(name, model, seed), std=std)
        gradient, _ = expected_gradient(set_weights(full, manifold, point), law)
        shares.append(manifold.offspan_share(gradient))
    weights = sum(parameter.numel() for parameter in full.parameters())
    return OffSpan(name=name, model=model, dim=manifold.dim, weights=weights, shares=tuple(shares))


def _sampled(study: Config) -> SampledShare:
    """A batch is drawn as counts over the listed law, so that any size costs one pass over it."""
    task = TASKS["recall"]
    manifold = _manifold(_plain("recall"))
    [law] = task.enumerate("train", LARGE_LAW)
    assert law.weights is not None
    sizes, every = study.batches, []
    for seed in study.seeds:
        generator = _generator("sampled", seed)
        point = random_point(manifold, generator, std=study.point_std)
        model = set_weights(Disentangled(manifold.config, generator=generator).double(), manifold, point)
        means = []
        for size in sizes:
            shares = []
            for _ in range(study.draws):
                drawn = torch.multinomial(law.weights, size, replacement=True, generator=generator)
                counts = drawn.bincount(minlength=len(law.weights)).double() / size
                gradient, _ = expected_gradient(model, [dataclasses.replace(law, weights=counts)])
                shares.append(manifold.offspan_share(gradient))
            means.append(sum(shares) / len(shares))
        every.append(means)
    slopes = sorted(fit_power_law(sizes, means).slope for means in every)
    return SampledShare(
        sizes=sizes,
        shares=tuple(sum(means[index] for means in every) / len(every) for index in range(len(sizes))),
        slope=sum(slopes) / len(slopes),
        low=slopes[0],
        high=slopes[-1],
    )


def _two_descents(study: Config) -> tuple[float, float, tuple[float, ...]]:
    """Largest differences of losses and coordinates over the descent, and the losses."""
    task = TASKS["recall"]
    manifold, law = _manifold(_plain("recall")), _law(task)
    generator = _generator("descent", study.seeds[0])
    theta = random_point(manifold, generator, std=study.initial_std)
    reduced = descend(ReducedLoss(manifold, task.representatives()), theta, learning_rate=study.learning_rate, steps=study.steps)
    model = set_weights(Disentangled(manifold.config, generator=generator).double(), manifold, theta)
    losses, apart = [], 0.0
    for step in range(study.steps + 1):
        gradient, loss = expected_gradient(model, law)
        losses.append(loss)
        apart = max(apart, float((manifold.coordinates(model) - reduced.coordinates[step]).abs().max()))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter -= study.learning_rate * gradient[name]
    difference = max(abs(one - float(other)) for one, other in zip(losses, reduced.losses, strict=True))
    return difference, apart, tuple(losses)


def _trained(study: Config, optimiser: str, seed: int) -> Attraction:
    """A full model from weights that lie outside, on sampled batches."""
    task = TASKS["recall"]
    manifold = _manifold(_plain("recall"))
    model = Disentangled(manifold.config, generator=_generator("attraction", seed), initial_std=study.initial_std).double()
    parameters = list(model.parameters())
    stepper: torch.optim.Optimizer
    if optimiser == "Adam":
        stepper = torch.optim.Adam(parameters, lr=study.adam_rate)
    else:
        decay = study.weight_decay if "decay" in optimiser else 0.0
        stepper = torch.optim.SGD(parameters, lr=study.learning_rate, weight_decay=decay)
    batches = task.batches(study.steps * study.batch_size, batch_size=study.batch_size, seed=seed)
    found = follow_offspan(
        model,
        manifold,
        batches,
        stepper,
        law=_law(task),
        every=max(study.steps // 20, 1),
        is_control=optimiser == "Adam",
    )
    return Attraction(
        optimiser=optimiser,
        seed=seed,
        steps=found.steps,
        outside=found.outside,
        inside=found.inside,
        losses=found.losses,
    )
