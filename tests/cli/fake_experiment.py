"""An experiment of a moment, without torch: what the command line does with one, without the minutes of a real one.

``python -m cli.fake_experiment ARGS`` is ``invariscope ARGS`` with this experiment in the registry.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from invariscope.cli.main import main
from invariscope.errors import ConfigError, RankError
from invariscope.experiments import registry
from invariscope.parallel import map_jobs
from invariscope.storage import Claim, Control, Mark, write_claims, write_json

ENTRY = registry.ExperimentEntry(
    name="fake",
    summary="Measures what it is told",
    source="arXiv:0000.00000",
    presets={"quick": "in a moment", "wrong": "with a number that misses its mark"},
    module="cli.fake_experiment",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainPart:
    """Nested numbers.

    Args:
        steps: at least one.
        rate: of learning.
    """

    steps: int = 4
    rate: float = 0.5

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ConfigError(f"steps = {self.steps}", expected="at least 1", do="correct steps")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A study of nothing.

    Args:
        seeds: two.
        measured: what is measured.
        fail: how it goes wrong: input, job, crash, interrupt, hang.
        train: nested.
    """

    seeds: tuple[int, ...] = (0, 1)
    measured: float = 3.0
    fail: str = ""
    train: TrainPart = field(default_factory=TrainPart)

    def all_seeds(self) -> tuple[int, ...]:
        return self.seeds

    def with_first_seed(self, seed: int) -> Config:
        return dataclasses.replace(self, seeds=tuple(range(seed, seed + len(self.seeds))))


PRESETS: Mapping[str, Any] = {"quick": Config(), "wrong": Config(measured=4.0)}


def run(config: Config, folder: Any, *, preset: str, engine: str, num_workers: int | None, progress: bool) -> None:
    write_json(folder.path / "called.json", {"engine": engine, "num_workers": num_workers, "progress": progress})
    if config.fail == "input":
        raise RankError("rank 9", expected="at most 3", do="ask for less")
    if config.fail == "job":
        map_jobs("cli.fake_experiment:broken_job", [{"seed": seed} for seed in config.seeds], engine="inline")
    if config.fail == "crash":
        raise KeyError("who\nknows")
    if config.fail == "interrupt":
        raise KeyboardInterrupt
    if config.fail == "hang":
        print("hanging", flush=True)
        time.sleep(60)
    mark = Mark(kind="within", target=3, tolerance=0)
    shared: dict[str, Any] = {"source": "arXiv:0000.00000", "mark": mark, "preset": preset}
    claims = [
        Claim(
            id="fake/rank",
            statement="It is three",
            measured=config.measured,
            controls=(Control(name="untrained", value=9, mark=Mark(kind="above", target=4)),),
            seeds=config.seeds,
            **shared,
        ),
        Claim(id="fake/algebra", statement="By construction three", measured=4, by_construction=True, **shared),
    ]
    write_claims(folder.claims_path, claims, experiment="fake", preset=preset)


def broken_job(*, seed: int) -> None:
    raise ValueError(f"seed {seed} is cursed")


if __name__ == "__main__":
    registry.EXPERIMENTS["fake"] = ENTRY  # pyright: ignore[reportIndexIssue]  # a dictionary, offered as a mapping
    sys.exit(main())
