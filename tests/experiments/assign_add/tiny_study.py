"""A study of two seeds that takes seconds and learns nothing much, and findings of models that learnt everything."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from invariscope.circuits import CircuitMeasures, GradientCosine
from invariscope.estimate import Estimate, Similarity
from invariscope.experiments.assign_add.config import Config
from invariscope.experiments.assign_add.cores import CoreFindings, Edit
from invariscope.experiments.assign_add.findings import (
    GradientAtStep,
    IndependenceFindings,
    PhaseFindings,
    PhaseSpan,
    PoolAccuracy,
    SeedFindings,
)
from invariscope.tasks import AssignAdd
from invariscope.training import TrainConfig

TASK = AssignAdd(modulus=13, num_variables=4, min_assignments=3, max_assignments=3, num_pads=1, split="ordered")
STUDY = Config(
    task=TASK,
    seeds=(0, 1),
    width=16,
    mlp_width=24,
    train=TrainConfig(
        steps=32,
        batch_size=64,
        learning_rate=1e-2,
        warmup_steps=2,
        schedule="constant",
        eval_every=4,
        eval_sequences=64,
        checkpoint_every=4,
        batches_at_once=8,
    ),
    num_sequences=64,
    num_pairs=32,
    num_shuffles=20,
    core_sequences=128,
    independence_steps=8,
)


def ideal(seed: int, *, study: Config = STUDY, **changes) -> SeedFindings:
    """What a seed finds where everything is as the paper says; `changes` replace fields."""
    good = SeedFindings(
        seed=seed,
        modulus=study.task.modulus,
        num_steps=study.train.steps,
        steps=(4, 32),
        pools=dict.fromkeys(study.task.corners, (0.1, 1.0)),
        accuracies=tuple(
            PoolAccuracy(pool=pool, trained=sure(0.97 if "unseen" in pool else 0.999), untrained=0.02)
            for pool in study.task.corners
        ),
        circuits=(),
        gradients=(GradientAtStep(step=8, merged=PULLED, rebuilt=PULLED, query=PULLED, key=PULLED),),
        phases=phases(),
        measures=measures(trained=True),
        untrained=measures(trained=False),
        cores=cores(),
    )
    return dataclasses.replace(good, **changes)


def sure(value: float, chance: float | None = None) -> Estimate:
    return Estimate(value=value, low=value, high=value, num=100, chance=chance)


PULLED = GradientCosine(cosine=0.5, null_mean=0.0, null_sd=0.1, null_99=0.2, percentile=1.0, num_shuffles=200)
REPELLED = dataclasses.replace(PULLED, cosine=0.1, percentile=0.8)


def phases(**changes) -> PhaseFindings:
    def span(name: str, step: float) -> PhaseSpan:
        return PhaseSpan(name=name, step=step, low=step - 1, high=step + 1)

    good = PhaseFindings(
        addition=span("addition", 8),
        routing=span("routing", 16),
        refinement=span("refinement", 24),
        in_order=True,
        jump_size=0.5,
        jump_start=15,
        jump_end=18,
        addition_in_jump=0.01,
        dips={"1var-seen-bad1": -0.1},
        lags={"attn2_equal_to_values": sure(0.5)},
    )
    return dataclasses.replace(good, **changes)


def measures(*, trained: bool) -> CircuitMeasures:
    """Ideal values, or those of an untrained model."""
    values = {field.name: sure(0.999 if trained else 0.02, chance=0.02) for field in dataclasses.fields(CircuitMeasures)}
    if trained:
        values |= {
            "qk2_ov1_variable_identity": sure(1.0, 0.25),
            "without_mlp2_accuracy": sure(0.02),
            "own_variable_probe_before": sure(0.25),
        }
    else:
        values |= {"shared_residual": sure(0.99, 0.94), "shared_pre_activations": sure(0.99, 0.94)}
    return CircuitMeasures(**values)


def cores(**changes) -> CoreFindings:
    good = CoreFindings(
        constant_rank=8,
        variable_rank=8,
        edits=tuple(
            Edit(core=core, subject=subject, edit=edit, pool=pool, accuracy=sure(value))
            for core in ("constant", "variable")
            for pool in ("constant", "variable")
            for subject, edit, value in (
                ("core", "keep", 0.98),
                ("core", "remove", 0.02),
                ("random", "keep", 0.03),
                ("random", "remove", 0.99),
                ("pca", "keep", 0.9),
                ("pca", "remove", 0.05),
            )
        ),
        overlap=Similarity(name="overlap", value=0.95, null_mean=0.1, null_low=0.05, null_high=0.15, dims=(16, 16), rank=8),
        carried=sure(0.97),
        carried_random=sure(0.01),
        rest_keeps=sure(0.9),
    )
    return dataclasses.replace(good, **changes)


def frozen_arms(seeds: Sequence[int], **reached: float | None) -> list[IndependenceFindings]:
    """One finding an arm and seed; names with `_` for blanks."""
    arms = {
        "nothing": 10.0,
        "addition": 10.0,
        "untrained addition": None,
        "fresh": 20.0,
        "routing": 15.0,
        "untrained routing": None,
    }
    arms |= {name.replace("_", " "): step for name, step in reached.items()}
    return [
        IndependenceFindings(seed=seed, arm=arm, start=8, steps=(50, 100), pools={"1var-held": (0.1, 0.9)}, reached=step)
        for seed in seeds
        for arm, step in arms.items()
    ]
