"""Run the study: train and analyse every model, compare the seeds, and leave claims and figures in the run's folder."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from invariscope.experiments.markov_cores.claims import make_claims
from invariscope.experiments.markov_cores.config import Config
from invariscope.experiments.markov_cores.figures import make_figures
from invariscope.experiments.markov_cores.findings import BeliefFindings, Findings, ModelFindings, PairFindings, SizeFindings
from invariscope.parallel import map_jobs, track
from invariscope.storage.claims_file import write_claims
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.storage.run_folder import RunFolder

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
    shared = {"config": to_json_record(config), "folder": str(folder.path.resolve())}
    how = {"engine": engine, "num_workers": num_workers}
    arms = config.arms().items()
    jobs = [{**shared, "arm": arm, "seed": seed} for arm, settings in arms for seed in settings.seeds]
    with track("training and analysing", len(jobs), unit="models", show=progress) as advance:
        models = map_jobs(f"{HERE}.analyse:model_job", jobs, on_done=lambda index, result: advance(), **how)
    jobs = [{**shared, "arm": arm, "seeds": list(seeds)} for arm, settings in arms for seeds in combinations(settings.seeds, 2)]
    with track("comparing", len(jobs), unit="pairs of seeds", show=progress) as advance:
        pairs = map_jobs(f"{HERE}.compare:compare_job", jobs, on_done=lambda index, result: advance(), **how)
    sizes: list[Any] = []
    if config.sizes:
        jobs = [{**shared, "width": width, "num_heads": heads, "num_layers": layers} for width, heads, layers in config.sizes]
        with track("sizes", len(jobs), unit="models", show=progress) as advance:
            sizes = map_jobs(f"{HERE}.sizes:size_job", jobs, on_done=lambda index, result: advance(), **how)
    beliefs: list[Any] = []
    if config.hidden.chains:
        jobs = [{**shared, "chain": chain, "seed": seed} for chain in config.hidden.chains for seed in config.hidden.seeds]
        with track("hidden chains", len(jobs), unit="models", show=progress) as advance:
            beliefs = map_jobs(f"{HERE}.beliefs:belief_job", jobs, on_done=lambda index, result: advance(), **how)
    findings = Findings(
        models=tuple(from_json_record(ModelFindings, found) for found in models),
        pairs=tuple(from_json_record(PairFindings, found) for found in pairs),
        sizes=tuple(from_json_record(SizeFindings, found) for found in sizes),
        beliefs=tuple(from_json_record(BeliefFindings, found) for found in beliefs),
    )
    for figure in make_figures(config, findings):
        figure.save(folder.figures)
    write_claims(folder.claims_path, make_claims(findings, preset=preset), experiment="markov-cores", preset=preset)
