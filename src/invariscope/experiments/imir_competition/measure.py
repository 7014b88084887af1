"""What is measured: exact gradients of each circuit over data mixes, times until recall, with and without copies."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from invariscope.experiments.imir_competition.config import Config
from invariscope.experiments.kept import keep_record
from invariscope.manifold import Competition, circuit_gradients, emergence_of_recall, relevance
from invariscope.manifold.competition import Circuit
from invariscope.storage.records import from_json_record
from invariscope.tasks.blocks import AssociativeRecall

__all__ = ["LONGEST", "Bursts", "Findings", "Mix", "Times", "measure_job"]

LONGEST = 1e6
"""Time for which a flow is followed, and what stands where recall has not come by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Gradients of a data mix over those of rare questions alone, with memory trained.

    Args:
        rare_share, fresh_share: f_r, f_v. relevance: f.
        alpha, beta, gamma: ratios, which Theorem 2 says are f. alpha_without: that of α where there is no memory.
        surrogate: that of α with memory in the attention.
    """

    rare_share: float
    fresh_share: float
    relevance: float
    alpha: float
    beta: float
    gamma: float
    alpha_without: float
    surrogate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Times until rare questions are answered from the context, by f_r; :data:`LONGEST` where they never are.

    Args:
        surrogate: α and β move, memory in the attention stands. competing: α, β, γ and the memory δ all move from small.
    """

    rare_shares: tuple[float, ...]
    surrogate: tuple[float, ...]
    competing: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bursts:
    """Copies in the context, by B; of a model with or without a mask.

    Args:
        alpha, beta, gamma: gradients over those of one copy.
        times: until questions about contexts without copies are answered.
    """

    causal: bool
    copies: tuple[int, ...]
    alpha: tuple[float, ...]
    beta: tuple[float, ...]
    gamma: tuple[float, ...]
    times: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All of the study; ``long``: α's gradient over that of one copy among 16 blocks, for 2, 4 and 8 copies."""

    mixes: tuple[Mix, ...]
    times: Times
    bursts: tuple[Bursts, ...]
    long: tuple[float, float, float]


def measure_job(*, config: dict[str, Any], folder: str) -> Any:
    """All of it, as a job of JSON values (:mod:`invariscope.parallel`), kept in ``folder``."""
    study = from_json_record(Config, config)
    return keep_record(Path(folder) / "findings.json", Findings, lambda: measure(study))


def measure(study: Config) -> Findings:
    """Everything that the claims stand on."""
    long = [_pull(study, 16, copies)["alpha"] for copies in (1, 2, 4, 8)]
    return Findings(
        mixes=tuple(_mixes(study)),
        times=_times(study),
        bursts=tuple(_bursts(study, causal) for causal in (False, True)),
        long=(long[1] / long[0], long[2] / long[0], long[3] / long[0]),
    )


def _mixes(study: Config) -> list[Mix]:
    at: dict[Circuit, float] = {"alpha": study.value, "beta": study.value, "gamma": study.value}
    attended: dict[Circuit, float] = {"alpha": study.value, "beta": study.value, "surrogate": study.memory}
    remembered: dict[Circuit, float] = {**at, "delta": study.memory}
    rare = study.task(1.0)
    base = circuit_gradients(Competition.of(rare), remembered)
    bare = circuit_gradients(Competition.of(rare), at)
    read = circuit_gradients(Competition.of(rare, readout="direct"), attended)
    found = []
    for rare_share, fresh_share in itertools.product(study.rare_shares, study.fresh_shares):
        task = study.task(rare_share, fresh_share)
        trained = Competition.of(task)
        with_memory, without = circuit_gradients(trained, remembered), circuit_gradients(trained, at)
        in_attention = circuit_gradients(Competition.of(task, readout="direct"), attended)
        found.append(
            Mix(
                rare_share=rare_share,
                fresh_share=fresh_share,
                relevance=relevance(rare_share, fresh_share),
                alpha=with_memory["alpha"] / base["alpha"],
                beta=with_memory["beta"] / base["beta"],
                gamma=with_memory["gamma"] / base["gamma"],
                alpha_without=without["alpha"] / bare["alpha"],
                surrogate=in_attention["alpha"] / read["alpha"],
            )
        )
    return found


def _times(study: Config) -> Times:
    start: dict[Circuit, float] = {"alpha": study.start, "beta": study.start}
    attended: dict[Circuit, float] = {**start, "surrogate": study.surrogate}
    small: dict[Circuit, float] = {**start, "gamma": 1.0, "delta": study.start}
    every: tuple[Circuit, ...] = ("alpha", "beta", "gamma", "delta")
    tasks = [study.task(share) for share in study.emergence_shares]
    return Times(
        rare_shares=study.emergence_shares,
        surrogate=tuple(_time(task, attended) for task in tasks),
        competing=tuple(_time(task, small, trained=every, readout="trained") for task in tasks),
    )


def _time(task: AssociativeRecall, values: dict[Circuit, float], **choices: Any) -> float:
    return min(emergence_of_recall(task, values, longest=LONGEST, **choices), LONGEST)


def _pull(study: Config, blocks: int, copies: int, *, causal: bool = False) -> dict[Circuit, float]:
    at: dict[Circuit, float] = {"alpha": study.start, "beta": study.start, "gamma": study.start}
    return circuit_gradients(Competition.of(study.bursty(copies, blocks), causal=causal), at)


def _bursts(study: Config, causal: bool) -> Bursts:
    copies = study.copies
    pulls = [_pull(study, study.bursty_blocks, number, causal=causal) for number in copies]
    start: dict[Circuit, float] = {"alpha": study.start, "beta": study.start}
    # The clock of a flow goes with the vocabulary, so a small one does.
    tasks = [dataclasses.replace(study.bursty(number), num_rare=64) for number in copies]
    return Bursts(
        causal=causal,
        copies=copies,
        alpha=tuple(pull["alpha"] / pulls[0]["alpha"] for pull in pulls),
        beta=tuple(pull["beta"] / pulls[0]["beta"] for pull in pulls),
        gamma=tuple(pull["gamma"] / pulls[0]["gamma"] for pull in pulls),
        times=tuple(_time(task, start, causal=causal) for task in tasks),
    )
