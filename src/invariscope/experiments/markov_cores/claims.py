"""The claims of ``markov-cores`` and the marks they are judged by, written down before the runs.

Cross-entropies are exact expectations under the chain's law. Where several seeds stand behind a number, the seed that serves
the claim worst is the number, so that one bad seed is enough to fail it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from invariscope.estimate import Estimate, Similarity
from invariscope.experiments.markov_cores.config import Config
from invariscope.experiments.markov_cores.findings import Findings, ModelFindings, PairFindings, SiteFindings
from invariscope.storage.claims import Claim, Control, Mark

__all__ = ["MARKS", "make_claims"]

SOURCE = "arXiv:2602.22600"

MARKS = {
    "rank-resid-mid": Mark(kind="within", target=3, tolerance=0),
    "keep-resid-mid": Mark(kind="at_most", target=0.002),
    "remove-resid-mid": Mark(kind="at_least", target=0.98),
    "by-construction-final-norm": Mark(kind="at_most", target=0.001),
    "rank-12-state": Mark(kind="within", target=3, tolerance=0),
    "cca-12-state": Mark(kind="at_least", target=0.98),
    "cca-within-groups": Mark(kind="at_least", target=0.94),
    "transplant": Mark(kind="at_most", target=0.005),
    "rank-2-control": Mark(kind="within", target=2, tolerance=0),
    "spectrum": Mark(kind="at_most", target=0.03),
    "spectrum-against-controls": Mark(kind="at_most", target=1 / 3),
    "weight-cosine": Mark(kind="at_most", target=0.05),
    "near-optimal": Mark(kind="at_most", target=0.003),
}
"""By claim; that of ``overlap`` is the central 95 % of random pairs of equal rank and dimension."""

ACTIVATION_KEEP = Mark(kind="at_most", target=0.01)
UNTRAINED_SMALLEST = Mark(kind="at_most", target=0.5)
UNTRAINED_MEAN = Mark(kind="at_most", target=0.65)
UNTRAINED_WITHIN = Mark(kind="at_most", target=0.25)
TRANSPLANT_CONTROL = Mark(kind="at_least", target=0.2)
GAP_RULE = Mark(kind="within", target=2, tolerance=0)
THIRD_CCA = Mark(kind="at_most", target=0.2)


def make_claims(config: Config, findings: Findings, *, preset: str) -> list[Claim]:
    """Every claim, in the order of the report.

    Args:
        config: gives the seeds.
        findings: what was measured.
        preset: its name.
    """
    makers: tuple[Callable[[Config, Findings, str], Claim], ...] = (
        _rank_resid_mid,
        _keep,
        _remove,
        _rank_12_state,
        _cca_12_state,
        _cca_within_groups,
        _transplant,
        _rank_2_control,
        _spectrum,
        _spectrum_against_controls,
        _overlap,
        _weight_cosine,
        _near_optimal,
        _by_construction,
    )
    return [make(config, findings, preset) for make in makers]


def _claim(
    name: str,
    statement: str,
    preset: str,
    *,
    seeds: Iterable[int],
    unit: str,
    measured: float,
    low: float | None,
    high: float | None,
    num: int,
    figure: str,
    controls: Sequence[Control] = (),
    paper: float | None = None,
    mark: Mark | None = None,
    note: str = "",
    where: str = SOURCE,
    by_construction: bool = False,
) -> Claim:
    return Claim(
        id=f"markov-cores/{name}",
        statement=statement,
        source=where,
        unit=unit,
        paper=paper,
        mark=mark or MARKS[name],
        measured=measured,
        low=low,
        high=high,
        num=num,
        seeds=tuple(seeds),
        controls=tuple(controls),
        note=note,
        figure=figure,
        preset=preset,
        by_construction=by_construction,
    )


def _worst(estimates: Sequence[Estimate]) -> Estimate:
    """The largest."""
    return max(estimates, key=lambda estimate: estimate.value)


def _least(estimates: Sequence[Estimate]) -> Estimate:
    """The smallest."""
    return min(estimates, key=lambda estimate: estimate.value)


def _end(end: float | None, estimate: Estimate) -> float:
    """An end of the interval; the value itself where there is none."""
    return estimate.value if end is None else end


def _size(estimate: Estimate) -> tuple[float, float, float]:
    """|value| and the interval of it."""
    low, high = _end(estimate.low, estimate), _end(estimate.high, estimate)
    ends = sorted((abs(low), abs(high)))
    return abs(estimate.value), 0.0 if low < 0 < high else ends[0], ends[1]


def _over(name: str, values: Sequence[float], pick: Callable[[Sequence[float]], float], mark: Mark | None = None) -> Control:
    """A control over several seeds: the one that ``pick`` takes, with their range."""
    low, high = (min(values), max(values)) if len(values) > 1 else (None, None)
    return Control(name=name, value=pick(values), low=low, high=high, mark=mark)


def _causal_ranks(sites: Iterable[SiteFindings]) -> list[int]:
    """Sufficient and necessary ranks of every model; one more than was scanned where no rank will do."""
    return [len(site.curve.ranks) + 1 if rank is None else rank for site in sites for rank in (site.sufficient, site.necessary)]


def _rank_claim(name: str, statement: str, preset: str, models: Sequence[ModelFindings], controls: Sequence[Control]) -> Claim:
    ranks = _causal_ranks(model.resid_mid for model in models)
    target = MARKS[name].target
    return _claim(
        name,
        statement,
        preset,
        seeds=[model.seed for model in models],
        unit="directions",
        measured=max(ranks, key=lambda rank: abs(rank - target)),
        low=min(ranks),
        high=max(ranks),
        num=len(models),
        figure="rank_curve",
        controls=controls,
        paper=3.0 if name == "rank-resid-mid" else None,
        note="sufficient and necessary rank of every seed by the causal 2 % rule, the one farthest from the mark; "
        f"{len(models[0].resid_mid.curve.ranks) + 1} stands for none",
    )


def _energy_controls(findings: Findings, arm: str) -> list[Control]:
    models = findings.of(arm)
    return [
        _over("energy .99", [model.resid_mid.energy_99 for model in models], max),
        _over("energy .999", [model.resid_mid.energy_999 for model in models], max),
        _over("untrained, energy .99", [model.untrained.energy_99 for model in models], min),
        _over("untrained, energy .999", [model.untrained.energy_999 for model in models], min),
    ]


def _rank_resid_mid(config: Config, findings: Findings, preset: str) -> Claim:
    return _rank_claim(
        "rank-resid-mid",
        "After attention, where nothing bounds the rank, the core of a 4-state chain has 3 directions: sufficient and necessary",
        preset,
        findings.of("real"),
        _energy_controls(findings, "real"),
    )


def _rank_12_state(config: Config, findings: Findings, preset: str) -> Claim:
    return _rank_claim(
        "rank-12-state",
        "A 12-state chain whose log has rank 3 also gets a core of 3 directions, not of 11: sufficient and necessary",
        preset,
        findings.of("twelve"),
        _energy_controls(findings, "twelve"),
    )


def _rank_2_control(config: Config, findings: Findings, preset: str) -> Claim:
    models = findings.of("rank_two")
    pairs = [pair for pair in findings.pairs if pair.arm == "rank_two"]
    gaps = [model.resid_mid.gap for model in models]
    return _rank_claim(
        "rank-2-control",
        "Where two of the four states share a row, the core has 2 directions, and a third has nothing in common between seeds",
        preset,
        models,
        [
            _over("largest-gap rule", gaps, _farthest_from_two, GAP_RULE),
            _over("third hold-out CCA between seeds", [pair.cca.heldout_components[2] for pair in pairs], max, THIRD_CCA),
            _over("the same, untrained pair", [pair.untrained.heldout_components[2] for pair in pairs], max),
        ],
    )


def _farthest_from_two(ranks: Sequence[float]) -> float:
    return max(ranks, key=lambda rank: abs(rank - GAP_RULE.target))


def _effect(site: SiteFindings, name: str, edit: str) -> Estimate:
    return next(row.estimate for row in site.effects if (row.name, row.edit) == (name, edit))


def _change(site: SiteFindings, name: str, edit: str) -> float:
    return _effect(site, name, edit).value - _effect(site, "model", "full").value


def _keep(config: Config, findings: Findings, preset: str) -> Claim:
    sites = [model.resid_mid for model in findings.of("real", "twelve")]
    sizes = [_size(site.keep_change[projection]) for site in sites for projection in ("adjoint", "oblique")]
    measured, low, high = max(sizes)
    activation = [_size(site.keep_change["activation"])[0] for site in sites]
    return _claim(
        "keep-resid-mid",
        "Keeping the core alone after attention leaves the cross-entropy as it is",
        preset,
        seeds=config.all_seeds(),
        unit="nats",
        measured=measured,
        low=low,
        high=high,
        num=len(sites),
        figure="ablation_bars",
        controls=[
            _over("activation side", activation, max, ACTIVATION_KEEP),
            *(
                _over(f"{name}, equal rank", [_change(site, name, "keep") for site in sites], min)
                for name in ("random", "pca", "gradient")
            ),
        ],
        note="largest change over seeds and over the adjoint and oblique cores",
    )


def _remove(config: Config, findings: Findings, preset: str) -> Claim:
    sites = [model.resid_mid for model in findings.of("real", "twelve")]
    least = _least([site.removed for site in sites])

    def share(site: SiteFindings, name: str) -> float:
        full = _effect(site, "model", "full")
        assert full.chance is not None
        return _change(site, name, "remove") / (full.chance - full.value)

    return _claim(
        "remove-resid-mid",
        "Removing the core after attention leads all the way to the stationary law",
        preset,
        seeds=config.all_seeds(),
        unit="share of the way",
        measured=least.value,
        low=least.low,
        high=least.high,
        num=len(sites),
        figure="ablation_bars",
        controls=[
            _over(f"{name}, equal rank", [share(site, name) for site in sites], max) for name in ("random", "pca", "gradient")
        ],
    )


def _by_construction(config: Config, findings: Findings, preset: str) -> Claim:
    models = findings.of("real")
    measured, low, high = max(_size(model.final_norm.keep_change["oblique"]) for model in models)
    return _claim(
        "by-construction-final-norm",
        "True by construction: before a linear readout of 4 outputs 3 directions keep the logits of any model",
        preset,
        seeds=[model.seed for model in models],
        unit="nats",
        measured=measured,
        low=low,
        high=high,
        num=len(models),
        figure="ablation_bars",
        controls=[_over("untrained", [_size(model.untrained.final_norm_change)[0] for model in models], max)],
        note="the untrained model does as well: algebra, no evidence",
        by_construction=True,
    )


def _smallest(similarity: Similarity) -> float:
    return min(similarity.heldout_components)


def _cca_claim(
    name: str,
    statement: str,
    preset: str,
    pairs: Sequence[PairFindings],
    found: Sequence[Similarity],
    controls: Sequence[Control],
) -> Claim:
    worst = min(found, key=_smallest)
    low, high = worst.heldout_intervals[worst.heldout_components.index(_smallest(worst))]
    return _claim(
        name,
        statement,
        preset,
        seeds=sorted({seed for pair in pairs for seed in pair.seeds}),
        unit="correlation",
        measured=_smallest(worst),
        low=low,
        high=high,
        num=len(found),
        figure="similarity_bars",
        controls=controls,
        note=f"smallest of the {worst.rank} hold-out correlations of the worst pair; "
        f"n {worst.num_fit} fitted + {worst.num_heldout} held out, d {worst.dims[0]} and {worst.dims[1]}, "
        f"shuffled pairs {worst.null_mean:.3f} (97.5 %: {worst.null_high:.3f})",
    )


def _twelve(findings: Findings) -> list[PairFindings]:
    return [pair for pair in findings.pairs if pair.arm == "twelve"]


def _cca_12_state(config: Config, findings: Findings, preset: str) -> Claim:
    pairs = _twelve(findings)
    return _cca_claim(
        "cca-12-state",
        "Two seeds of the 12-state chain carry the same three coordinates, up to a linear map",
        preset,
        pairs,
        [pair.cca for pair in pairs],
        [
            _over("untrained pair, smallest", [_smallest(pair.untrained) for pair in pairs], max, UNTRAINED_SMALLEST),
            _over("untrained pair, mean", [pair.untrained.heldout or 0.0 for pair in pairs], max, UNTRAINED_MEAN),
            _over("trained with untrained, smallest", [_smallest(pair.mixed) for pair in pairs], max),
            _over("random subspaces, smallest", [_smallest(pair.random) for pair in pairs], max),
        ],
    )


def _cca_within_groups(config: Config, findings: Findings, preset: str) -> Claim:
    pairs = _twelve(findings)
    return _cca_claim(
        "cca-within-groups",
        "The coordinates agree inside each group of states too, where a mere group label says nothing",
        preset,
        pairs,
        [pair.within for pair in pairs if pair.within is not None],
        [
            _over(
                "untrained pair, smallest",
                [_smallest(pair.within_untrained) for pair in pairs if pair.within_untrained is not None],
                max,
                UNTRAINED_WITHIN,
            )
        ],
    )


def _transplant(config: Config, findings: Findings, preset: str) -> Claim:
    worst = _worst([found.cost for found in findings.transplants])

    def excess(name: str) -> list[float]:
        return [getattr(found, name).value - found.base.value for found in findings.transplants]

    return _claim(
        "transplant",
        "Coordinates of one seed's core, mapped by one affine map, run the other seed's model on a donor's input",
        preset,
        seeds=config.twelve.seeds,
        unit="nats above base",
        measured=worst.value,
        low=worst.low,
        high=worst.high,
        num=len(findings.transplants),
        figure="transplant",
        where="this project",
        controls=[
            _over("map fitted on shuffled pairs", excess("shuffled"), min, TRANSPLANT_CONTROL),
            _over("from an untrained model", excess("untrained"), min, TRANSPLANT_CONTROL),
            _over("from a random subspace", excess("random"), min, TRANSPLANT_CONTROL),
            _over("random into random", excess("random_pair"), min),
            _over("PCA into PCA", excess("pca"), min),
            _over("own coordinates (ceiling)", excess("ceiling"), max),
        ],
        note="the paper compares cores and does not exchange them",
    )


def _spectra(findings: Findings) -> list[ModelFindings]:
    return [model for model in findings.of("real", "twelve") if model.spectrum is not None]


def _spectrum(config: Config, findings: Findings, preset: str) -> Claim:
    models = _spectra(findings)
    found = [model.spectrum for model in models if model.spectrum is not None]
    worst = _worst([spectrum.error for spectrum in found])
    on_z = [spectrum.core_error.value for spectrum in found if spectrum.coordinates == "law"]
    return _claim(
        "spectrum",
        "The operator fitted in the core has the chain's eigenvalues: the largest error",
        preset,
        seeds=config.all_seeds(),
        unit="distance",
        measured=worst.value,
        low=worst.low,
        high=worst.high,
        num=len(found),
        figure="eigenvalues",
        paper=0.02,
        controls=[
            _over("transition counts of the same data", [spectrum.counts_error for spectrum in found], max),
            *([_over("12 states, least squares on the coordinates", on_z, max)] if on_z else []),
        ],
        note="least squares on the coordinates for 4 states; for 12 on the law read from the core, whose span is invariant",
    )


def _spectrum_against_controls(config: Config, findings: Findings, preset: str) -> Claim:
    found = [model.spectrum for model in _spectra(findings) if model.spectrum is not None]
    nulls = [min(spectrum.control(name).error for name in ("untrained", "random")) for spectrum in found]
    measured, low, high = max(
        (error.value / null, _end(error.low, error) / null, _end(error.high, error) / null)
        for error, null in zip((spectrum.error for spectrum in found), nulls, strict=True)
    )
    return _claim(
        "spectrum-against-controls",
        "That error is at most a third of what an untrained core and random subspaces give for nothing",
        preset,
        seeds=config.all_seeds(),
        unit="ratio",
        measured=measured,
        low=low,
        high=high,
        num=len(found),
        figure="eigenvalues",
        where="this project",
        controls=[
            _over(f"{name}, error", [spectrum.control(name).error for spectrum in found], min)
            for name in ("untrained", "random", "pca")
        ],
    )


def _overlap(config: Config, findings: Findings, preset: str) -> Claim:
    found = [pair.overlap for pair in findings.pairs if pair.arm == "real"]
    values = [overlap.value for overlap in found]
    low, high = found[0].null_low, found[0].null_high
    return _claim(
        "overlap",
        "The subspaces of two seeds lie as chance would have it: no more orthogonal than random ones of equal rank",
        preset,
        seeds=config.real.seeds,
        unit="overlap",
        measured=sum(values) / len(values),
        low=min(values),
        high=max(values),
        num=len(values),
        figure="similarity_bars",
        paper=0.029,
        mark=Mark(kind="within", target=(low + high) / 2, tolerance=(high - low) / 2),
        controls=[Control(name="random pairs (k / D)", value=found[0].null_mean, low=low, high=high)],
        note="mean and range over pairs; the mark is the central 95 % of random pairs",
    )


def _weight_cosine(config: Config, findings: Findings, preset: str) -> Claim:
    values = [abs(pair.weight_cosine) for pair in findings.pairs]
    return _claim(
        "weight-cosine",
        "The weights of two seeds have nothing in common: the largest absolute cosine, matrices only",
        preset,
        seeds=config.all_seeds(),
        unit="cosine",
        measured=max(values),
        low=min(values),
        high=max(values),
        num=len(values),
        figure="similarity_bars",
        paper=0.04,
        controls=[_over("untrained twins", [abs(pair.untrained_cosine) for pair in findings.pairs], max)],
        note="the interval is the range over pairs",
    )


def _near_optimal(config: Config, findings: Findings, preset: str) -> Claim:
    models = findings.models
    worst = _worst([model.divergence for model in models])
    return _claim(
        "near-optimal",
        "The models have learnt their chains: Kullback-Leibler divergence from the true law",
        preset,
        seeds=config.all_seeds(),
        unit="nats",
        measured=worst.value,
        low=worst.low,
        high=worst.high,
        num=len(models),
        figure="training_curves",
        where="this project",
        controls=[
            _over("untrained", [model.untrained.divergence.value for model in models], min),
            _over("best constant answer", [model.chance for model in models], min),
        ],
    )
