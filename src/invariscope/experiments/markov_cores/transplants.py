"""Carry the core coordinates of one seed into the model of another, beside every control (:func:`invariscope.cores.transplant`).

The same table on the 12-state chains and on the hidden ones. After the last attention it can fail: there a principal subspace,
a random one, an untrained model, shuffled pairs or one direction fewer will not do. Before the unembedding it cannot: the
principal components of any code do what the core does, so that site discriminates nothing, and is printed to show it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from invariscope.cores import Core, cross_entropy, transplant
from invariscope.experiments.markov_cores.beliefs import HiddenSubject, hidden_subjects
from invariscope.experiments.markov_cores.config import Config
from invariscope.experiments.markov_cores.findings import TransplantFindings
from invariscope.experiments.markov_cores.subjects import FINAL_NORM, Subject, draw_control
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.tasks.task import derive_seed

__all__ = ["hidden_transplant_job", "transplant_models"]


Transplantable = Subject | HiddenSubject


def hidden_transplant_job(*, config: dict[str, Any], folder: str, chain: str, seeds: list[int]) -> Any:
    """:func:`transplant_models` between two seeds of a hidden chain, as a job of JSON values (:mod:`invariscope.parallel`)."""
    study = from_json_record(Config, config)
    (a, twin), (b, _) = (hidden_subjects(study, Path(folder), chain, seed) for seed in seeds)
    return to_json_record(transplant_models(a, b, twin))


def transplant_models(a: Transplantable, b: Transplantable, twin: Transplantable) -> TransplantFindings:
    """Carry the core coordinates of ``a`` into ``b``; ``twin`` is the untrained twin of ``a``."""
    mid, last, rank = a.resid_mid, FINAL_NORM, b.rank
    core_b = _core(b, mid, rank)
    random_a = _control(a, "random", mid, rank)
    sources: dict[str, tuple[Core, Transplantable, Core]] = {
        "core": (_core(a, mid, rank), a, core_b),
        "untrained": (_core(twin, mid, rank), twin, core_b),
        "random": (random_a, a, core_b),
        "random_pair": (random_a, a, _control(b, "random", mid, rank)),
        "pca": (_control(a, "pca", mid, rank), a, _control(b, "pca", mid, rank)),
        "smaller": (_core(a, mid, rank - 1), a, _core(b, mid, rank - 1)),
        "final_norm": (_core(a, last, rank), a, _core(b, last, rank)),
        "final_norm_pca": (_control(a, "pca", last, rank), a, _control(b, "pca", last, rank)),
    }
    found = {
        name: transplant(
            source,
            subject.model,
            target,
            b.model,
            b.heldout(),
            metric=cross_entropy(exact=True),
            generator=torch.Generator().manual_seed(derive_seed(a.arm, a.seed, b.seed, "transplant")),
        )
        for name, (source, subject, target) in sources.items()
    }
    core = found["core"]
    return TransplantFindings(
        arm=a.arm,
        seeds=(a.seed, b.seed),
        base=core.base,
        ceiling=core.ceiling,
        donor=core.donor,
        recipient=core.recipient,
        shuffled=core.shuffled,
        cost=core.cost,
        r2=core.r2,
        **{name: one.donor for name, one in found.items() if name != "core"},
    )


def _core(subject: Transplantable, site: str, rank: int) -> Core:
    return subject.moments[site].core(rank, "oblique")


def _control(subject: Transplantable, name: str, site: str, rank: int) -> Core:
    return draw_control(subject.moments[site], name, rank, subject.generator(f"control {name}"))
