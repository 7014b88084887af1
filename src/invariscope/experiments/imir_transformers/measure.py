"""Train one model on recall and follow its coordinates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from invariscope.experiments.imir_transformers.config import Config
from invariscope.experiments.imir_transformers.findings import TrainingFindings
from invariscope.experiments.imir_transformers.language import language_job
from invariscope.experiments.kept import keep_record
from invariscope.manifold import follow_induction, induction_coordinates
from invariscope.storage.records import from_json_record
from invariscope.training import initial_model, train

__all__ = ["any_job", "training_job"]


def any_job(*, config: dict[str, Any], folder: str, rare_share: float | None, seed: int | None) -> Any:
    """The training of a share and seed, or without them the language model: jobs of one function share the workers."""
    if rare_share is None or seed is None:
        return language_job(config=config, folder=folder)
    return training_job(config=config, folder=folder, rare_share=rare_share, seed=seed)


def training_job(*, config: dict[str, Any], folder: str, rare_share: float, seed: int) -> Any:
    """One training, as a job of JSON values (:mod:`invariscope.parallel`), kept in ``folder``."""
    study = from_json_record(Config, config)
    runs = Path(folder) / "runs" / f"rare-{rare_share:g}"
    task, shape = study.arm(rare_share), study.model()

    def measured() -> TrainingFindings:
        [run] = train(task, shape, study.train, seeds=[seed], folder=runs, engine="inline", progress=False)
        series = follow_induction(
            run, task, initial=initial_model(shape, seed), num_sequences=study.num_sequences, seed=seed, progress=False
        )
        everywhere = induction_coordinates(run.model)
        assert everywhere.alpha is not None
        alpha = float(everywhere.alpha.z[everywhere.heads.index(series.previous)])
        return TrainingFindings(seed=seed, rare_share=rare_share, series=series, alpha_everywhere=alpha)

    return keep_record(runs / f"findings-{seed:04d}.json", TrainingFindings, measured)
