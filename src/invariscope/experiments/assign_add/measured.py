"""From what was found of every seed to the number of each claim, its interval and its controls.

Of several seeds a claim takes the one that four in five reach: sorted from the worst, the one at index n / 5. So one bad seed in
five does not decide, and two do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from invariscope.estimate import Estimate
from invariscope.experiments.assign_add.config import Config
from invariscope.experiments.assign_add.findings import IndependenceFindings, SeedFindings
from invariscope.experiments.worst import Measured, end, over
from invariscope.storage.claims import Control, Mark

__all__ = ["Evidence", "of_most"]

SEEDS_TO_SPARE = 5
"""One in so many may fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that claims are made of."""

    config: Config
    seeds: tuple[SeedFindings, ...]
    independence: tuple[IndependenceFindings, ...]


def of_most(estimates: Sequence[Estimate], *, larger_is_better: bool = True) -> Estimate:
    """The one that four seeds in five reach.

    >>> values = [Estimate(value=value, num=1) for value in (0.9, 0.2, 0.8, 0.7, 1.0)]
    >>> of_most(values).value, of_most(values[:2]).value, of_most(values, larger_is_better=False).value
    (0.7, 0.2, 0.9)
    """
    ordered = sorted(estimates, key=lambda found: found.value, reverse=not larger_is_better)
    return ordered[len(ordered) // SEEDS_TO_SPARE]


def _measured(
    found: Evidence, estimates: Sequence[Estimate], controls: Sequence[Control], *, larger_is_better: bool = True, note: str = ""
) -> Measured:
    chosen = of_most(estimates, larger_is_better=larger_is_better)
    every = ", ".join(f"{one.value:.3g}" for one in estimates)
    return Measured(
        value=chosen.value,
        low=end(chosen.low, chosen),
        high=end(chosen.high, chosen),
        num=len(estimates),
        seeds=[one.seed for one in found.seeds],
        controls=controls,
        note=" ".join(part for part in (f"Seeds: {every}." if len(estimates) > 1 else "", note) if part),
    )


def _least(estimates: Sequence[Estimate]) -> Estimate:
    return min(estimates, key=lambda estimate: estimate.value)


def measure_pools(found: Evidence, kind: str, untrained_mark: Mark) -> Measured:
    """The worst pool of a kind (``held``, ``seen-bad``, ``held-bad``) of each seed."""
    sums, _, bad = kind.partition("-")
    corners = found.config.task.corners
    pools = [name for name, pool in corners.items() if pool.sums == sums and bool(pool.num_bad) == bool(bad)]
    worst = [_least([one.accuracy(pool).trained for pool in pools]) for one in found.seeds]
    untrained = [max(one.accuracy(pool).untrained for pool in pools) for one in found.seeds]
    return _measured(
        found,
        worst,
        [over("untrained", untrained, max, untrained_mark)],
        note=f"The worst of {', '.join(pools)}.",
    )


def measure_leak(found: Evidence) -> Measured | None:
    """Accuracy on held-out sums whose mirror is trained minus that on sums seen in no order."""
    if found.config.task.split != "ordered":
        return None
    differences, notes = [], []
    for one in found.seeds:
        swapped, unseen = (one.accuracy(f"0var-held-{kind}").trained for kind in ("swapped", "unseen"))
        low = end(swapped.low, swapped) - end(unseen.high, unseen)
        high = end(swapped.high, swapped) - end(unseen.low, unseen)
        differences.append(Estimate(value=swapped.value - unseen.value, low=low, high=high, num=unseen.num))
        notes.append(f"{swapped.value:.4f} and {unseen.value:.4f}")
    swapped = [one.accuracy("0var-held-swapped").trained.value for one in found.seeds]
    seen = [one.accuracy("0var-seen").trained.value for one in found.seeds]
    control = over(
        "seen minus swapped", [a - b for a, b in zip(seen, swapped, strict=True)], max, Mark(kind="at_most", target=0.01)
    )
    return _measured(found, differences, [control], note=f"Swapped and unseen sums of numbers: {'; '.join(notes)}.")


def measure_measure(found: Evidence, name: str, untrained_mark: Mark) -> Measured:
    """One measure of the circuit, beside the untrained model."""
    untrained = [getattr(one.untrained, name).value for one in found.seeds]
    estimates = [getattr(one.measures, name) for one in found.seeds]
    return _measured(found, estimates, [over("untrained", untrained, max, untrained_mark)])


def measure_shared(found: Evidence, name: str, shuffled_mark: Mark) -> Measured:
    """A cosine of matched versions, beside sums that do not belong together."""
    estimates = [getattr(one.measures, name) for one in found.seeds]
    untrained = [getattr(one.untrained, name) for one in found.seeds]
    return _measured(
        found,
        estimates,
        [
            over("other sums", [estimate.chance or 0.0 for estimate in estimates], max, shuffled_mark),
            over("untrained: other sums", [estimate.chance or 0.0 for estimate in untrained], max),
            over("untrained", [estimate.value for estimate in untrained], max),
        ],
        note="In an untrained model everything at the final = is alike, the same sum or not: the cosine says something only "
        "beside that of other sums.",
    )


def measure_patched(found: Evidence, untrained_mark: Mark) -> Measured:
    """Answers that follow the attention output that was put in."""
    return measure_measure(found, "patched_attention", untrained_mark)


def measure_frequency(found: Evidence, random_mark: Mark) -> Measured | None:
    """The median neuron's share of energy at its best frequency."""
    estimates = [one.measures.frequency_share for one in found.seeds]
    known = [estimate for estimate in estimates if estimate is not None]
    if len(known) < len(estimates):
        return None
    untrained = [one.untrained.frequency_share for one in found.seeds]
    weighted = [one.measures.frequency_share_by_energy for one in found.seeds]
    used = [one.measures.frequency_num for one in found.seeds]
    energies = ", ".join(f"{one.value:.3f}" for one in weighted if one is not None)
    frequencies = ", ".join(f"{one.value:.0f}" for one in used if one is not None)
    return _measured(
        found,
        known,
        [
            over("random additive functions", [estimate.chance or 0.0 for estimate in known], max, random_mark),
            over("untrained", [one.value for one in untrained if one is not None] or [0.0], max, random_mark),
        ],
        note=f"Weighted by energy: {energies}. Frequencies in use: {frequencies}.",
    )


