"""The figures of ``markov-cores``: findings put into the forms of :mod:`invariscope.figures`; only percentages are computed."""

from __future__ import annotations

from collections.abc import Sequence

from invariscope.estimate import Estimate, Similarity
from invariscope.experiments.markov_cores.claims import MARKS
from invariscope.experiments.markov_cores.config import Config
from invariscope.experiments.markov_cores.figures_follow import draw_followed
from invariscope.experiments.markov_cores.figures_transplant import draw_hidden_transplants, draw_transplants
from invariscope.experiments.markov_cores.findings import (
    BeliefFindings,
    Findings,
    ModelFindings,
    PairFindings,
    SizeFindings,
    SpectrumFindings,
)
from invariscope.figures import (
    Ablation,
    AblationBars,
    Box,
    Condition,
    ConditionDots,
    Eigenvalues,
    Figure,
    RankCurves,
    RankSeries,
    SimilarityBar,
    SimilarityBars,
    Simplex,
    SimplexPoints,
    Spectrum,
    TrainingCurve,
    TrainingCurves,
    draw_ablation_bars,
    draw_condition_dots,
    draw_eigenvalues,
    draw_rank_curve,
    draw_similarity_bars,
    draw_simplex,
    draw_training_curves,
)

__all__ = ["make_figures"]

ARM_TITLES = {
    "real": "four states",
    "complex_pair": "four states, complex",
    "twelve": "twelve states",
    "clustered": "twelve states, clustered",
    "overlapping": "twelve states, log of full rank",
    "rank_two": "rank-2 control",
}
BARS = {
    "model": "core",
    "core": "core",
    "random": "random",
    "pca": "PCA",
    "gradient": "gradients",
    "das": "DAS",
    "probe": "linear probe",
}
MAX_PAIRS = 3
WHERE = "after attention"


def make_figures(config: Config, findings: Findings) -> list[Figure]:
    """Every figure, in the order of the report."""
    main = (_rank_curves, _ablations, _eigenvalues, _similarities, draw_transplants, _training)
    return [
        *([_paper_spectrum(config, findings)] if findings.paper else []),
        *([draw(config, findings) for draw in main] if findings.models else []),
        *draw_followed(config, findings),
        *([_beliefs(findings), _belief_transplants(findings)] if findings.beliefs else []),
        *([draw_hidden_transplants(config, findings)] if findings.hidden_transplants else []),
        *([_sizes(findings)] if findings.sizes else []),
    ]


def _title(config: Config, arm: str) -> str:
    return f"{ARM_TITLES[arm]} ({config.arms()[arm].chain})"


def _percent(shares: Sequence[float]) -> tuple[float, ...]:
    return tuple(100 * share for share in shares)


def _rank_curves(config: Config, findings: Findings) -> Figure:
    series = [
        RankSeries(
            panel=_title(config, model.arm),
            name=f"seed {model.seed}",
            keep_loss=_percent(model.resid_mid.curve.keep_loss()),
            removed=_percent(model.resid_mid.curve.removed()),
            singular_values=model.resid_mid.singular_values,
            rank=model.resid_mid.sufficient,
        )
        for model in findings.models
    ]
    return draw_rank_curve(RankCurves(series=tuple(series), where=f"{WHERE}, oblique core"))


def _ablations(config: Config, findings: Findings) -> Figure:
    """The first seed of every arm: its table carries the numbers."""
    first = [findings.of(arm)[0] for arm in config.arms()]
    bars = [
        Ablation(
            panel=_title(config, model.arm),
            edit=row.edit,
            name=BARS[row.name],
            value=row.estimate.value,
            low=row.estimate.low,
            high=row.estimate.high,
            role="core" if row.name in ("model", "core") else "control",
        )
        for model in first
        for row in model.resid_mid.effects
        if row.edit != "mean"
    ]
    chances = {_title(config, model.arm): model.resid_mid.curve.chance for model in first}
    optima = {_title(config, model.arm): model.resid_mid.curve.full - model.divergence.value for model in first}
    return draw_ablation_bars(
        AblationBars(
            bars=tuple(bars),
            chance=chances,
            optimum=optima,
            intervals="error bars: 95\u00a0% bootstrap intervals over sequences, for random the range over "
            f"{config.num_random} draws",
            where=f"{WHERE}, first seed of each chain",
            note="A control that does what the core does has found the same directions." + _costs(first[0]),
        )
    )


