"""Train and measure one model: ranks, effects beside controls, and the operator in its core."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from invariscope.cores import (
    Core,
    Moments,
    by_energy,
    by_gap,
    cross_entropy,
    divergence,
    identify_operator,
    rank_curve,
    validate_core,
)
from invariscope.cores.controls import CONTROLS
from invariscope.cores.identify import leading_spectrum
from invariscope.cores.measure import measure_edits
from invariscope.cores.metrics import estimate_metric
from invariscope.cores.validate import EDITS, Effects
from invariscope.estimate import Estimate
from invariscope.experiments.markov_cores.config import Config
from invariscope.experiments.markov_cores.findings import (
    ModelFindings,
    SiteFindings,
    SpectrumControl,
    SpectrumFindings,
    UntrainedFindings,
)
from invariscope.experiments.markov_cores.fitted import fit_controls
from invariscope.experiments.markov_cores.subjects import FINAL_NORM, Subject, core_path
from invariscope.numerics.operators import eigenvalue_error
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.training import load_run, seed_folder, train

__all__ = ["analyse_model", "model_job"]

Coordinates = Literal["core", "law"]
TOLERANCE = 0.02
NUM_SINGULAR_VALUES = 12
NUM_RANDOM_SPECTRA = 3
NUM_SHUFFLES = 5
PROJECTIONS = ("activation", "adjoint", "oblique")


def model_job(*, config: dict[str, Any], folder: str, arm: str, seed: int) -> Any:
    """Train one model and :func:`analyse_model`, as a job of JSON values (:mod:`invariscope.parallel`)."""
    study = from_json_record(Config, config)
    runs = Path(folder) / "runs" / arm
    settings = study.training(arm, seed)
    train(study.task(arm), study.model(arm), settings, seeds=[seed], folder=runs, engine="inline", progress=False)
    model, twin = (Subject(config=study, folder=Path(folder), arm=arm, seed=seed, trained=trained) for trained in (True, False))
    return to_json_record(analyse_model(model, twin))


def analyse_model(subject: Subject, twin: Subject) -> ModelFindings:
    """Everything that is measured of one model and of its untrained twin; their cores are saved in the run's folder."""
    found = _divergence(subject)
    assert found.chance is not None
    controls, fitted = fit_controls(subject)
    metrics = load_run(seed_folder(subject.folder / "runs" / subject.arm, subject.seed)).metrics
    return ModelFindings(
        arm=subject.arm,
        seed=subject.seed,
        divergence=found,
        chance=found.chance,
        resid_mid=_site(subject, subject.resid_mid, CONTROLS, controls),
        final_norm=_site(subject, FINAL_NORM, (), {}),
        spectrum=None if subject.arm == "rank_two" else _spectrum(subject, twin),
        steps=tuple(event["step"] for event in metrics),
        curve=tuple(event["heldout_divergence"] for event in metrics),
        untrained=_untrained(twin),
        fitted=fitted,
    )


def _divergence(subject: Subject) -> Estimate:
    metric = divergence()
    values, rows = measure_edits(
        subject.model, subject.heldout(), {"full": None}, [metric], site=FINAL_NORM, positions="all", outputs_at="all"
    )
    return estimate_metric(metric, values["full", metric.name], rows, subject.generator("divergence"))


def _untrained(twin: Subject) -> UntrainedFindings:
    mid, final = twin.moments[twin.resid_mid], twin.moments[FINAL_NORM]
    _save(twin, mid)
    effects = _effects(twin, final.core(twin.rank, "oblique"), {}, edits=("keep",))
    return UntrainedFindings(
        divergence=_divergence(twin),
        energy_99=mid.core(by_energy(0.99), "adjoint").rank,
        energy_999=mid.core(by_energy(0.999), "adjoint").rank,
        final_norm_change=effects.change("keep", "cross_entropy", generator=twin.generator("keep")),
    )


def _save(subject: Subject, moments: Moments) -> dict[str, Core]:
    """The cores of the chain's rank by projection, saved."""
    cores = {projection: moments.core(subject.rank, projection) for projection in PROJECTIONS}
    for projection, core in cores.items():
        core.save(core_path(subject.folder, subject.arm, subject.seed, subject.trained, core.provenance.site, projection))
    return cores


def _effects(subject: Subject, core: Core, controls: dict[str, list[Core]], *, edits: Sequence[str] = EDITS) -> Effects:
    return validate_core(
        core,
        subject.model,
        subject.heldout(),
        metrics=(cross_entropy(exact=True),),
        controls=controls,
        edits=edits,
        generator=subject.generator(f"bootstrap {core.provenance.site} {core.provenance.projection}"),
    )


