"""The parts of the small study, in the form that the registry asks of an experiment."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from invariscope.cores import collect_moments
from invariscope.figures import Figure
from invariscope.parallel import map_jobs, track
from invariscope.storage import Claim, Mark, write_claims
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.storage.run_folder import RunFolder
from invariscope.training import TrainConfig, train
from training.toy_tasks import CHAIN, TINY


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A study of three seeds.

    Args:
        seeds: one model each.
        train: how each is trained.
    """

    seeds: tuple[int, ...] = (0, 1, 2)
    train: TrainConfig = field(
        default_factory=lambda: TrainConfig(
            steps=24, batch_size=8, eval_every=4, eval_sequences=16, checkpoint_every=6, warmup_steps=2
        )
    )

    def all_seeds(self) -> tuple[int, ...]:
        return self.seeds

    def with_first_seed(self, seed: int) -> Config:
        return dataclasses.replace(self, seeds=tuple(range(seed, seed + len(self.seeds))))


PRESETS: Mapping[str, Any] = {"quick": Config()}


def run(config: Config, folder: RunFolder, *, preset: str, engine: str, num_workers: int | None, progress: bool) -> None:
    shared = {"config": to_json_record(config), "folder": str(folder.path.resolve())}
    jobs = [{**shared, "seed": seed} for seed in config.seeds]
    with track("training", len(jobs), unit="models", show=progress) as advance:
        found: Any = map_jobs(
            "faults.small_study_parts:model_job",
            jobs,
            engine=engine,
            num_workers=num_workers,
            on_done=lambda index, result: advance(),
        )
    steps = found[0]["steps"]
    traces = [
        {"type": "scatter", "x": steps, "y": each["curve"], "meta": {"slot": index, "role": "core"}}
        for index, each in enumerate(found)
    ]
    Figure(
        name="curves",
        title="Held-out divergence",
        caption="One line a seed.",
        alt="Falling lines.",
        plot={"data": traces, "layout": {}},
        columns=("step", *(f"seed {seed}" for seed in config.seeds)),
        rows=tuple(zip(steps, *(each["curve"] for each in found), strict=True)),
    ).save(folder.figures)
    claim = Claim(
        id="small/divergence",
        statement="The models learn",
        source="arXiv:0000.00000",
        mark=Mark(kind="at_most", target=0.5),
        measured=max(each["curve"][-1] for each in found),
        seeds=config.seeds,
        figure="curves",
        preset=preset,
    )
    write_claims(folder.claims_path, [claim], experiment="small", preset=preset)


def model_job(*, config: dict[str, Any], folder: str, seed: int) -> Any:
    study, where = from_json_record(Config, config), Path(folder)
    (trained,) = train(CHAIN, TINY, study.train, seeds=[seed], folder=where / "runs", engine="inline", progress=False)
    batches = CHAIN.batches(64, batch_size=64, seed=seed, pool="train")
    for site, moments in collect_moments(trained.model, batches, sites=["final_norm"], positions="all").items():
        moments.core(1, "adjoint").save(where / "cores" / f"seed-{seed:04d}-{site}.safetensors")
    return {
        "steps": [event["step"] for event in trained.metrics],
        "curve": [event["heldout_divergence"] for event in trained.metrics],
    }
