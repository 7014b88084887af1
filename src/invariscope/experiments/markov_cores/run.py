"""Run the study: train and analyse every model, compare the seeds, and leave claims and figures in the run's folder."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any, TypeVar

from invariscope.experiments.markov_cores.claims import make_claims
from invariscope.experiments.markov_cores.config import Config
from invariscope.experiments.markov_cores.figures import make_figures
from invariscope.experiments.markov_cores.findings import (
    BeliefFindings,
    Findings,
    FollowFindings,
    ModelFindings,
    PairFindings,
    PaperFindings,
    PaperPairFindings,
    SizeFindings,
    TransplantFindings,
)
from invariscope.parallel import map_jobs, track
from invariscope.storage.claims_file import write_claims
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.storage.run_folder import RunFolder

__all__ = ["run"]

Record = TypeVar("Record")
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

    def mapped(kind: type[Record], doing: str, unit: str, function: str, jobs: list[dict[str, Any]]) -> tuple[Record, ...]:
        if not jobs:
            return ()
        with track(doing, len(jobs), unit=unit, show=progress) as advance:
            results = map_jobs(
                f"{HERE}.{function}",
                [{**shared, **job} for job in jobs],
                engine=engine,
                num_workers=num_workers,
                on_done=lambda index, result: advance(),
            )
        return tuple(from_json_record(kind, result) for result in results)

    arms, hidden, paper = config.arms().items(), config.hidden, config.paper
    seeds = [{"arm": arm, "seed": seed} for arm, settings in arms for seed in settings.seeds]
    pairs = [{"arm": arm, "seeds": list(pair)} for arm, settings in arms for pair in combinations(settings.seeds, 2)]
    sizes = [{"width": width, "num_heads": heads, "num_layers": layers} for width, heads, layers in config.sizes]
    believers = [{"chain": chain, "seed": seed} for chain in hidden.chains for seed in hidden.seeds]
    carried = [
        {"chain": chain, "seeds": list(pair)}
        for chain in hidden.chains
        for neighbours in pairwise(hidden.seeds)
        for pair in (neighbours, neighbours[::-1])
    ]
    followed = [] if (seed := config.followed_seed()) is None else [{"seed": seed}]
    paper_pairs = [{"seeds": list(pair)} for pair in combinations(paper.seeds, 2)]
    findings = Findings(
        models=mapped(ModelFindings, "training and analysing", "models", "analyse:model_job", seeds),
        pairs=mapped(PairFindings, "comparing", "pairs of seeds", "compare:compare_job", pairs),
        followed=mapped(FollowFindings, "following", "models", "following:follow_job", followed),
        sizes=mapped(SizeFindings, "sizes", "models", "sizes:size_job", sizes),
        beliefs=mapped(BeliefFindings, "hidden chains", "models", "beliefs:belief_job", believers),
        hidden_transplants=mapped(
            TransplantFindings, "transplanting", "pairs of seeds", "transplants:hidden_transplant_job", carried
        ),
        paper=mapped(PaperFindings, "the paper's setting", "models", "paper:paper_job", [{"seed": seed} for seed in paper.seeds]),
        paper_pairs=mapped(PaperPairFindings, "comparing the paper's", "pairs of seeds", "paper:paper_pair_job", paper_pairs),
    )
    for figure in make_figures(config, findings):
        figure.save(folder.figures)
    write_claims(folder.claims_path, make_claims(findings, preset=preset), experiment="markov-cores", preset=preset)