def _site(subject: Subject, site: str, control_names: Sequence[str], fitted: dict[str, list[Core]]) -> SiteFindings:
    moments = subject.moments[site]
    cores = _save(subject, moments)
    curve = rank_curve(moments, subject.model, subject.heldout(), metric=cross_entropy(exact=True), positions="all")
    controls = moments.controls(
        subject.rank, control_names, num_random=subject.config.num_random, generator=subject.generator(f"controls {site}")
    )
    effects = {
        projection: _effects(subject, core, {}, edits=("keep",)) for projection, core in cores.items() if projection != "oblique"
    }
    effects["oblique"] = _effects(subject, cores["oblique"], controls | fitted)
    generator = subject.generator(f"changes {site}")
    sigma = moments.singular_values
    return SiteFindings(
        site=site,
        rank=subject.rank,
        singular_values=tuple((sigma / sigma[0])[:NUM_SINGULAR_VALUES].tolist()),
        energy_99=moments.core(by_energy(0.99), "adjoint").rank,
        energy_999=moments.core(by_energy(0.999), "adjoint").rank,
        gap=moments.core(by_gap(), "adjoint").rank,
        curve=curve,
        sufficient=curve.sufficient(TOLERANCE),
        necessary=curve.necessary(TOLERANCE),
        keep_change={
            projection: found.change("keep", "cross_entropy", generator=generator) for projection, found in effects.items()
        },
        removed=_removed(effects["oblique"], generator),
        effects=effects["oblique"].rows,
    )


def _removed(effects: Effects, generator: torch.Generator) -> Estimate:
    """How far removal goes from the unedited model to the stationary law, whose cross-entropy is chance on the same rows."""
    change = effects.change("remove", "cross_entropy", generator=generator)
    full = effects["model", "full", "cross_entropy"]
    assert full.chance is not None, "cross-entropy has a chance level"
    way = full.chance - full.value
    ends = [end / way for end in (change.low, change.high) if end is not None]
    return Estimate(
        value=change.value / way,
        low=min(ends),
        high=max(ends),
        num=change.num,
        unit="share of the way",
        method=change.method,
    )


def _spectrum(subject: Subject, twin: Subject) -> SpectrumFindings:
    # With more states than k + 1 the span of log T is not invariant under T: judge on the law read from the core.
    coordinates: Coordinates = "core" if subject.task.num_states == subject.rank + 1 else "law"
    transitions = subject.transitions(subject.config.operator_sequences)
    adjoint = subject.core("adjoint")
    found = {
        kind: identify_operator(
            adjoint,
            subject.model,
            subject.task,
            transitions,
            coordinates=kind,
            generator=subject.generator(f"operator {kind}"),
            num_shuffles=NUM_SHUFFLES,
        ).best
        for kind in dict.fromkeys(("core", coordinates))
    }
    best, on_core = found[coordinates], found["core"]
    assert best.error is not None, "the chain states its spectrum"
    assert on_core.error is not None, "the chain states its spectrum"
    expected = _leading(subject.task.eigenvalues, subject.rank)
    counted = _leading(subject.task.counted_eigenvalues(transitions), subject.rank)
    moments = subject.moments[subject.resid_mid]
    drawn = moments.controls(
        subject.rank, ("random", "pca"), num_random=NUM_RANDOM_SPECTRA, generator=subject.generator("spectrum controls")
    )
    return SpectrumFindings(
        coordinates=coordinates,
        expected=_pairs(expected),
        eigenvalues=_pairs(best.operator.eigenvalues),
        intervals=best.operator.interval,
        error=best.error,
        core_error=on_core.error,
        counts_error=eigenvalue_error(counted, expected),
        r2_heldout=best.operator.r2_heldout,
        null_r2=best.null_r2,
        controls=(
            _spectrum_control("untrained", twin, [twin.core("adjoint")], coordinates),
            *(_spectrum_control(name, subject, cores, coordinates) for name, cores in drawn.items()),
        ),
    )


def _leading(eigenvalues: torch.Tensor, rank: int) -> torch.Tensor:
    leading = leading_spectrum(eigenvalues, rank)
    assert leading is not None, "the rank is the number of eigenvalues that are not 0"
    return leading


def _spectrum_control(name: str, subject: Subject, cores: Sequence[Core], coordinates: Coordinates) -> SpectrumControl:
    expected = _leading(subject.task.eigenvalues, subject.rank)
    transitions = subject.transitions(subject.config.control_sequences)
    fitted = [
        identify_operator(
            core, subject.model, subject.task, transitions, coordinates=coordinates, num_bootstrap=0, num_shuffles=0
        ).best.operator.eigenvalues
        for core in cores
    ]
    return SpectrumControl(
        name=name, errors=tuple(eigenvalue_error(values, expected) for values in fitted), eigenvalues=_pairs(fitted[0])
    )


def _pairs(eigenvalues: torch.Tensor) -> tuple[tuple[float, float], ...]:
    return tuple((float(value.real), float(value.imag)) for value in eigenvalues)