def measure_probe(found: Evidence, before_mark: Mark) -> Measured | None:
    """The probe for a number's own variable after layer 1."""
    before = [one.measures.own_variable_probe_before for one in found.seeds]
    after = [one.measures.own_variable_probe_after for one in found.seeds]
    untrained = [one.untrained.own_variable_probe_after for one in found.seeds]
    known = [estimate for estimate in after if estimate is not None]
    if len(known) < len(after):
        return None
    return _measured(
        found,
        known,
        [
            over("before layer 1", [one.value for one in before if one is not None], max, before_mark),
            over("untrained, after layer 1", [one.value for one in untrained if one is not None], max),
        ],
        note="An untrained layer 1 mixes earlier tokens in, so that a probe finds the variable there too, but less often.",
    )


def measure_without_mlp(found: Evidence, with_mark: Mark) -> Measured:
    """Accuracy without the MLP."""
    whole = [
        min(one.accuracy(f"{num}var-seen").trained.value for num in range(found.config.task.num_operands + 1))
        for one in found.seeds
    ]
    estimates = [one.measures.without_mlp2_accuracy for one in found.seeds]
    return _measured(found, estimates, [over("with the MLP", whole, min, with_mark)], larger_is_better=False)


def measure_order(found: Evidence) -> Measured | None:
    """Share of seeds in which all phases came, in order; measured where a training is long enough for phases."""
    if found.config.train.schedule != "constant":
        return None
    share = sum(one.phases.in_order for one in found.seeds) / len(found.seeds)

    def step(value: float | None) -> str:
        return "never" if value is None else f"{value:.0f}"

    spans = "; ".join(
        f"seed {one.seed}: {step(one.phases.addition.step)}, {step(one.phases.routing.step)}, {step(one.phases.refinement.step)}"
        for one in found.seeds
    )
    chance = Control(name="orders of three by accident", value=1 / 6)
    seeds = [one.seed for one in found.seeds]
    return Measured(
        value=share,
        low=None,
        high=None,
        num=len(seeds),
        seeds=seeds,
        controls=[chance],
        note=f"Steps of addition, routing, refinement: {spans}.",
    )


def measure_jump(found: Evidence) -> Measured | None:
    """The steepest rise of held-out sums with one variable, once addition is there."""
    if found.config.train.schedule != "constant":
        return None
    rises = [Estimate(value=one.phases.jump_size or 0.0, num=1) for one in found.seeds]
    meanwhile = [one.phases.addition_in_jump for one in found.seeds]
    dips = "; ".join(f"seed {one.seed} {min(one.phases.dips.values()):+.2f}" for one in found.seeds if one.phases.dips)
    return _measured(
        found,
        rises,
        [
            over(
                "sums of numbers meanwhile",
                [value for value in meanwhile if value is not None] or [0.0],
                max,
                Mark(kind="at_most", target=0.1),
            )
        ],
        note=f"Deepest fall of a pool of forbidden places after the jump's start: {dips}." if dips else "",
    )


def measure_lag(found: Evidence) -> Measured | None:
    """How far apart the change points of routing and of accuracy lie, as a share of the training."""
    if found.config.train.schedule != "constant":
        return None
    lags = [one.phases.lags["attn2_equal_to_values"] for one in found.seeds if "attn2_equal_to_values" in one.phases.lags]
    if not lags:
        return None
    steps = found.config.train.steps
    spans = "; ".join(map(_lag, lags))
    first = [one.phases.lags["attn1_equal_to_operands"] for one in found.seeds if "attn1_equal_to_operands" in one.phases.lags]
    sizes = [Estimate(value=abs(lag.value) / steps, num=1) for lag in lags]
    early = [
        abs(one.phases.routing.step - one.phases.addition.step) / steps
        for one in found.seeds
        if one.phases.routing.step is not None and one.phases.addition.step is not None
    ]
    return _measured(
        found,
        sizes,
        [over("from addition to the jump", early or [0.0], min, Mark(kind="at_least", target=0.05))],
        larger_is_better=False,
        note=f"Steps from the change of attention to that of accuracy: {spans}; from that of attention on the operands in "
        f"layer 1: {'; '.join(map(_lag, first))}.",
    )