def _costs(model: ModelFindings) -> str:
    """What the fitted subspaces took beside the core, in words; nothing where there are none."""
    if not model.fitted:
        return ""
    parts = ", ".join(f"{BARS[one.name]} {one.forward} and {one.backward}" for one in model.fitted)
    return (
        " DAS is optimised to keep the output, the linear probe to read the next token. What each took, in forward and backward "
        f"passes of one sequence: {parts}."
    )


def _paper_spectrum(config: Config, findings: Findings) -> Figure:
    title = "the paper's chain"
    spectra = [
        Spectrum(
            panel=title,
            name=f"seed {one.seed}",
            values=_values(one.eigenvalues),
            intervals=tuple(Box(real_low=a, real_high=b, imag_low=c, imag_high=d) for a, b, c, d in one.intervals),
        )
        for one in findings.paper
    ]
    spectra.append(
        Spectrum(panel=title, name="untrained", values=_values(findings.paper[0].untrained_eigenvalues), role="control")
    )
    truth = {title: tuple(complex(value) for value in config.paper_task().eigenvalues.tolist())}
    return draw_eigenvalues(
        Eigenvalues(spectra=tuple(spectra), truth=truth, where="at the layer's output"), name="paper_spectrum"
    )


def _values(pairs: Sequence[tuple[float, float]]) -> tuple[complex, ...]:
    return tuple(complex(real, imaginary) for real, imaginary in pairs)


def _eigenvalues(config: Config, findings: Findings) -> Figure:
    spectra: list[Spectrum] = []
    truth: dict[str, tuple[complex, ...]] = {}
    for arm in config.arms():
        title = _title(config, arm)
        models = [(model, model.spectrum) for model in findings.of(arm) if model.spectrum is not None]
        if not models:
            continue
        spectra += [_fitted(title, model, spectrum) for model, spectrum in models]
        _, spectrum = models[0]
        spectra += [
            Spectrum(panel=title, name=control.name, values=_values(control.eigenvalues), role="control")
            for control in spectrum.controls
        ]
        truth[title] = _values(spectrum.expected)
    return draw_eigenvalues(
        Eigenvalues(
            spectra=tuple(spectra),
            truth=truth,
            where=WHERE,
            note="Four states: least squares on the core's coordinates; twelve: on the law read from the core. "
            "Controls: first seed.",
        )
    )


def _fitted(title: str, model: ModelFindings, spectrum: SpectrumFindings) -> Spectrum:
    boxes = tuple(
        Box(real_low=real_low, real_high=real_high, imag_low=imag_low, imag_high=imag_high)
        for real_low, real_high, imag_low, imag_high in spectrum.intervals
    )
    return Spectrum(panel=title, name=f"seed {model.seed}", values=_values(spectrum.eigenvalues), intervals=boxes)


def _similarities(config: Config, findings: Findings) -> Figure:
    bars: list[SimilarityBar] = []
    for pair in [pair for arm in config.arms() for pair in _worst_pairs(findings, arm)]:
        title = _title(config, pair.arm)
        bars.append(_bar(title, f"seeds {pair.seeds[0]} and {pair.seeds[1]}", pair.cca, trained=True))
    for arm in config.arms():
        pair = next(pair for pair in findings.pairs if pair.arm == arm)
        title = _title(config, arm)
        bars += [
            _bar(title, name, found, trained=False)
            for name, found in (
                ("untrained pair", pair.untrained),
                ("trained with untrained", pair.mixed),
                ("random subspaces", pair.random),
            )
        ]
        inside = [(pair, pair.within, pair.within_untrained) for pair in findings.pairs if pair.arm == arm]
        for pair, within, within_untrained in sorted(inside, key=_least_within)[:1]:
            if within is not None and within_untrained is not None:
                panel = f"{ARM_TITLES[arm]}, within groups"
                bars.append(_bar(panel, f"seeds {pair.seeds[0]} and {pair.seeds[1]}", within, trained=True))
                bars.append(_bar(panel, "untrained pair", within_untrained, trained=False))
    return draw_similarity_bars(
        SimilarityBars(
            bars=tuple(bars),
            where=f"{WHERE}, adjoint cores of rank 3",
            note="With four states any two codes in three dimensions agree: there it is no evidence. "
            f"At most {MAX_PAIRS} pairs an arm, those that serve the claim worst; controls: first pair of seeds.",
        )
    )


