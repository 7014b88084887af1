"""Is addition learnt independently of binding? Freeze the one where it is there, and see whether the other still forms.

The paper says that addition comes before, and independently of, the look-up of variables (arXiv:2605.31497). That is a causal
claim. Each arm starts from the same weights and is trained in the same way; only what stays frozen differs:

* ``nothing``: from the checkpoint at which held-out sums of numbers reach .95; what the other arms are compared with.
* ``addition``: the same, with OV2, MLP2 and the unembedding frozen as they are there.
* ``untrained addition``: the same, with those parts taken from the initial weights: the control, which must not learn.
* ``fresh``: everything from the initial weights.
* ``routing``: the initial weights, with QK1, OV1 and QK2 taken from the trained model and frozen: the converse.
* ``untrained routing``: the initial weights, those parts frozen as they are: its control, which must not learn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from invariscope.circuits import pool_curves
from invariscope.experiments.assign_add.config import Config
from invariscope.experiments.assign_add.findings import IndependenceFindings
from invariscope.experiments.assign_add.pictures import step_of
from invariscope.models import Transformer, weight_part
from invariscope.numerics import crossing
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.training import Start, initial_model, list_checkpoints, load_model, load_run, seed_folder, train
from invariscope.training.checkpoints import save_weights

__all__ = ["ARMS", "independence_job"]

ADDITION = ("blocks.1.value_output", "blocks.1.mlp", "unembedding")
ROUTING = ("blocks.0.query_key", "blocks.0.value_output", "blocks.1.query_key")
ARMS = ("nothing", "addition", "untrained addition", "fresh", "routing", "untrained routing")
ADDED, LOOKED_UP = 0.95, 0.9
"""Accuracy on held-out sums of numbers at which weights are taken, and on sums with one variable that counts as learnt."""


def independence_job(*, config: dict[str, Any], folder: str, seed: int, arm: str) -> Any:
    """One arm of one seed, as a job of JSON values (:mod:`invariscope.parallel`); None where addition never came."""
    study, path = from_json_record(Config, config), Path(folder)
    of_seed = seed_folder(path / "runs", seed)
    run, checkpoints = load_run(of_seed), list_checkpoints(of_seed)
    curves = pool_curves(run.metrics)
    added = crossing(curves.steps, curves.of("0var-held"), ADDED)
    there = [one for one in checkpoints if added is not None and step_of(one) >= added]
    if not there:
        return None
    begun = _start(arm, study, seed, there[0], checkpoints[-1], path / "runs" / "starts")
    settings = study.frozen_training()
    [trained] = train(
        study.task,
        study.model(),
        settings,
        seeds=[seed],
        folder=path / "runs" / f"frozen-{arm.replace(' ', '-')}",
        start=begun,
        engine="inline",
        progress=False,
    )
    found = pool_curves(trained.metrics)
    return to_json_record(
        IndependenceFindings(
            seed=seed,
            arm=arm,
            start=step_of(there[0]) if arm in ARMS[:3] else 0,
            steps=tuple(event["step"] for event in trained.metrics),
            pools=_accuracies(trained.metrics, settings.eval_pools),
            reached=crossing(found.steps, found.of("1var-held"), LOOKED_UP),
        )
    )


def _start(arm: str, study: Config, seed: int, there: Path, last: Path, folder: Path) -> Start | None:
    if arm == "nothing":
        return Start(checkpoint=str(there))
    if arm == "addition":
        return Start(checkpoint=str(there), frozen=ADDITION)
    untrained = initial_model(study.model(), seed)
    if arm == "untrained addition":
        mixed = _mixed(load_model(there), untrained, ADDITION)
        return Start(checkpoint=_kept(mixed, folder / f"untrained-addition-{seed:04d}.safetensors"), frozen=ADDITION)
    if arm == "untrained routing":
        return Start(checkpoint=_kept(untrained, folder / f"untrained-{seed:04d}.safetensors"), frozen=ROUTING)
    return None if arm == "fresh" else Start(checkpoint=str(last), taken=ROUTING, frozen=ROUTING)


def _kept(model: Transformer, path: Path) -> str:
    save_weights(path, model, step=0)
    return str(path)


def _mixed(model: Transformer, other: Transformer, parts: Sequence[str]) -> Transformer:
    """``model`` with some parts of another one."""
    for part in parts:
        for mine, theirs in zip(weight_part(model, part), weight_part(other, part), strict=True):
            mine.copy_(theirs)
    return model


def _accuracies(events: Sequence[Mapping[str, Any]], pools: Sequence[str]) -> dict[str, tuple[float, ...]]:
    return {pool: tuple(event["pools"][pool]["accuracy"] for event in events) for pool in pools}
