"""Run the study: train and measure every seed, freeze one circuit while the other forms, and leave claims and figures."""

from __future__ import annotations

from typing import Any

from invariscope.experiments.assign_add.claims import make_claims
from invariscope.experiments.assign_add.config import Config
from invariscope.experiments.assign_add.figures import make_figures
from invariscope.experiments.assign_add.findings import IndependenceFindings, SeedFindings
from invariscope.experiments.assign_add.independence import ARMS
from invariscope.parallel import map_jobs, track
from invariscope.storage.claims_file import write_claims
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.storage.run_folder import RunFolder

__all__ = ["run"]

HERE = "invariscope.experiments.assign_add"


def run(
    config: Config,
    folder: RunFolder,
    *,
    preset: str = "",
    engine: str = "auto",
    num_workers: int | None = None,
    progress: bool = True,
) -> None:
    """Carry out the study in ``folder``; what is trained and measured there already is kept.

    Args:
        config: the study's numbers.
        folder: an open run folder; gets ``runs/``, ``cores/``, ``claims.json`` and ``figures/``.
        preset: its name, for the claims.
        engine, num_workers: as in :func:`invariscope.parallel.map_jobs`.
        progress: show progress bars.
    """
    shared = {"config": to_json_record(config), "folder": str(folder.path.resolve())}

    def mapped(doing: str, function: str, jobs: list[dict[str, Any]]) -> list[Any]:
        with track(doing, len(jobs), unit="models", show=progress) as advance:
            return map_jobs(
                f"{HERE}.{function}",
                [{**shared, **job} for job in jobs],
                engine=engine,
                num_workers=num_workers,
                on_done=lambda index, result: advance(),
            )

    results = mapped("training and measuring", "measure:seed_job", [{"seed": seed} for seed in config.seeds])
    findings = [from_json_record(SeedFindings, result) for result in results]
    arms = [{"seed": seed, "arm": arm} for seed in config.seeds for arm in ARMS] if config.independence_steps else []
    frozen = mapped("freezing", "independence:independence_job", arms) if arms else []
    independence = [from_json_record(IndependenceFindings, result) for result in frozen if result is not None]
    for figure in make_figures(config, findings, independence):
        figure.save(folder.figures)
    write_claims(
        folder.claims_path,
        make_claims(config, findings, independence, preset=preset),
        experiment="assign-add",
        preset=preset,
    )
