"""Run the study ``agreement``, and the same measurements for one behaviour of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from invariscope.cores import export_steering
from invariscope.cores.behaviour import BehaviourData, behaviour_data
from invariscope.cores.sweep_layers import LayerCores
from invariscope.experiments.kept import keep_record
from invariscope.experiments.language_cores.claims import make_claims
from invariscope.experiments.language_cores.config import Config
from invariscope.experiments.language_cores.figures import make_figures
from invariscope.experiments.language_cores.findings import ModelFindings
from invariscope.experiments.language_cores.measure import measure_model
from invariscope.models import LanguageModel, load_language_model
from invariscope.parallel import map_jobs, track
from invariscope.storage.atomic import write_json
from invariscope.storage.claims_file import write_claims
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.storage.run_folder import RunFolder
from invariscope.tasks import Behaviour, balanced_agreement, builtin_pairs

__all__ = ["answer_of", "model_job", "run", "run_behaviour"]

HERE = "invariscope.experiments.language_cores"


def run(
    config: Config,
    folder: RunFolder,
    *,
    preset: str = "",
    engine: str = "auto",
    num_workers: int | None = None,
    progress: bool = True,
) -> None:
    """Carry out the study in ``folder``; a model that is measured there already is kept.

    Args:
        config: the study's numbers.
        folder: an open run folder; gets ``runs/MODEL/findings.json``, ``cores/``, ``claims.json`` and ``figures/``.
        preset: its name, for the claims.
        engine, num_workers: as in :func:`invariscope.parallel.map_jobs`.
        progress: show progress bars.
    """
    shared = {"config": to_json_record(config), "folder": str(folder.path.resolve())}
    with track("measuring", len(config.models), unit="models", show=progress) as advance:
        results = map_jobs(
            f"{HERE}.run:model_job",
            [{**shared, "index": index} for index in range(len(config.models))],
            engine=engine,
            num_workers=num_workers,
            on_done=lambda index, result: advance(),
        )
    models = [from_json_record(ModelFindings, result) for result in results]
    for figure in make_figures(models):
        figure.save(folder.figures)
    write_claims(folder.claims_path, make_claims(config, models, preset=preset), experiment="agreement", preset=preset)


def model_job(*, config: dict[str, Any], folder: str, index: int) -> Any:
    """Measure one model, as a job of JSON values (:mod:`invariscope.parallel`)."""
    study = from_json_record(Config, config)
    settings = study.models[index]
    name = settings.name.replace("/", "--")
    path = Path(folder) / "runs" / name / "findings.json"

    def measured() -> ModelFindings:
        lm = load_language_model(settings.name, dtype=settings.dtype)
        data = behaviour_data(
            lm,
            _prompts(study),
            batch_size=study.batch_size,
            num_arbitrary=study.num_arbitrary,
            layers=settings.layers or None,
            projections=study.projections,
            num_random=study.num_random,
        )
        found, cores = measure_model(lm, data, seed=study.prompt_seed, judged=settings.judged, progress=False)
        _save_cores(Path(folder) / "cores" / name, cores)
        return found

    return keep_record(path, ModelFindings, measured)


def _prompts(study: Config) -> Behaviour:
    if study.prompts == "agreement":
        return balanced_agreement(num_train=study.num_extraction, num_heldout=study.num_heldout, seed=study.prompt_seed)
    return builtin_pairs(study.prompts)


def _save_cores(folder: Path, cores: LayerCores) -> None:
    for (layer, projection, rank), core in cores.items():
        core.save(folder / f"layer-{layer:02d}-{projection}-rank-{rank}.safetensors")


def run_behaviour(
    lm: LanguageModel, data: BehaviourData, folder: RunFolder, *, seed: int = 0, progress: bool = True
) -> ModelFindings:
    """Measure one behaviour in one model and leave cores, figures, the sweep's table and an exported vector in ``folder``.

    Args:
        lm: the model. data: the behaviour, encoded for it.
        folder: an open run folder.
        seed: of random subspaces, splits and bootstraps.
        progress: show bars.
    """
    found, cores = measure_model(lm, data, seed=seed, progress=progress)
    _save_cores(folder.cores, cores)
    if found.detail is not None:
        detail = found.detail
        core = cores[detail.layer, detail.projection, detail.rank]
        export_steering(core, folder.path / "steering", layer=detail.layer, model_name=lm.name)
    write_json(folder.path / "findings.json", {"findings": to_json_record(found)})
    for figure in make_figures([found]):
        figure.save(folder.figures)
    write_claims(folder.claims_path, [], experiment="core", preset="", answer=answer_of(found))
    return found


def answer_of(found: ModelFindings) -> str:
    """What was found, in a few sentences: the layer, the three edits, the controls, and what is only algebra."""
    sweep, detail = found.sweep, found.detail
    notes = "".join(f" Note: {note}." for note in found.notes)
    if detail is None:
        return (
            f"No layer of {found.name} has a core that carries {sweep.behaviour}: nowhere do its directions hold enough of the "
            f"squared singular values to the end. The figures show what each edit does all the same.{notes}"
        )

    def scores(name: str) -> dict[str, float]:
        effects = sweep.at(detail.layer).effects
        projection = detail.projection if name == "core" else ""
        return {
            one.edit: one.score.value
            for one in effects
            if (one.name, one.projection, one.rank) == (name, projection, detail.rank)
        }

    def whole(edit: str) -> str:
        found = sweep.effect(detail.layer, edit, projection=detail.projection, rank=detail.rank).whole_answers
        return "-" if found is None else f"{found.value:.3f}"

    core, random = scores("core"), scores("random")
    full = next(one for one in sweep.at(detail.layer).effects if one.name == "model")
    quantity = "accuracy" if full.auc is None else "AUC"
    directions = "one direction" if detail.rank == 1 else f"{detail.rank} directions"
    carries = "carries" if detail.rank == 1 else "carry"
    controls = ", ".join(f"{random[edit]:.3f}" for edit in ("keep", "remove", "flip") if edit in random)
    several = (
        f" Whole answers, by summed log-probability, right in {full.whole_answers.value:.3f} unedited, {whole('keep')} kept "
        f"alone, {whole('remove')} removed, {whole('flip')} flipped."
        if full.whole_answers is not None
        else ""
    )
    return (
        f"In {found.name}, {directions} after layer {detail.layer} {carries} {sweep.behaviour}: "
        f"{quantity} {full.score.value:.3f} unedited, {core['keep']:.3f} kept alone, {core['remove']:.3f} removed, "
        f"{core['flip']:.3f} flipped; random directions {controls}.{several} At a late layer the margin of any two tokens is "
        f"kept, removed and flipped by its own core: read transfer and specificity before you believe it.{notes}"
    )
