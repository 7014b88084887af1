"""What each claim is judged by: the number of the seed that serves it worst, its interval, and the controls beside it.

Which marks the numbers have to meet stands in ``claims.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from invariscope.estimate import Estimate, Similarity
from invariscope.experiments.markov_cores.config import FOUR_STATES, TWELVE_STATES
from invariscope.experiments.markov_cores.findings import (
    Findings,
    ModelFindings,
    PairFindings,
    SiteFindings,
    SpectrumFindings,
    TransplantFindings,
)
from invariscope.experiments.worst import Measured, end, farthest, largest, over, size
from invariscope.storage.claims import Control, Mark

__all__ = [
    "keep_by_construction",
    "measure_cca",
    "measure_cca_within",
    "measure_divergence",
    "measure_keep",
    "measure_overlap",
    "measure_rank",
    "measure_rank_two",
    "measure_remove",
    "measure_spectrum",
    "measure_spectrum_ratio",
    "measure_transplant",
    "measure_weight_cosine",
]

SUBSPACES = {"random": "random", "pca": "PCA", "gradient": "gradients", "das": "DAS (fitted to keep)", "probe": "linear probe"}
"""Subspaces of equal rank, by the name of their effects; the last two are fitted for the first seed of an arm only."""


def _seeds(models: Sequence[ModelFindings]) -> list[int]:
    return sorted({model.seed for model in models})


def _pair_seeds(pairs: Sequence[PairFindings]) -> list[int]:
    return sorted({seed for pair in pairs for seed in pair.seeds})


def _pairs(findings: Findings, arm: str) -> list[PairFindings]:
    return [pair for pair in findings.pairs if pair.arm == arm]


def _none(models: Sequence[ModelFindings]) -> int:
    return len(models[0].resid_mid.curve.ranks) + 1


def _causal(models: Sequence[ModelFindings]) -> list[int]:
    sites = [model.resid_mid for model in models]
    return [_none(models) if rank is None else rank for site in sites for rank in (site.sufficient, site.necessary)]


def _ranks(models: Sequence[ModelFindings], target: float, controls: Sequence[Control]) -> Measured:
    """Sufficient and necessary ranks of every model; one more than was scanned where no rank will do."""
    found = _causal(models)
    return Measured(
        value=farthest(target)(found),
        low=min(found),
        high=max(found),
        num=len(models),
        seeds=_seeds(models),
        controls=controls,
        note="sufficient and necessary rank of every seed by the causal 2 % rule, the one farthest from the mark; "
        f"{_none(models)} stands for none",
    )


def measure_rank(findings: Findings, arms: Sequence[str], target: float) -> Measured:
    """The causal rank after attention in some arms, beside the energy rules, trained and untrained."""
    models = findings.of(*arms)
    controls = [
        over("energy .99", [model.resid_mid.energy_99 for model in models], max),
        over("energy .999", [model.resid_mid.energy_999 for model in models], max),
        over("untrained, energy .99", [model.untrained.energy_99 for model in models], min),
        over("untrained, energy .999", [model.untrained.energy_999 for model in models], min),
    ]
    overlapping = findings.of("overlapping")
    if overlapping and arms == TWELVE_STATES:
        controls.append(over("overlapping_12, causal", _causal(overlapping), farthest(target)))
        controls.append(over("overlapping_12, energy .999", [model.resid_mid.energy_999 for model in overlapping], max))
    return _ranks(models, target, controls)


def measure_rank_two(findings: Findings, *, gap_rule: Mark, third_cca: Mark) -> Measured:
    """The causal rank of the rank-2 chain, beside the gap rule and the third correlation between seeds."""
    models, pairs = findings.of("rank_two"), _pairs(findings, "rank_two")
    controls = [
        over("largest-gap rule", [model.resid_mid.gap for model in models], farthest(gap_rule.target), gap_rule),
        over("third hold-out CCA between seeds", [pair.cca.heldout_components[2] for pair in pairs], max, third_cca),
        over("the same, untrained pair", [pair.untrained.heldout_components[2] for pair in pairs], max),
    ]
    return _ranks(models, gap_rule.target, controls)


def _effect(site: SiteFindings, name: str, edit: str) -> Estimate:
    return next(row.estimate for row in site.effects if (row.name, row.edit) == (name, edit))


def _change(site: SiteFindings, name: str, edit: str) -> float:
    return _effect(site, name, edit).value - _effect(site, "model", "full").value


def measure_keep(findings: Findings, *, activation_mark: Mark) -> Measured:
    """Largest change of cross-entropy under keep after attention, over seeds and over the adjoint and oblique cores."""
    models = findings.of(*FOUR_STATES, *TWELVE_STATES)
    sites = [model.resid_mid for model in models]
    value, low, high = max(size(site.keep_change[side]) for site in sites for side in ("adjoint", "oblique"))
    activation = [size(site.keep_change["activation"])[0] for site in sites]
    controls = [over("activation side", activation, max, activation_mark)]
    controls += _equal_rank(sites, lambda site, name: _change(site, name, "keep"), min)
    return Measured(
        value=value,
        low=low,
        high=high,
        num=len(models),
        seeds=_seeds(models),
        controls=controls,
        note="largest change over seeds and over the adjoint and oblique cores; a control that does as well has found the same "
        "directions",
    )


def measure_remove(findings: Findings) -> Measured:
    """Smallest share of the way to the stationary law that removing the core after attention goes."""
    models = findings.of(*FOUR_STATES, *TWELVE_STATES)
    sites = [model.resid_mid for model in models]
    least = min((site.removed for site in sites), key=lambda estimate: estimate.value)

    def share(site: SiteFindings, name: str) -> float:
        full = _effect(site, "model", "full")
        assert full.chance is not None, "cross-entropy has a chance level"
        return _change(site, name, "remove") / (full.chance - full.value)

    return Measured(
        value=least.value,
        low=least.low,
        high=least.high,
        num=len(models),
        seeds=_seeds(models),
        controls=_equal_rank(sites, share, max),
    )


def _equal_rank(
    sites: Sequence[SiteFindings], measure: Callable[[SiteFindings, str], float], pick: Callable[[Sequence[float]], float]
) -> list[Control]:
    """One control a subspace, over the sites where it was measured."""
    measured = {name: [site for site in sites if any(row.name == name for row in site.effects)] for name in SUBSPACES}
    return [
        over(f"{title}, equal rank", [measure(site, name) for site in measured[name]], pick)
        for name, title in SUBSPACES.items()
        if measured[name]
    ]


def keep_by_construction(findings: Findings) -> Measured:
    """Largest change of cross-entropy under keep before the unembedding, which the untrained twin shares."""
    models = findings.of(*FOUR_STATES)
    value, low, high = max(size(model.final_norm.keep_change["oblique"]) for model in models)
    return Measured(
        value=value,
        low=low,
        high=high,
        num=len(models),
        seeds=_seeds(models),
        controls=[over("untrained", [size(model.untrained.final_norm_change)[0] for model in models], max)],
        note="the untrained model does as well: algebra, no evidence",
    )


def _smallest(similarity: Similarity) -> float:
    return min(similarity.heldout_components)


def _cca(pairs: Sequence[PairFindings], found: Sequence[Similarity], controls: Sequence[Control]) -> Measured:
    worst = min(found, key=_smallest)
    low, high = worst.heldout_intervals[worst.heldout_components.index(_smallest(worst))]
    return Measured(
        value=_smallest(worst),
        low=low,
        high=high,
        num=len(found),
        seeds=_pair_seeds(pairs),
        controls=controls,
        note=f"smallest of the {worst.rank} hold-out correlations of the worst pair; "
        f"n {worst.num_fit} fitted + {worst.num_heldout} held out, d {worst.dims[0]} and {worst.dims[1]}, "
        f"shuffled pairs {worst.null_mean:.3f} (97.5 %: {worst.null_high:.3f})",
    )


def measure_cca(findings: Findings, *, smallest_mark: Mark, mean_mark: Mark) -> Measured:
    """Smallest hold-out correlation between two seeds of the 12-state chain."""
    pairs = _pairs(findings, "twelve")
    controls = [
        over("untrained pair, smallest", [_smallest(pair.untrained) for pair in pairs], max, smallest_mark),
        over("untrained pair, mean", [pair.untrained.heldout or 0.0 for pair in pairs], max, mean_mark),
        over("trained with untrained, smallest", [_smallest(pair.mixed) for pair in pairs], max),
        over("random subspaces, smallest", [_smallest(pair.random) for pair in pairs], max),
    ]
    easier = _pairs(findings, "clustered")
    if easier:
        controls.append(over("clustered_12, smallest", [_smallest(pair.cca) for pair in easier], min))
    return _cca(pairs, [pair.cca for pair in pairs], controls)


def measure_cca_within(findings: Findings, *, untrained_mark: Mark) -> Measured:
    """The same after each group's mean is taken out."""
    pairs = _pairs(findings, "twelve")
    untrained = [_smallest(pair.within_untrained) for pair in pairs if pair.within_untrained is not None]
    controls = [over("untrained pair, smallest", untrained, max, untrained_mark)]
    return _cca(pairs, [pair.within for pair in pairs if pair.within is not None], controls)


