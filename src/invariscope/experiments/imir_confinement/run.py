"""Run the study: measure everything, and leave claims and figures."""

from __future__ import annotations

from invariscope.experiments.imir_confinement.claims import make_claims
from invariscope.experiments.imir_confinement.config import Config
from invariscope.experiments.imir_confinement.figures import make_figures
from invariscope.experiments.imir_confinement.measure import Findings
from invariscope.experiments.one_job import run_one_job
from invariscope.storage.claims_file import write_claims
from invariscope.storage.run_folder import RunFolder

__all__ = ["run"]

HERE = "invariscope.experiments.imir_confinement"


def run(
    config: Config,
    folder: RunFolder,
    *,
    preset: str = "",
    engine: str = "auto",
    num_workers: int | None = None,
    progress: bool = True,
) -> None:
    """Carry out the study in ``folder``; what is measured there already is kept.

    Args:
        config: the study's numbers. folder: an open run folder; gets ``runs/``, ``claims.json`` and ``figures/``.
        preset: its name, for the claims.
        engine, num_workers: as in :func:`invariscope.parallel.map_jobs`. progress: show progress bars.
    """
    found = run_one_job(
        f"{HERE}.measure:measure_job", Findings, config, folder, engine=engine, num_workers=num_workers, progress=progress
    )
    for figure in make_figures(config, found):
        figure.save(folder.figures)
    write_claims(folder.claims_path, make_claims(config, found, preset=preset), experiment="imir-confinement", preset=preset)
