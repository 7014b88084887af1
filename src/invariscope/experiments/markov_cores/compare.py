"""Compare two seeds of an arm: coordinates, spans, weights, and the transplant of one core into the other's model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from invariscope.cores import (
    Core,
    core_coordinates,
    projector_overlap,
    weight_cosine,
)
from invariscope.estimate import Similarity
from invariscope.experiments.markov_cores.config import TWELVE_STATES, Config
from invariscope.experiments.markov_cores.findings import PairFindings, TransplantFindings
from invariscope.experiments.markov_cores.subjects import Subject
from invariscope.experiments.markov_cores.transplants import transplant_models
from invariscope.numerics.similarity import cca_similarity
from invariscope.positions import Rows
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.tasks.task import derive_seed

__all__ = ["COMPARED_RANK", "compare_job", "compare_models"]

# Three in every arm: in the rank-2 arm the third pair is the one that must have nothing in common.
COMPARED_RANK = 3


def _subjects(config: dict[str, Any], folder: str, arm: str, seeds: list[int], *, trained: bool) -> tuple[Subject, Subject]:
    study, where = from_json_record(Config, config), Path(folder)
    a, b = (Subject(config=study, folder=where, arm=arm, seed=seed, trained=trained) for seed in seeds)
    return a, b


def compare_job(*, config: dict[str, Any], folder: str, arm: str, seeds: list[int]) -> Any:
    """:func:`compare_models` as a job of JSON values (:mod:`invariscope.parallel`)."""
    trained = _subjects(config, folder, arm, seeds, trained=True)
    return to_json_record(compare_models(trained, _subjects(config, folder, arm, seeds, trained=False)))


def compare_models(trained: tuple[Subject, Subject], untrained: tuple[Subject, Subject]) -> PairFindings:
    """How alike the adjoint cores of two seeds are, beside untrained twins and random subspaces."""
    a, b = trained
    cores = {subject: subject.core("adjoint", COMPARED_RANK) for subject in (*trained, *untrained)}
    coordinates = {subject: _coordinates(subject, core) for subject, core in cores.items()}
    random = [_coordinates(subject, subject.control("random", COMPARED_RANK)) for subject in trained]
    groups = a.task.groups
    labels = None if groups is None else _labels(a, torch.as_tensor(groups))

    def cca(left: tuple[Tensor, Rows], right: tuple[Tensor, Rows], purpose: str, *, within: bool = False) -> Similarity:
        z_a, z_b = left[0], right[0]
        if within:
            assert labels is not None
            z_a, z_b = _within_groups(z_a, labels), _within_groups(z_b, labels)
        generator = torch.Generator().manual_seed(derive_seed(a.arm, a.seed, b.seed, purpose))
        return cca_similarity(z_a, z_b, groups=left[1].groups, generator=generator)

    twin_a, twin_b = untrained
    grouped = labels is not None
    return PairFindings(
        arm=a.arm,
        seeds=(a.seed, b.seed),
        cca=cca(coordinates[a], coordinates[b], "trained"),
        untrained=cca(coordinates[twin_a], coordinates[twin_b], "untrained"),
        mixed=cca(coordinates[a], coordinates[twin_b], "mixed"),
        random=cca(random[0], random[1], "random"),
        within=cca(coordinates[a], coordinates[b], "within", within=True) if grouped else None,
        within_untrained=cca(coordinates[twin_a], coordinates[twin_b], "within untrained", within=True) if grouped else None,
        overlap=projector_overlap(cores[a], cores[b]),
        weight_cosine=weight_cosine(a.model, b.model),
        untrained_cosine=weight_cosine(twin_a.model, twin_b.model),
        transplants=_transplants(trained, untrained),
    )


def _transplants(trained: tuple[Subject, Subject], untrained: tuple[Subject, Subject]) -> tuple[TransplantFindings, ...]:
    """Both directions, in the arms where any two codes of the states are not related anyway, between neighbouring seeds."""
    a, b = trained
    seeds = a.config.arms()[a.arm].seeds
    if a.arm not in TWELVE_STATES or abs(seeds.index(a.seed) - seeds.index(b.seed)) != 1:
        return ()
    return (transplant_models(a, b, untrained[0]), transplant_models(b, a, untrained[1]))


def _coordinates(subject: Subject, core: Core) -> tuple[Tensor, Rows]:
    return core_coordinates(core, subject.model, subject.heldout())


def _labels(subject: Subject, groups: Tensor) -> Tensor:
    """The group of the state at every held-out token, in (row, token) order."""
    return torch.cat([groups[batch.inputs["tokens"]].flatten() for batch in subject.heldout()])


def _within_groups(z: Tensor, labels: Tensor) -> Tensor:
    """z minus the mean of its group: what a mere label of the group cannot explain."""
    num = int(labels.max()) + 1
    sums = torch.zeros(num, z.shape[1], dtype=z.dtype).index_add_(0, labels, z)
    return z - (sums / torch.bincount(labels, minlength=num)[:, None])[labels]