def measure_transplant(found: Sequence[TransplantFindings], *, control_mark: Mark, pair_mark: Mark) -> Measured:
    """Largest cost of running one seed's model on the other's coordinates, in nats above the unedited model."""
    worst = largest([one.cost for one in found])

    def excess(name: str) -> list[float]:
        return [getattr(one, name).value - one.base.value for one in found]

    controls = [
        over("map fitted on shuffled pairs", excess("shuffled"), min, control_mark),
        over("from an untrained model", excess("untrained"), min, control_mark),
        over("from a random subspace", excess("random"), min, control_mark),
        over("random into random", excess("random_pair"), min, pair_mark),
        over("PCA into PCA", excess("pca"), min),
        over("one direction fewer", excess("smaller"), min),
        over("own coordinates (ceiling)", excess("ceiling"), max),
        over("before the unembedding, where it cannot fail", excess("final_norm"), max),
        over("PCA before the unembedding", excess("final_norm_pca"), max),
    ]
    return Measured(
        value=worst.value,
        low=worst.low,
        high=worst.high,
        num=len(found),
        seeds=sorted({seed for one in found for seed in one.seeds}),
        controls=controls,
        note="the paper compares cores and does not exchange them; before the unembedding principal components do as well, so "
        "that site discriminates nothing",
    )


