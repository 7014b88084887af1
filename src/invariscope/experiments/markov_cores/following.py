"""Follow the core of one model over its training: from untrained weights, where chance put everything, to its final place.

The first seed of the 12-state chain writes a checkpoint every ``config.follow_every`` steps, which changes no number of its
training. Before the first step and at some of them, the fewer the later, the core is measured in the same way on the same
sequences (:func:`invariscope.cores.follow_core`). No claim stands on it: it is shown, by a figure that moves.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from invariscope.cores import follow_core
from invariscope.experiments.markov_cores.config import FOLLOWED_ARM, Config
from invariscope.experiments.markov_cores.findings import FollowFindings
from invariscope.experiments.markov_cores.subjects import Subject
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.training import initial_model, seed_folder

__all__ = ["follow_job"]

NUM_BOOTSTRAP = 100


def follow_job(*, config: dict[str, Any], folder: str, seed: int) -> Any:
    """Follow the model of ``seed``, which is trained already, as a job of JSON values (:mod:`invariscope.parallel`)."""
    study = from_json_record(Config, config)
    subject = Subject(config=study, folder=Path(folder), arm=FOLLOWED_ARM, seed=seed, trained=True)
    series = follow_core(
        seed_folder(Path(folder) / "runs" / FOLLOWED_ARM, seed),
        subject.task,
        site=subject.resid_mid,
        rank=subject.rank,
        num_sequences=study.follow_sequences,
        operator_sequences=study.control_sequences // 2,
        num_bootstrap=NUM_BOOTSTRAP,
        steps=study.followed_steps(),
        initial=initial_model(study.model(FOLLOWED_ARM), seed),
        progress=False,
    )
    return to_json_record(FollowFindings(arm=FOLLOWED_ARM, seed=seed, series=series))
