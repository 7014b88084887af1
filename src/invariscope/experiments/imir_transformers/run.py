"""Run the study: train and follow every model, take the language model's heads, and leave claims and figures."""

from __future__ import annotations

from invariscope.experiments.imir_transformers.claims import make_claims
from invariscope.experiments.imir_transformers.config import Config
from invariscope.experiments.imir_transformers.figures import make_figures
from invariscope.experiments.imir_transformers.findings import LanguageFindings, TrainingFindings
from invariscope.parallel import map_jobs, track
from invariscope.storage.claims_file import write_claims
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.storage.run_folder import RunFolder

__all__ = ["run"]

HERE = "invariscope.experiments.imir_transformers"


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
        config: the study's numbers. folder: an open run folder; gets ``runs/``, ``claims.json`` and ``figures/``.
        preset: its name, for the claims.
        engine, num_workers: as in :func:`invariscope.parallel.map_jobs`. progress: show progress bars.
    """
    shared = {"config": to_json_record(config), "folder": str(folder.path.resolve())}
    # The language model takes longest, so that it begins first.
    named = [{**shared, "rare_share": None, "seed": None}] if config.language_model else []
    named += [{**shared, "rare_share": share, "seed": seed} for share in config.rare_shares for seed in config.seeds]
    with track("training and measuring", len(named), unit="models", show=progress) as advance:
        results = map_jobs(
            f"{HERE}.measure:any_job", named, engine=engine, num_workers=num_workers, on_done=lambda index, result: advance()
        )
    language = from_json_record(LanguageFindings, results.pop(0)) if config.language_model else None
    trainings = [from_json_record(TrainingFindings, result) for result in results]
    for figure in make_figures(config, trainings, language):
        figure.save(folder.figures)
    write_claims(
        folder.claims_path,
        make_claims(config, trainings, language, preset=preset),
        experiment="imir-transformers",
        preset=preset,
    )