def _lag(lag: Estimate) -> str:
    return f"{lag.value:+.0f} [{end(lag.low, lag):+.0f}, {end(lag.high, lag):+.0f}]"


def measure_gradient(found: Evidence, null_mark: Mark) -> Measured | None:
    """Share of checkpoints, from addition to the jump's end, at which the block beats 99 % of shuffled ones."""
    if found.config.train.schedule != "constant":
        return None

    def share(one: SeedFindings, name: str, holds: Callable[..., bool]) -> float:
        return sum(holds(getattr(step, name)) for step in one.gradients) / len(one.gradients)

    with_steps = [one for one in found.seeds if one.gradients]
    if not with_steps:
        return None
    shares = [Estimate(value=share(one, "merged", lambda cosine: cosine.above), num=len(one.gradients)) for one in with_steps]
    parts = {name: [share(one, name, lambda cosine: cosine.above) for one in with_steps] for name in ("query", "key", "rebuilt")}
    means = [sum(step.merged.cosine for step in one.gradients) / len(one.gradients) for one in with_steps]
    return _measured(
        found,
        shares,
        [Control(name="a shuffled block", value=0.01, mark=null_mark)],
        note="Mean cosines: "
        + ", ".join(f"{value:.3f}" for value in means)
        + ". W_Q alone, W_K alone, and with what the matrix says between variables taken out: "
        + "; ".join(", ".join(f"{value:.2f}" for value in values) for values in parts.values())
        + ".",
    )


def measure_frozen(found: Evidence, arm: str, against: str, control: str, control_mark: Mark) -> Measured | None:
    """Steps until held-out sums with one variable are right, as a multiple of what the unfrozen training needs."""
    arms = {(one.seed, one.arm): one for one in found.independence}
    seeds = [one.seed for one in found.seeds if (one.seed, arm) in arms and (one.seed, against) in arms]
    if not seeds:
        return None

    def ratio(seed: int, name: str) -> float:
        # A training that never gets there took at least as long as it was given.
        steps, free = (arms[seed, one].reached or 2.0 * arms[seed, one].steps[-1] for one in (name, against))
        return steps / free

    reached = "; ".join(f"seed {seed}: {_reached(arms[seed, arm])} against {_reached(arms[seed, against])}" for seed in seeds)
    controls = [over(control, [ratio(seed, control) for seed in seeds], min, control_mark)]
    estimates = [Estimate(value=ratio(seed, arm), num=1) for seed in seeds]
    return _measured(
        found,
        estimates,
        controls,
        larger_is_better=False,
        note=f"Steps: {reached}. One that never gets there counts as twice its length.",
    )


def _reached(one: IndependenceFindings) -> str:
    return "never" if one.reached is None else f"{one.reached:.0f}"


def measure_core(found: Evidence, edit: str, random_mark: Mark) -> Measured | None:
    """The worse of both cores on both kinds of held-out sums."""
    with_cores = [one.cores for one in found.seeds if one.cores is not None]
    if not with_cores:
        return None
    better = max if edit == "remove" else min

    def worst(cores: Sequence, subject: str) -> list[Estimate]:
        return [
            better(
                (effect.accuracy for effect in one.edits if (effect.subject, effect.edit) == (subject, edit)),
                key=lambda estimate: estimate.value,
            )
            for one in cores
        ]

    ranks = "; ".join(f"{one.constant_rank} and {one.variable_rank}" for one in with_cores)
    controls = [
        over(
            "random directions", [one.value for one in worst(with_cores, "random")], max if edit == "keep" else min, random_mark
        ),
        over("PCA", [one.value for one in worst(with_cores, "pca")], better),
    ]
    return _measured(found, worst(with_cores, "core"), controls, larger_is_better=edit == "keep", note=f"Ranks: {ranks}.")


def measure_overlap(found: Evidence) -> Measured | None:
    """Overlap of the two cores' spans."""
    overlaps = [one.cores.overlap for one in found.seeds if one.cores is not None]
    if not overlaps:
        return None
    estimates = [Estimate(value=one.value, num=one.rank) for one in overlaps]
    return _measured(
        found, estimates, [over("random pairs", [one.null_high for one in overlaps], max, Mark(kind="at_most", target=0.5))]
    )


def measure_carried(found: Evidence, random_mark: Mark) -> Measured | None:
    """Answers that follow carried coordinates."""
    with_cores = [one.cores for one in found.seeds if one.cores is not None]
    if not with_cores:
        return None
    return _measured(
        found,
        [one.carried for one in with_cores],
        [over("random directions", [one.carried_random.value for one in with_cores], max, random_mark)],
        note="Share that keep their own answer where all but the core is the other sum's: "
        + ", ".join(f"{one.rest_keeps.value:.3f}" for one in with_cores)
        + ".",
    )
