"""What is measured: trajectories in coordinates with a sentence a moment, emergence against context, a grid of beginnings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from invariscope.experiments.imir_dynamics.config import Config
from invariscope.experiments.kept import keep_record
from invariscope.manifold import Competition, descend, emergence_times, local_exponents, random_point
from invariscope.storage.records import from_json_record
from invariscope.tasks import derive_seed
from invariscope.tasks.blocks import AssociativeRecall

__all__ = ["Findings", "Moment", "Trajectory", "measure_job", "sentence"]

CIRCUITS = ("alpha", "beta", "gamma")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One point of a descent.

    Args:
        step: of it. loss, accuracy: exact.
        circuits: value of α, β, γ. share: of the squared norm of the weights that these three are.
        largest: names and values of the largest other coordinates.
    """

    step: int
    loss: float
    accuracy: float
    circuits: tuple[float, float, float]
    share: float
    largest: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """A descent in all coordinates from one seed."""

    seed: int
    moments: tuple[Moment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All of the study.

    Args:
        dim: coordinates. weights: of the full model. trajectories: of descent. chance: accuracy of a constant answer.
        emergence: time until recall, one a context length. exponents: between neighbouring lengths.
        axis: of the grid, for α and β alike. grid: time until recall from there; None where it never comes.
    """

    dim: int
    weights: int
    chance: float
    trajectories: tuple[Trajectory, ...]
    emergence: tuple[float, ...]
    exponents: tuple[float, ...]
    axis: tuple[float, ...]
    grid: tuple[tuple[float | None, ...], ...]


def measure_job(*, config: dict[str, Any], folder: str) -> Any:
    """All of it, as a job of JSON values (:mod:`invariscope.parallel`), kept in ``folder``."""
    study = from_json_record(Config, config)
    return keep_record(Path(folder) / "findings.json", Findings, lambda: measure(study))


def measure(study: Config) -> Findings:
    """Everything that the claims stand on."""
    task = AssociativeRecall(num_blocks=study.num_blocks, num_rare=study.vocabulary, num_slots=study.num_blocks + 1)
    competition = Competition.of(task, causal=True)
    emergence = tuple(_emergence(study, length) for length in study.lengths)
    axis, grid = _grid(study, task)
    config = competition.manifold.config
    return Findings(
        dim=competition.manifold.dim,
        weights=config.width(0) ** 2 + config.width(1) ** 2 + config.vocab_size * config.width(2),
        chance=task.chance().accuracy,
        trajectories=tuple(_trajectory(study, competition, seed) for seed in study.seeds),
        emergence=emergence,
        exponents=tuple(local_exponents(study.lengths, emergence)),
        axis=axis,
        grid=grid,
    )


def _trajectory(study: Config, competition: Competition, seed: int) -> Trajectory:
    generator = torch.Generator().manual_seed(derive_seed("imir-dynamics", seed))
    start = random_point(competition.manifold, generator, std=study.initial_std)
    every = max(study.steps // study.kept, 1)
    found = descend(competition.loss, start, learning_rate=study.learning_rate, steps=study.steps, every=every)
    return Trajectory(
        seed=seed,
        moments=tuple(
            _moment(competition, int(step), loss, theta)
            for step, loss, theta in zip(found.times, found.losses, found.coordinates, strict=True)
        ),
    )


def _moment(competition: Competition, step: int, loss: Tensor, theta: Tensor) -> Moment:
    where = [competition.coordinates_of(circuit)[0] for circuit in CIRCUITS]
    energy = competition.loss.metric.diagonal() * theta.square()
    others = [index for index in energy.argsort(descending=True).tolist() if index not in where][:2]
    names = competition.manifold.names
    alpha, beta, gamma = (float(theta[index]) for index in where)
    return Moment(
        step=step,
        loss=float(loss),
        accuracy=float(competition.loss.accuracy(theta)),
        circuits=(alpha, beta, gamma),
        share=float(energy[where].sum() / energy.sum()),
        largest=tuple((names[index], float(theta[index])) for index in others),
    )


def sentence(moment: Moment, chance: float) -> str:
    """One sentence on a moment: what the model can do, which of the circuit's coordinates leads, and what stands beside it.

    >>> moment = Moment(step=40, loss=1.2, accuracy=0.5, circuits=(2.0, 1.0, 0.1), share=0.8, largest=(("L2 [x|x] ones", -0.7),))
    >>> sentence(moment, 0.1)
    'Step 40: half learnt (accuracy 0.50, loss 1.20 nats); of the induction circuit the previous token leads \
(α 2.0, β 1.0, γ 0.1), which is 80 % of the weights; beside it stands L2 [x|x] ones at -0.7.'
    """
    names = ("the previous token", "the match", "the output")
    leads = names[max(range(3), key=lambda index: moment.circuits[index])]
    learnt = "not learnt" if moment.accuracy < 2 * chance else "learnt" if moment.accuracy > 0.95 else "half learnt"
    values = ", ".join(f"{letter} {value:.1f}" for letter, value in zip("αβγ", moment.circuits, strict=True))
    beside = f"; beside it stands {moment.largest[0][0]} at {moment.largest[0][1]:.1f}" if moment.largest else ""
    return (
        f"Step {moment.step}: {learnt} (accuracy {moment.accuracy:.2f}, loss {moment.loss:.2f} nats); of the induction circuit "
        f"{leads} leads ({values}), which is {100 * moment.share:.0f} % of the weights{beside}."
    )


def _emergence(study: Config, length: int) -> float:
    """Flow of α and β alone, without a mask; vocabulary and slots are the same for all lengths, as they set the clock."""
    longest = max(study.lengths)
    task = AssociativeRecall(num_blocks=length, num_rare=2 * longest + 2, num_slots=longest + 1)
    competition = Competition.of(task, readout="direct")
    moving = {index for circuit in ("alpha", "beta") for index in competition.coordinates_of(circuit)}
    frozen = [index for index in range(competition.manifold.dim) if index not in moving]
    start = competition.point({"alpha": study.start, "beta": study.start})[None]
    return float(emergence_times(competition.loss, start, longest=1e9, frozen=frozen)[0])


def _grid(study: Config, task: AssociativeRecall) -> tuple[tuple[float, ...], tuple[tuple[float | None, ...], ...]]:
    competition = Competition.of(task, readout="direct")
    axis = torch.linspace(-1.0, 2.0, study.grid, dtype=torch.float64)
    points = competition.point({})[None].repeat(study.grid**2, 1)
    alpha, beta = (competition.coordinates_of(circuit) for circuit in ("alpha", "beta"))
    points[:, alpha] = axis.repeat_interleave(study.grid)[:, None]
    points[:, beta] = axis.repeat(study.grid)[:, None]
    frozen = [index for index in range(competition.manifold.dim) if index not in {*alpha, *beta}]
    times = emergence_times(competition.loss, points, longest=3e3, frozen=frozen).view(study.grid, study.grid)
    rows = tuple(tuple(None if math.isinf(value) else value for value in row) for row in times.tolist())
    return tuple(axis.tolist()), rows
