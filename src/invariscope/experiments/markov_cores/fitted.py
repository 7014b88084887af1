"""Subspaces that are fitted, beside the core that is extracted: distributed alignment search and a linear probe.

They answer what users ask first. DAS is optimised for the very test that a core must pass, keeping the output; a probe reads the
next token, and what can be read need not be what is used. Both are controls of equal rank, for the first seed of each arm. Their
cost is given in passes of one sequence through the model, which is the same on every machine.
"""

from __future__ import annotations

from invariscope.cores import Core, distributed_alignment_search, linear_probe_core
from invariscope.experiments.markov_cores.findings import FittedFindings
from invariscope.experiments.markov_cores.subjects import Subject

__all__ = ["DAS_BATCH", "fit_controls"]

DAS_BATCH = 64
"""Sequences a step of the alignment search."""


def fit_controls(subject: Subject) -> tuple[dict[str, list[Core]], tuple[FittedFindings, ...]]:
    """The fitted subspaces of the chain's rank after the last attention, by name, and what each of them took.

    Nothing where the configuration leaves them out, or for any other seed than the first of an arm.
    """
    config, site = subject.config, subject.resid_mid
    if not config.das_steps or subject.seed != config.arms()[subject.arm].seeds[0]:
        return {}, ()
    das = distributed_alignment_search(
        subject.model,
        subject.extraction(DAS_BATCH),
        site=site,
        rank=subject.rank,
        positions="all",
        steps=config.das_steps,
        generator=subject.generator("das"),
    )
    probe = linear_probe_core(
        subject.model,
        subject.extraction(),
        site=site,
        rank=subject.rank,
        positions="all",
        max_samples=config.probe_tokens,
        generator=subject.generator("probe"),
    )
    num, length = config.extract_sequences, config.sequence_length
    searched = config.das_steps * DAS_BATCH
    found = (
        # A Jacobian row a state, each with a backward pass.
        FittedFindings(name="core", forward=num, backward=num * subject.task.num_states, score=None),
        FittedFindings(name="das", forward=num + 2 * searched, backward=searched, score=das.score),
        FittedFindings(name="probe", forward=min(num, -(-config.probe_tokens // length)), backward=0, score=probe.score),
    )
    return {"das": [das.core], "probe": [probe.core]}, found
