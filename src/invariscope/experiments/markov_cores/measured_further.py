"""What the further parts are judged by: beliefs in hidden chains, the core against the size of the model, the paper's setting."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from invariscope.experiments.markov_cores.findings import Findings
from invariscope.experiments.worst import Measured, farthest, largest, over, size
from invariscope.storage.claims import Control, Mark

__all__ = [
    "measure_belief",
    "measure_belief_written",
    "measure_paper_cca",
    "measure_paper_keep",
    "measure_paper_rank",
    "measure_paper_spectrum",
    "measure_size",
]


def measure_belief(findings: Findings, *, final_norm_mark: Mark) -> Measured:
    """Smallest hold-out R² of the exact belief on the rank-2 core after the last attention."""
    found = findings.beliefs
    least = min((one.resid_mid for one in found), key=lambda estimate: estimate.value)

    def control(name: str, pick: str, choose: Callable[[Sequence[float]], float], mark: Mark | None = None) -> Control:
        return over(name, [getattr(one, pick).value for one in found], choose, mark)

    return Measured(
        value=least.value,
        low=least.low,
        high=least.high,
        num=len(found),
        seeds=sorted({one.seed for one in found}),
        controls=[
            control("before the unembedding", "final_norm", min, final_norm_mark),
            control("untrained core", "untrained_resid_mid", max),
            control("untrained core before the unembedding", "untrained_final_norm", max),
            control("code of the last two tokens", "last_two_tokens", max),
            control("full residual, no evidence", "residual", max),
            control("full residual of the untrained model, no evidence", "untrained_residual", max),
            control("residual without its core, no evidence", "residual_without_core", max),
        ],
        note="over hidden chains and seeds, tokens from the fourth on",
    )


def measure_belief_written(findings: Findings, *, control_mark: Mark) -> Measured:
    """Largest cost of writing the exact belief into the core, over the model's own coordinates."""
    written = [one.written for one in findings.beliefs]
    worst = largest([one.cost for one in written])

    def excess(name: str) -> list[float]:
        return [getattr(one, name).value - one.own.value for one in written]

    return Measured(
        value=worst.value,
        low=worst.low,
        high=worst.high,
        num=len(written),
        seeds=sorted({one.seed for one in findings.beliefs}),
        controls=[
            over("the last token instead", excess("last_token"), min, control_mark),
            over("into a random subspace", excess("random"), min, control_mark),
            over("into an untrained model", excess("untrained"), min, control_mark),
            over("the exact law itself", excess("optimum"), min),
        ],
        note="everything else at the site is set to its mean; the affine map is fitted on other sequences",
    )


def measure_size(findings: Findings, target: float) -> Measured:
    """The causal rank over all sizes of model, beside the energy rules and the worst divergence from the law."""
    sizes = findings.sizes
    found = [one.scanned + 1 if rank is None else rank for one in sizes for rank in (one.sufficient, one.necessary)]
    controls = [
        over("energy .99", [one.energy_99 for one in sizes], max),
        over("energy .999", [one.energy_999 for one in sizes], max),
        over("divergence from the law, nats", [one.divergence.value for one in sizes], max),
    ]
    return Measured(
        value=farthest(target)(found),
        low=min(found),
        high=max(found),
        num=len(sizes),
        seeds=sorted({model.seed for model in findings.of("twelve")})[:1],
        controls=controls,
        note="sufficient and necessary rank of every size by the causal 2 % rule, the one farthest from the mark",
    )


def _paper_seeds(findings: Findings) -> list[int]:
    return [one.seed for one in findings.paper]


def measure_paper_rank(findings: Findings) -> Measured:
    """The rank by .999 of the energy at the paper's site, over seeds."""
    ranks = [one.energy_999 for one in findings.paper]
    return Measured(
        value=farthest(3)(ranks),
        low=min(ranks),
        high=max(ranks),
        num=len(ranks),
        seeds=_paper_seeds(findings),
        controls=[over("untrained", [one.untrained_energy_999 for one in findings.paper], max)],
        note="four outputs allow at most 3 at this site",
    )


def measure_paper_keep(findings: Findings) -> Measured:
    """Largest change of accuracy when only the core is kept."""
    value, low, high = max(size(one.keep) for one in findings.paper)
    return Measured(
        value=value,
        low=low,
        high=high,
        num=len(findings.paper),
        seeds=_paper_seeds(findings),
        controls=[
            over("accuracy after removal", [one.remove.value for one in findings.paper], max),
            over("chance: share of the commonest answer", [one.remove.chance or 0.0 for one in findings.paper], max),
        ],
        note="before a linear readout of four outputs any model's core of rank 3 keeps nearly all",
    )


def measure_paper_spectrum(findings: Findings, *, pair: bool) -> Measured:
    """Largest error of the complex pair, or of the real eigenvalue; untrained and random cores must err three times as much."""
    found, which = findings.paper, "pair" if pair else "real"
    worst = largest([getattr(one, f"{which}_error") for one in found])
    three_times = Mark(kind="at_least", target=3 * worst.value)
    controls = [
        over(name, [getattr(one, f"{kind}_{which}_error") for one in found], min, three_times)
        for name, kind in (("untrained", "untrained"), ("random subspace", "random"))
    ]
    if pair:
        controls.append(over("PCA", [one.pca_pair_error for one in found], min))
    return Measured(
        value=worst.value,
        low=worst.low,
        high=worst.high,
        num=len(found),
        seeds=_paper_seeds(findings),
        controls=controls,
        note="a chain that mostly stays where it is: read the controls before the number",
    )


def measure_paper_cca(findings: Findings) -> Measured:
    """Smallest hold-out correlation between two seeds at the paper's site."""
    pairs = findings.paper_pairs
    worst = min((pair.cca for pair in pairs), key=lambda found: min(found.heldout_components))
    value = min(worst.heldout_components)
    low, high = worst.heldout_intervals[worst.heldout_components.index(value)]
    overlaps = [pair.overlap for pair in pairs]
    return Measured(
        value=value,
        low=low,
        high=high,
        num=len(pairs),
        seeds=_paper_seeds(findings),
        controls=[
            over("untrained pair, smallest", [min(pair.untrained.heldout_components) for pair in pairs], max),
            over("overlap of the subspaces", [overlap.value for overlap in overlaps], max),
            over("overlap by chance", [overlap.null_mean for overlap in overlaps], max),
            over("weight cosine", [abs(pair.weight_cosine) for pair in pairs], max),
        ],
        note="with four states any two codes in three dimensions are related: no evidence by itself",
    )
