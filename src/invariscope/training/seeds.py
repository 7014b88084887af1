"""Train one model a seed, in parallel one-thread processes, and read trained runs back.

>>> from invariscope.tasks import MarkovChain
>>> task = MarkovChain([[0.9, 0.1], [0.5, 0.5]], 4)
>>> shape = TransformerConfig(vocab_size=2, context_length=4, width=8, num_heads=2, mlp_width=8)
>>> runs = train(task, shape, TrainConfig(steps=5), seeds=[0], progress=False)
>>> [event["step"] for event in runs[0].metrics]
[5]
"""

from __future__ import annotations

import dataclasses
import hashlib
import operator
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from invariscope.errors import ConfigError, FolderError
from invariscope.estimate import html_table
from invariscope.models import Transformer, TransformerConfig
from invariscope.parallel import map_jobs, one_thread, resolve_engine, track
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.storage.run_folder import RunFolder
from invariscope.tasks import SampledBatches, Task, build_task, describe_task, factory_name
from invariscope.training.checkpoints import list_checkpoints, load_checkpoint
from invariscope.training.config import TrainConfig, resolve_forward
from invariscope.training.events import read_events
from invariscope.training.start import Start
from invariscope.training.train import train_in_folder

__all__ = ["Run", "load_run", "seed_folder", "train"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """One trained model.

    Args:
        seed: its seed.
        model: with its last weights, in evaluation mode.
        metrics: one entry an evaluation: step, train_loss, heldout_cross_entropy and (where the law is known)
            heldout_divergence in nats, heldout_accuracy, learning_rate.
        folder: where it stands; None where it was trained in memory.
    """

    seed: int
    model: Transformer
    metrics: tuple[dict[str, Any], ...]
    folder: Path | None

    def _repr_html_(self) -> str:
        rows: list[tuple[str, str]] = [("parameters", f"{sum(parameter.numel() for parameter in self.model.parameters())}")]
        rows += [
            (name.replace("_", " "), f"{value:.4g}" if isinstance(value, float) else f"{value}")
            for name, value in (self.metrics[-1] if self.metrics else {}).items()
        ]
        rows.append(("folder", "in memory" if self.folder is None else str(self.folder)))
        return html_table(f"Run of seed {self.seed}", rows)


# Enough that two tasks of one name and different laws hardly draw the same.
IDENTITY_ROWS = 64


def seed_folder(folder: Path, seed: int) -> Path:
    """The folder of one seed's run."""
    return folder / f"seed-{seed:04d}"


def train(
    task: Task,
    model_config: TransformerConfig,
    train_config: TrainConfig,
    *,
    seeds: Iterable[int],
    folder: Path | str | None = None,
    start: Start | None = None,
    engine: str = "auto",
    num_workers: int | None = None,
    progress: bool = True,
) -> list[Run]:
    """Train one model a seed.

    Args:
        task: where batches come from.
        model_config, train_config: the models' shape and how they are trained.
        seeds: one model each.
        folder: gets ``seed-0000/`` ...; what is finished there is kept, what was interrupted goes on. None: in memory, no resume.
        start: what every seed begins with, and keeps, of a trained model; None: fresh weights, all of them trained.
        engine: ``inline``, ``processes`` or ``auto`` (processes for more than one seed). One thread a seed with each, so that
            numbers do not depend on it.
        num_workers: parallel processes; None: as many as there are cores.
        progress: show a progress bar.

    Returns:
        One :class:`Run` a seed, in order.

    Raises:
        ConfigError: where the model does not fit the task, or the task cannot be described to another process.
        FolderError: where a seed's folder belongs to another configuration or is in use.
        JobError: where a worker died.
    """
    seeds = [operator.index(seed) for seed in seeds]
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise ConfigError(f"seeds {seeds}", expected="one or more different seeds from 0 on", do="name each seed once")
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="invariscope-") as scratch:
            runs = train(
                task,
                model_config,
                train_config,
                seeds=seeds,
                folder=scratch,
                start=start,
                engine=engine,
                num_workers=num_workers,
                progress=progress,
            )
            return [dataclasses.replace(run, folder=None) for run in runs]
    folder = Path(folder)
    resolved = resolve_engine(engine, len(seeds))
    with track("training", len(seeds), unit="seeds", show=progress) as advance:
        if resolved == "inline":
            # A task that cannot be described to another process still trains here.
            with one_thread():
                for seed in seeds:
                    _train_seed(task, model_config, train_config, seed, folder, start)
                    advance()
        else:
            shared = {
                "task": describe_task(task),
                "model": to_json_record(model_config),
                "config": to_json_record(train_config),
                "folder": str(folder.resolve()),
                "start": to_json_record(start),
            }
            map_jobs(
                "invariscope.training.seeds:train_job",
                [{**shared, "seed": seed} for seed in seeds],
                engine=resolved,
                num_workers=num_workers,
                on_done=lambda index, result: advance(),
            )
    return [load_run(seed_folder(folder, seed)) for seed in seeds]


def train_job(
    *,
    task: dict[str, Any],
    model: dict[str, Any],
    config: dict[str, Any],
    seed: int,
    folder: str,
    start: dict[str, Any] | None = None,
) -> str:
    """One seed's training as a job of JSON values (:mod:`invariscope.parallel`); returns the run's folder."""
    model_config = from_json_record(TransformerConfig, model)
    train_config = from_json_record(TrainConfig, config)
    begun = None if start is None else from_json_record(Start, start)
    return str(_train_seed(build_task(task), model_config, train_config, seed, Path(folder), begun))


def _train_seed(
    task: Task, model_config: TransformerConfig, config: TrainConfig, seed: int, folder: Path, start: Start | None
) -> Path:
    path = seed_folder(folder, seed)
    identity = {
        "task": _identify_task(task),
        "model": to_json_record(model_config),
        "train": to_json_record(config),
        "seed": seed,
        **({} if start is None else {"start": start.identity()}),
    }
    forward = resolve_forward(config.forward, task.loss_positions, model_config)
    with RunFolder.open(path, config=identity, kind="run", seeds=[seed], forward=forward):
        train_in_folder(task, model_config, config, seed=seed, folder=path, start=start)
    return path


def _identify_task(task: Task) -> Any:
    try:
        return describe_task(task)
    except ConfigError:
        # It still trains in this process; what it draws tells it from another task of the same name.
        batch = SampledBatches(task, IDENTITY_ROWS, batch_size=IDENTITY_ROWS, seed=0, pool=task.pools[0])[0]
        digest = hashlib.sha256()
        for tensor in (*batch.inputs.values(), batch.targets):
            if tensor is not None:
                digest.update(f"{tensor.dtype}{list(tensor.shape)}{tensor.tolist()}".encode())
        return {"name": task.name, "class": factory_name(type(task)), "first_rows": digest.hexdigest()[:16]}


def load_run(folder: Path | str) -> Run:
    """The trained model and its metrics from the folder of one seed.

    Raises:
        ForeignFileError: where the folder holds no run, or a damaged one.
        FolderError: where the run is not finished.
    """
    folder = Path(folder)
    manifest = RunFolder.read(folder).manifest
    if manifest.kind != "run" or manifest.status != "finished":
        raise FolderError(
            f"{folder}, which holds a {manifest.kind} whose status is {manifest.status!r}",
            expected="a trained model: a run that is finished",
            do="give the folder of one seed, or run the same training again to finish it",
        )
    model, digest = load_checkpoint(list_checkpoints(folder)[-1])
    return Run(
        seed=manifest.config["seed"],
        model=model,
        metrics=tuple(read_events(folder / "metrics.jsonl", digest=digest)),
        folder=folder,
    )