def _spectra(findings: Findings) -> tuple[list[ModelFindings], list[SpectrumFindings]]:
    models = [model for model in findings.of(*FOUR_STATES, *TWELVE_STATES) if model.spectrum is not None]
    return models, [model.spectrum for model in models if model.spectrum is not None]


def measure_spectrum(findings: Findings) -> Measured:
    """Largest eigenvalue error of the operator in the core, beside the error of the counts."""
    models, spectra = _spectra(findings)
    worst = largest([spectrum.error for spectrum in spectra])
    on_z = [spectrum.core_error.value for spectrum in spectra if spectrum.coordinates == "law"]
    controls = [over("transition counts of the same data", [spectrum.counts_error for spectrum in spectra], max)]
    if on_z:
        controls.append(over("12 states, least squares on the coordinates", on_z, max))
    overlapping = [model.spectrum.error.value for model in findings.of("overlapping") if model.spectrum is not None]
    if overlapping:
        controls.append(over("overlapping_12, on the law", overlapping, max))
    return Measured(
        value=worst.value,
        low=worst.low,
        high=worst.high,
        num=len(models),
        seeds=_seeds(models),
        controls=controls,
        note="least squares on the coordinates for 4 states; for 12 on the law read from the core, whose span is invariant",
    )


def measure_spectrum_ratio(findings: Findings) -> Measured:
    """Largest ratio of that error to the smaller of the untrained and the random error."""
    models, spectra = _spectra(findings)
    ratios = []
    for spectrum in spectra:
        null = min(spectrum.control(name).error for name in ("untrained", "random"))
        error = spectrum.error
        ratios.append((error.value / null, end(error.low, error) / null, end(error.high, error) / null))
    value, low, high = max(ratios)
    names = ("untrained", "random", "pca")
    return Measured(
        value=value,
        low=low,
        high=high,
        num=len(models),
        seeds=_seeds(models),
        controls=[over(f"{name}, error", [spectrum.control(name).error for spectrum in spectra], min) for name in names],
    )


def measure_overlap(findings: Findings) -> Measured:
    """Mean overlap of two seeds' projectors, and its range over pairs, against random pairs of equal rank and dimension."""
    pairs = [pair for arm in FOUR_STATES for pair in _pairs(findings, arm)]
    values = [pair.overlap.value for pair in pairs]
    null = pairs[0].overlap
    low, high = null.null_low, null.null_high
    return Measured(
        value=sum(values) / len(values),
        low=min(values),
        high=max(values),
        num=len(values),
        seeds=_pair_seeds(pairs),
        controls=[Control(name="random pairs (k / D)", value=null.null_mean, low=low, high=high)],
        note="mean and range over pairs; the mark is the central 95 % of random pairs",
        mark=Mark(kind="within", target=(low + high) / 2, tolerance=(high - low) / 2),
    )


def measure_weight_cosine(findings: Findings) -> Measured:
    """Largest absolute cosine between the weight matrices of two seeds."""
    values = [abs(pair.weight_cosine) for pair in findings.pairs]
    return Measured(
        value=max(values),
        low=min(values),
        high=max(values),
        num=len(values),
        seeds=_pair_seeds(findings.pairs),
        controls=[over("untrained twins", [abs(pair.untrained_cosine) for pair in findings.pairs], max)],
        note="the interval is the range over pairs",
    )


def measure_divergence(findings: Findings) -> Measured:
    """Largest divergence from the true law."""
    models = findings.models
    worst = largest([model.divergence for model in models])
    controls = [
        over("untrained", [model.untrained.divergence.value for model in models], min),
        over("best constant answer", [model.chance for model in models], min),
    ]
    return Measured(value=worst.value, low=worst.low, high=worst.high, num=len(models), seeds=_seeds(models), controls=controls)