def _worst_pairs(findings: Findings, arm: str) -> list[PairFindings]:
    pairs = [pair for pair in findings.pairs if pair.arm == arm]
    # In the control chain it is agreement in the third direction that speaks against the claim.
    worst = sorted(pairs, key=lambda pair: min(pair.cca.heldout_components), reverse=arm == "rank_two")[:MAX_PAIRS]
    return [pair for pair in pairs if pair in worst]


def _least_within(found: tuple[PairFindings, Similarity | None, Similarity | None]) -> float:
    return 1.0 if found[1] is None else min(found[1].heldout_components)


def _bar(panel: str, name: str, found: Similarity, *, trained: bool) -> SimilarityBar:
    return SimilarityBar(
        panel=panel,
        name=name,
        heldout=found.heldout_components,
        fitted=found.components,
        null=found.null_components,
        role="core" if trained else "control",
    )


def _sizes(findings: Findings) -> Figure:
    dots = [
        Condition(panel=panel, name=size.title, value=float(value), role="core" if causal else "control")
        for panel, causal in (("causal 2 % rule", True), ("energy .999", False))
        for size in findings.sizes
        if (value := _larger(size) if causal else size.energy_999) is not None
    ]
    return draw_condition_dots(
        ConditionDots(
            dots=tuple(dots),
            references={"the chain's dimensions": 3.0},
            title="Rank of the core against the size of the model",
            caption="Core after the last attention on the 12-state chain, one model a row: the larger of the sufficient and the "
            "necessary rank, and the rule that looks at singular values. No dot: no rank of those scanned will do.",
            quantity="rank",
            unit="directions",
        ),
        name="sizes",
    )


def _beliefs(findings: Findings) -> Figure:
    panels: list[SimplexPoints] = []
    for one in _first_of_each_chain(findings):
        exact = tuple((a, b, 1 - a - b) for a, b, _, _ in one.points)
        carried = tuple((a, b, 1 - a - b) for _, _, a, b in one.points)
        states = tuple(law.index(max(law)) for law in exact)
        panels.append(SimplexPoints(panel=f"{one.chain}: exact belief", laws=exact, states=states))
        panels.append(SimplexPoints(panel=f"{one.chain}: read from the core", laws=carried, states=states))
    return draw_simplex(
        Simplex(
            panels=tuple(panels),
            title="The belief simplex and the plane of the core (after the last attention)",
            caption="Left: the exact Bayes belief over three hidden states at held-out tokens. Right: the same tokens, read from "
            "two core coordinates by an affine map that was fitted on other sequences. First seed of each chain.",
        ),
        name="beliefs",
    )


def _first_of_each_chain(findings: Findings) -> list[BeliefFindings]:
    return list({one.chain: one for one in reversed(findings.beliefs)}.values())[::-1]


def _belief_transplants(findings: Findings) -> Figure:
    dots: list[Condition] = []
    for one in _first_of_each_chain(findings):
        rows: dict[str, tuple[Estimate, bool]] = {
            "the exact law (optimum)": (one.written.optimum, True),
            "own core coordinates": (one.written.own, True),
            "the exact belief, written": (one.written.belief, True),
            "the last token, written": (one.written.last_token, False),
            "the belief in a random subspace": (one.written.random, False),
            "the belief in an untrained model": (one.written.untrained, False),
        }
        dots += [
            Condition(
                panel=one.chain,
                name=name,
                value=value.value,
                low=value.low,
                high=value.high,
                role="core" if treated else "control",
            )
            for name, (value, treated) in rows.items()
        ]
    return draw_condition_dots(
        ConditionDots(
            dots=tuple(dots),
            title="The exact belief, written into the core (after the last attention)",
            caption="Exact cross-entropy when the core is all that is left at the site and its two coordinates are the model's "
            "own, or an affine function of the exact belief, or of the last token; open: controls. First seed of each chain; "
            "95\u00a0% bootstrap intervals over sequences.",
        ),
        name="belief_transplant",
    )


def _larger(size: SizeFindings) -> int | None:
    return None if size.sufficient is None or size.necessary is None else max(size.sufficient, size.necessary)


def _training(config: Config, findings: Findings) -> Figure:
    curves = tuple(
        TrainingCurve(panel=_title(config, model.arm), name=f"seed {model.seed}", steps=model.steps, excess=model.curve)
        for model in findings.models
    )
    return draw_training_curves(TrainingCurves(curves=curves, mark=MARKS["near-optimal"].target))
