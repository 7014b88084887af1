"""The paper's own setting (arXiv:2602.22600): its chain, its model, its site, beside the controls that it lacks.

T = .75 I + .25 (cyclic shift) on four states; one post-norm encoder layer with ReLU, biases and dropout; 3000 sequences of
length 32, 40 epochs; the core on the activation side at the layer's output, all positions, rank by .999 of the energy. That site
is before a linear readout of four outputs: rank at most 3, and any two codes of the states are related. So the untrained model
stands beside every number.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from invariscope.cores import (
    Core,
    Moments,
    accuracy,
    by_energy,
    collect_moments,
    core_coordinates,
    identify_operator,
    projector_overlap,
    validate_core,
    weight_cosine,
)
from invariscope.estimate import Estimate, Similarity
from invariscope.experiments.markov_cores.config import Config
from invariscope.experiments.markov_cores.findings import Eigenvalue, PaperFindings, PaperPairFindings
from invariscope.experiments.markov_cores.subjects import BATCH, FINAL_NORM
from invariscope.models import Transformer, untrained
from invariscope.numerics.operators import Operator, match_eigenvalues
from invariscope.numerics.similarity import cca_similarity
from invariscope.positions import Rows
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.tasks.task import SampledBatches, derive_seed
from invariscope.training import load_run, seed_folder, train

__all__ = ["paper_job", "paper_pair_job"]

RANK = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class PaperSubject:
    """One model of the paper's setting, or its untrained twin."""

    study: Config
    seed: int
    model: Transformer

    def batches(self, num: int, purpose: str, pool: str) -> SampledBatches:
        """The same for every seed."""
        return SampledBatches(self.study.paper_task(), num, batch_size=BATCH, seed=derive_seed("paper", purpose), pool=pool)

    def generator(self, purpose: str) -> torch.Generator:
        """Of this seed and purpose alone."""
        return torch.Generator().manual_seed(derive_seed("paper", self.seed, purpose))

    @functools.cached_property
    def moments(self) -> Moments:
        """At the layer's output."""
        batches = self.batches(self.study.extract_sequences, "extraction", "train")
        return collect_moments(self.model, batches, sites=[FINAL_NORM], positions="all")[FINAL_NORM]

    @functools.cached_property
    def core(self) -> Core:
        """On the activation side, as the paper takes it."""
        return self.moments.core(RANK, "activation")

    def control(self, name: str) -> Core:
        """One control of equal rank."""
        [drawn] = self.moments.controls(RANK, (name,), num_random=1, generator=self.generator(name))[name]
        return drawn

    def operator(self, core: Core, num_sequences: int) -> Operator:
        """Least squares on successive coordinates of held-out sequences."""
        transitions = self.batches(num_sequences, "transitions", "heldout")
        found = identify_operator(
            core, self.model, self.study.paper_task(), transitions, generator=self.generator("operator"), num_shuffles=0
        )
        return found.best.operator

    def coordinates(self) -> tuple[Tensor, Rows]:
        """Of held-out tokens."""
        return core_coordinates(self.core, self.model, self.batches(self.study.evaluate_sequences, "heldout", "heldout"))


def _subjects(study: Config, folder: Path, seed: int) -> tuple[PaperSubject, PaperSubject]:
    model = load_run(seed_folder(folder / "runs" / "paper", seed)).model
    twin = untrained(model, torch.Generator().manual_seed(derive_seed("paper", seed, "untrained")))
    subject, fresh = (PaperSubject(study=study, seed=seed, model=one) for one in (model, twin))
    return subject, fresh


def paper_job(*, config: dict[str, Any], folder: str, seed: int) -> Any:
    """Train one model of the paper's setting and measure it, as a job of JSON values (:mod:`invariscope.parallel`)."""
    study, where = from_json_record(Config, config), Path(folder)
    task, runs = study.paper_task(), where / "runs" / "paper"
    train(task, study.paper_model(), study.paper.train, seeds=[seed], folder=runs, engine="inline", progress=False)
    subject, twin = _subjects(study, where, seed)
    effects = validate_core(
        subject.core,
        subject.model,
        subject.batches(study.evaluate_sequences, "heldout", "heldout"),
        metrics=(accuracy(exact=False),),
        controls=subject.moments.controls(
            RANK, ("random", "pca"), num_random=study.num_random, generator=subject.generator("controls")
        ),
        generator=subject.generator("effects"),
    )
    trained = subject.operator(subject.core, study.operator_sequences)
    fresh = twin.operator(twin.core, study.control_sequences)
    pca, random = (subject.operator(subject.control(name), study.control_sequences) for name in ("pca", "random"))
    return to_json_record(
        PaperFindings(
            seed=seed,
            energy_999=subject.moments.core(by_energy(0.999), "activation").rank,
            untrained_energy_999=twin.moments.core(by_energy(0.999), "activation").rank,
            keep=effects.change("keep", "accuracy", generator=subject.generator("keep")),
            remove=effects["core", "remove", "accuracy"],
            eigenvalues=_pairs(trained),
            intervals=trained.interval,
            pair_error=_error(trained, study, pair=True),
            real_error=_error(trained, study, pair=False),
            untrained_eigenvalues=_pairs(fresh),
            untrained_pair_error=_error(fresh, study, pair=True).value,
            untrained_real_error=_error(fresh, study, pair=False).value,
            random_pair_error=_error(random, study, pair=True).value,
            random_real_error=_error(random, study, pair=False).value,
            pca_pair_error=_error(pca, study, pair=True).value,
        )
    )


def _pairs(operator: Operator) -> tuple[Eigenvalue, ...]:
    return tuple((float(value.real), float(value.imag)) for value in operator.eigenvalues)


def _error(operator: Operator, study: Config, *, pair: bool) -> Estimate:
    """Largest distance to the complex pair, or the distance to the real eigenvalue, with its bootstrap interval."""
    expected = study.paper_task().eigenvalues
    chosen = (expected.imag.abs() > 1e-9) == pair
    draws = [_distance(draw, expected, chosen) for draw in operator.bootstrap_eigenvalues]
    value = _distance(operator.eigenvalues, expected, chosen)
    low, high = torch.quantile(
        torch.tensor(draws, dtype=torch.float64), torch.tensor([0.025, 0.975], dtype=torch.float64)
    ).tolist()
    return Estimate(
        value=value, low=min(low, value), high=max(high, value), num=operator.num_pairs, method="bootstrap over sequences"
    )


def _distance(fitted: Tensor, expected: Tensor, chosen: Tensor) -> float:
    order, distances = match_eigenvalues(fitted, expected)
    assert len(order) == len(chosen)
    return float(distances[chosen].max())


def paper_pair_job(*, config: dict[str, Any], folder: str, seeds: list[int]) -> Any:
    """Compare two models of the paper's setting, as a job of JSON values (:mod:`invariscope.parallel`)."""
    study, where = from_json_record(Config, config), Path(folder)
    (a, twin_a), (b, twin_b) = (_subjects(study, where, seed) for seed in seeds)

    def cca(left: PaperSubject, right: PaperSubject) -> Similarity:
        z_a, rows = left.coordinates()
        return cca_similarity(z_a, right.coordinates()[0], groups=rows.groups, generator=a.generator("cca"))

    return to_json_record(
        PaperPairFindings(
            seeds=(a.seed, b.seed),
            cca=cca(a, b),
            untrained=cca(twin_a, twin_b),
            overlap=projector_overlap(a.core, b.core),
            weight_cosine=weight_cosine(a.model, b.model),
        )
    )
