"""The figures of ``assign-add``: pools, leak, gradient, independence and cores over all seeds.

What is drawn of circuits stands in :mod:`invariscope.experiments.assign_add.circuit_figures`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from invariscope.experiments.assign_add.circuit_figures import circuit_figures
from invariscope.experiments.assign_add.config import Config
from invariscope.experiments.assign_add.cores import CoreFindings
from invariscope.experiments.assign_add.findings import IndependenceFindings, PhaseFindings, SeedFindings
from invariscope.experiments.assign_add.independence import ADDED, ARMS, LOOKED_UP
from invariscope.figures import (
    AccuracyCurve,
    AccuracyCurves,
    Condition,
    ConditionDots,
    Figure,
    draw_accuracy_curves,
    draw_condition_dots,
)

__all__ = ["make_figures"]

SUMS = {
    "seen": "sums of training",
    "held": "held-out sums",
    "seen-bad": "sums of training, forbidden places",
    "held-bad": "held-out sums, forbidden places",
}
"""Panels of pools, by kind."""
ARM_PANELS = {"addition is there": ARMS[:3], "fresh weights": ARMS[3:]}
CONTROL_ARMS = ("untrained addition", "untrained routing")
EDIT_NAMES = {"core": "core", "pca": "PCA", "random": "random directions"}


def make_figures(config: Config, findings: Sequence[SeedFindings], independence: Sequence[IndependenceFindings]) -> list[Figure]:
    """Every figure, in the order of the report.

    Args:
        config: what was run. findings: one a seed. independence: the trainings with frozen parts.
    """
    constant = config.train.schedule == "constant"
    cores = [one.cores for one in findings if one.cores is not None]
    return [
        _pools(config, findings),
        *([_by_seed(config, findings)] if constant and len(findings) > 1 else []),
        *([_leak(config, findings)] if config.task.split == "ordered" else []),
        *circuit_figures(findings),
        *([_gradient(findings)] if constant and any(one.gradients for one in findings) else []),
        *([_independence(config, independence)] if independence else []),
        *([_cores(cores, config), _carried(cores)] if cores else []),
    ]


def _variables(num: int, bad: int) -> str:
    # The same names in all panels, so that each kind of sum has its colour.
    name = f"{num} variable" if num == 1 else f"{num} variables"
    return name if bad < 2 else f"{name}, {bad} misplaced"


def _pools(config: Config, findings: Sequence[SeedFindings]) -> Figure:
    curves = []
    for kind, panel in SUMS.items():
        sums, _, bad = kind.partition("-")
        for pool, corner in config.task.corners.items():
            if corner.sums == sums and bool(corner.num_bad) == bool(bad):
                runs = [one.pools[pool] for one in findings]
                name = _variables(corner.num_variables, corner.num_bad)
                curves.append(AccuracyCurve.over_seeds(panel=panel, name=name, steps=findings[0].steps, runs=runs))
    one = len(findings) == 1
    return draw_accuracy_curves(
        AccuracyCurves(
            curves=tuple(curves),
            title="Every kind of sum over training",
            chance=config.task.chance().accuracy,
            phases=_spans([findings[0].phases]) if one and config.train.schedule == "constant" else (),
            band=f"the median of {len(findings)} seeds, with a band from the lowest to the highest",
            note="Forbidden places are scored from the start though training never has them: whether they follow is a choice "
            "that the data do not make.",
        ),
        name="pools",
    )


def _spans(phases: Iterable[PhaseFindings]) -> tuple[tuple[str, float, float], ...]:
    found = []
    for one in phases:
        for span in (one.addition, one.routing, one.refinement):
            if span.step is not None:
                low, high = (span.step if end is None else end for end in (span.low, span.high))
                found.append((span.name, low, high))
    return tuple(found)


def _by_seed(config: Config, findings: Sequence[SeedFindings]) -> Figure:
    whole = config.task.num_operands
    lines = {
        "held-out sums of numbers": "0var-held",
        "held-out sums, 1 variable": "1var-held",
        "forbidden places, 1 variable": "1var-seen-bad1",
        f"forbidden places, {whole} variables": f"{whole}var-seen-bad1",
    }
    curves = [
        AccuracyCurve(panel=f"seed {one.seed}", name=name, steps=one.steps, values=one.pools[pool])
        for one in findings
        for name, pool in lines.items()
        if pool in one.pools
    ]
    return draw_accuracy_curves(
        AccuracyCurves(
            curves=tuple(curves),
            title="Addition, a jump, refinement: each seed in its own time",
            chance=config.task.chance().accuracy,
            own_phases={f"seed {one.seed}": _spans([one.phases]) for one in findings},
            note="Before the jump, sums with a variable are right by guessing among the assigned numbers.",
        ),
        name="phases",
    )


def _leak(config: Config, findings: Sequence[SeedFindings]) -> Figure:
    kinds = {"seen": "trained", "held-swapped": "held out, its mirror trained", "held-unseen": "held out in both orders"}
    dots = []
    for num in range(config.task.num_operands + 1):
        for kind, name in kinds.items():
            found = [one.accuracy(f"{num}var-{kind}").trained for one in findings]
            single = found[0] if len(found) == 1 else None
            values = [estimate.value for estimate in found]
            dots.append(
                Condition(
                    panel=_variables(num, 0),
                    name=name,
                    value=statistics.median(values),
                    low=min(values) if single is None else single.low,
                    high=max(values) if single is None else single.high,
                    role="control" if kind == "seen" else "core",
                )
            )
    return draw_condition_dots(
        ConditionDots(
            dots=tuple(dots),
            title="The mirror leak of an ordered split",
            caption="Accuracy of the trained models on sums that training had, on held-out ordered pairs whose other order it "
            "had, and on pairs that it had in no order"
            + ("; the median over seeds, with bars from the lowest to the highest." if len(findings) > 1 else "."),
            quantity="accuracy",
            unit="",
            columns=3,
        ),
        name="mirror_leak",
    )


def _gradient(findings: Sequence[SeedFindings]) -> Figure:
    curves = []
    for one in findings:
        steps = tuple(found.step for found in one.gradients)
        lines = {
            "as it is": [found.merged for found in one.gradients],
            "without what it says between variables": [found.rebuilt for found in one.gradients],
        }
        for name, cosines in lines.items():
            if steps:
                panel = f"seed {one.seed}: {name}"
                values = tuple(cosine.cosine for cosine in cosines)
                null = tuple(cosine.null_99 for cosine in cosines)
                curves += [
                    AccuracyCurve(panel=panel, name="the block that matches variables", steps=steps, values=values),
                    AccuracyCurve(panel=panel, name="99 % of shuffled blocks", steps=steps, values=null, role="control"),
                ]
    return draw_accuracy_curves(
        AccuracyCurves(
            curves=tuple(curves),
            title="Does the loss pull the look-up into place?",
            quantity="cosine",
            unit_axis=False,
            subject="Cosine of the downhill direction of the merged query-key matrix of layer 2 with the block that matches "
            "equal variables, from addition to the jump's end.",
            note="Shuffled blocks match the wrong variables with the same vectors: only what lies above them is evidence.",
        ),
        name="gradient",
    )


def _independence(config: Config, independence: Sequence[IndependenceFindings]) -> Figure:
    curves = []
    for panel, arms in ARM_PANELS.items():
        for arm in arms:
            found = [one for one in independence if one.arm == arm]
            if found:
                curves.append(
                    AccuracyCurve.over_seeds(
                        panel=panel,
                        name=_frozen(arm),
                        steps=found[0].steps,
                        runs=[one.pools["1var-held"] for one in found],
                        role="control" if arm in CONTROL_ARMS else "core",
                    )
                )
    num = len({one.seed for one in independence})
    return draw_accuracy_curves(
        AccuracyCurves(
            curves=tuple(curves),
            title="One circuit frozen while the other forms",
            subject="Accuracy on held-out sums with one variable.",
            chance=config.task.chance().accuracy,
            mark=LOOKED_UP,
            mark_label="learnt",
            band=f"the median of {num} seeds, with a band from the lowest to the highest",
            note=f"Left, all start from the checkpoint at which held-out sums of numbers reach {ADDED:g}; right, from the "
            "initial weights. Grey and brown lines: the same parts frozen as they were before any training.",
        ),
        name="independence",
    )


def _frozen(arm: str) -> str:
    return {"nothing": "nothing frozen", "fresh": "nothing frozen, fresh"}.get(arm, f"{arm} frozen")


def _cores(cores: Sequence[CoreFindings], config: Config) -> Figure:
    sums = {"constant": "sums of numbers", "variable": "sums of variables"}
    dots = []
    for edit in ("keep", "remove"):
        for core, name in sums.items():
            for subject, subject_name in EDIT_NAMES.items():
                for pool, pool_name in sums.items():
                    values = [
                        one.accuracy.value
                        for found in cores
                        for one in found.edits
                        if (one.core, one.subject, one.edit, one.pool) == (core, subject, edit, pool)
                    ]
                    dots.append(_dot(f"{edit} the core of {name}", f"{subject_name}, on {pool_name}", values, subject == "core"))
    ranks = ", ".join(f"{one.constant_rank} and {one.variable_rank}" for one in cores)
    overlaps = ", ".join(f"{one.overlap.value:.3f}" for one in cores)
    return draw_condition_dots(
        ConditionDots(
            dots=tuple(dots),
            title="One core for both kinds of sums",
            caption="Accuracy on held-out sums when the core before the MLP is kept alone or removed, of "
            f"{config.width} directions; ranks of the two cores: {ranks}; overlap of their spans: {overlaps}. Open symbols are "
            f"controls of equal rank{_bars(cores)}.",
            quantity="accuracy",
            unit="",
            columns=2,
            span=(-0.05, 1.05),
        ),
        name="core_edits",
    )


def _carried(cores: Sequence[CoreFindings]) -> Figure:
    rows = {
        "the core": [one.carried.value for one in cores],
        "random directions": [one.carried_random.value for one in cores],
        "all but the core: the taker's own answer stays": [one.rest_keeps.value for one in cores],
    }
    panel = "what is carried"
    return draw_condition_dots(
        ConditionDots(
            dots=tuple(_dot(panel, name, values, "random" not in name) for name, values in rows.items()),
            title="The sum goes where its coordinates go",
            caption="Coordinates that a sum of numbers has in the core are written into a sequence that adds other numbers by "
            f"variables: share of answers that become the giver's sum{_bars(cores)}.",
            quantity="share of answers",
            unit="",
            span=(-0.05, 1.05),
        ),
        name="core_carried",
    )


def _bars(cores: Sequence[CoreFindings]) -> str:
    return "; medians over seeds, with bars from the lowest to the highest" if len(cores) > 1 else ""


def _dot(panel: str, name: str, values: Sequence[float], is_core: bool) -> Condition:
    several = len(values) > 1
    return Condition(
        panel=panel,
        name=name,
        value=statistics.median(values),
        low=min(values) if several else None,
        high=max(values) if several else None,
        role="core" if is_core else "control",
    )
