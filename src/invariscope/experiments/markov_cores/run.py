"""Run the study: train every model, analyse each, compare the seeds, and leave claims and figures in the run's folder."""

from __future__ import annotations

import itertools
from typing import Any

from invariscope.experiments.markov_cores.claims import make_claims
from invariscope.experiments.markov_cores.config import Config
from invariscope.experiments.markov_cores.figures import make_figures
from invariscope.experiments.markov_cores.findings import Findings, ModelFindings, PairFindings, TransplantFindings
from invariscope.parallel import map_jobs, track
from invariscope.storage.claims_file import write_claims
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.storage.run_folder import RunFolder
from invariscope.training import train

__all__ = ["run"]

HERE = "invariscope.experiments.markov_cores"


def run(
    config: Config,
    folder: RunFolder,
    *,
    preset: str = "",
    engine: str = "auto",
    num_workers: int | None = None,
    progress: bool = True,
) -> None:
    """Carry out the study in ``folder``; what is trained there already is kept, and numbers do not depend on the engine.

    Args:
        config: the study's numbers.
        folder: an open run folder; gets ``runs/``, ``cores/``, ``claims.json`` and ``figures/``.
        preset: its name, for the claims.
        engine, num_workers: as in :func:`invariscope.parallel.map_jobs`.
        progress: show progress bars.
    """
    for arm, settings in config.arms().items():
        train(
            config.task(arm),
            config.model(arm),
            config.train,
            seeds=settings.seeds,
            folder=folder.runs / arm,
            engine=engine,
            num_workers=num_workers,
            progress=progress,
        )
    shared = {"config": to_json_record(config), "folder": str(folder.path.resolve())}
    findings = Findings(
        models=_mapped(
            ModelFindings,
            "analyse:analyse_job",
            [{**shared, "arm": arm, "seed": seed} for arm, settings in config.arms().items() for seed in settings.seeds],
            "analysing",
            "models",
            engine=engine,
            num_workers=num_workers,
            progress=progress,
        ),
        pairs=_mapped(
            PairFindings,
            "compare:compare_job",
            [
                {**shared, "arm": arm, "seeds": list(seeds)}
                for arm, settings in config.arms().items()
                for seeds in itertools.combinations(settings.seeds, 2)
            ],
            "comparing",
            "pairs",
            engine=engine,
            num_workers=num_workers,
            progress=progress,
        ),
        transplants=_mapped(
            TransplantFindings,
            "compare:transplant_job",
            [{**shared, "arm": "twelve", "seeds": list(seeds)} for seeds in itertools.permutations(config.twelve.seeds, 2)],
            "transplanting",
            "pairs",
            engine=engine,
            num_workers=num_workers,
            progress=progress,
        ),
    )
    for figure in make_figures(config, findings):
        figure.save(folder.figures)
    write_claims(folder.claims_path, make_claims(config, findings, preset=preset), experiment="markov-cores", preset=preset)


def _mapped(
    kind: type[Any],
    function: str,
    jobs: list[dict[str, Any]],
    doing: str,
    unit: str,
    *,
    engine: str,
    num_workers: int | None,
    progress: bool,
) -> tuple[Any, ...]:
    with track(doing, len(jobs), unit=unit, show=progress) as advance:
        results = map_jobs(
            f"{HERE}.{function}", jobs, engine=engine, num_workers=num_workers, on_done=lambda index, result: advance()
        )
    return tuple(from_json_record(kind, result) for result in results)
