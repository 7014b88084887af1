"""The claims of ``assign-add`` and the marks that they are judged by, written down before the runs.

Of several seeds the one counts that four in five reach (:func:`of_most`): one seed in five may need more steps. Where the paper
has one seed, its number stands beside the claim.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from invariscope.experiments.assign_add import measured as m
from invariscope.experiments.assign_add.config import Config
from invariscope.experiments.assign_add.findings import IndependenceFindings, SeedFindings
from invariscope.experiments.assign_add.measured import Evidence
from invariscope.experiments.worst import Measured
from invariscope.storage.claims import Claim, Mark

__all__ = ["MARKS", "make_claims"]

PAPER, OURS = "arXiv:2605.31497", "this project"

MARKS = {
    "held-sums": Mark(kind="at_least", target=0.99),
    "forbidden-places": Mark(kind="at_least", target=0.99),
    "forbidden-and-held": Mark(kind="at_least", target=0.95),
    "mirror-leak": Mark(kind="above", target=0.0),
    "shared-pre-activations": Mark(kind="at_least", target=0.98),
    "shared-residual": Mark(kind="at_least", target=0.9),
    "patched-versions": Mark(kind="at_least", target=0.95),
    "frequency-share": Mark(kind="at_least", target=0.85),
    "variable-identity": Mark(kind="within", target=1.0, tolerance=0.0),
    "own-variable-probe": Mark(kind="at_least", target=0.95),
    "ov2-mlp2": Mark(kind="at_least", target=0.99),
    "without-mlp2": Mark(kind="at_most", target=0.05),
    "routing": Mark(kind="at_least", target=0.95),
    "phases-in-order": Mark(kind="at_least", target=0.8),
    "jump": Mark(kind="at_least", target=0.3),
    "routing-rises-with-it": Mark(kind="at_most", target=0.05),
    "gradient": Mark(kind="within", target=1.0, tolerance=0.0),
    "addition-frozen": Mark(kind="at_most", target=1.5),
    "routing-frozen": Mark(kind="at_most", target=1.0),
    "core-keep": Mark(kind="at_least", target=0.9),
    "core-remove": Mark(kind="at_most", target=0.1),
    "one-core": Mark(kind="at_least", target=0.8),
    "core-carries": Mark(kind="at_least", target=0.9),
}
"""By claim. Shares and accuracies, cosines, and ratios of steps."""

CHANCE_LIKE = Mark(kind="at_most", target=0.1)
SHUFFLED_COSINE = Mark(kind="at_most", target=0.3)
RANDOM_SHARE = Mark(kind="at_most", target=0.2)
BEFORE_LAYER_1 = Mark(kind="at_most", target=0.35)
UNTRAINED_IDENTITY = Mark(kind="at_most", target=0.75)
WITH_MLP = Mark(kind="at_least", target=0.95)
NULL_GRADIENT = Mark(kind="at_most", target=0.05)
NEVER = Mark(kind="at_least", target=3.0)
RANDOM_KEEP = Mark(kind="at_most", target=0.2)
RANDOM_REMOVE = Mark(kind="at_least", target=0.9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What is claimed, and how it is measured.

    Args:
        name: the claim's id without the study's name. text: the statement.
        measure: from the evidence to its number; None where the run does not measure it.
        unit: of the number and of the mark. figure: the one that shows it.
        source: where the claim comes from. paper: the paper's number.
    """

    name: str
    text: str
    measure: Callable[[Evidence], Measured | None]
    unit: str
    figure: str
    source: str = PAPER
    paper: float | None = None


STATEMENTS = (
    Statement(
        name="held-sums",
        text="Sums that training never has are right, whether of numbers, of a variable and a number, or of two variables",
        measure=lambda found: m.measure_pools(found, "held", CHANCE_LIKE),
        unit="accuracy",
        figure="pools",
        paper=0.994,
    ),
    Statement(
        name="forbidden-places",
        text="Variables are understood on the side where training never has them",
        measure=lambda found: m.measure_pools(found, "seen-bad", CHANCE_LIKE),
        unit="accuracy",
        figure="pools",
        paper=0.985,
    ),
    Statement(
        name="forbidden-and-held",
        text="So are sums that training never has, with variables where it never has them",
        measure=lambda found: m.measure_pools(found, "held-bad", CHANCE_LIKE),
        unit="accuracy",
        figure="pools",
        source=OURS,
    ),
    Statement(
        name="mirror-leak",
        text="Where ordered pairs are held out, those whose mirror was trained are easier than those never seen: "
        "held-out accuracy is partly a leak",
        measure=m.measure_leak,
        unit="difference of accuracies",
        figure="mirror_leak",
        source=OURS,
        paper=0.023,
    ),
    Statement(
        name="shared-pre-activations",
        text="A sum of numbers and the same sum of variables reach the MLP alike: cosine of its pre-activations",
        measure=lambda found: m.measure_shared(found, "shared_pre_activations", SHUFFLED_COSINE),
        unit="cosine",
        figure="cosines",
    ),
    Statement(
        name="shared-residual",
        text="So does the residual stream before the MLP",
        measure=lambda found: m.measure_shared(found, "shared_residual", SHUFFLED_COSINE),
        unit="cosine",
        figure="cosines",
        paper=0.973,
    ),
    Statement(
        name="patched-versions",
        text="Given the attention output of a sum of numbers, a sum of other variables answers as the sum of numbers",
        measure=lambda found: m.measure_patched(found, CHANCE_LIKE),
        unit="share of answers",
        figure="circuits",
        source=OURS,
    ),
    Statement(
        name="frequency-share",
        text="Most of what a neuron of the MLP tells of two numbers is one Fourier frequency",
        measure=lambda found: m.measure_frequency(found, RANDOM_SHARE),
        unit="median share of energy",
        figure="neurons",
        paper=0.708,
    ),
    Statement(
        name="variable-identity",
        text="Layer 2 matches each variable, as layer 1 writes it, with itself",
        measure=lambda found: m.measure_measure(found, "qk2_ov1_variable_identity", UNTRAINED_IDENTITY),
        unit="share of variables",
        figure="identity",
    ),
    Statement(
        name="own-variable-probe",
        text="After layer 1, an assigned number knows its variable: held-out accuracy of a linear probe",
        measure=lambda found: m.measure_probe(found, BEFORE_LAYER_1),
        unit="accuracy",
        figure="circuits",
    ),
    Statement(
        name="ov2-mlp2",
        text="What layer 2 does with two embeddings, without any attention, adds all pairs of numbers",
        measure=lambda found: m.measure_measure(found, "ov2_mlp2_accuracy", CHANCE_LIKE),
        unit="accuracy",
        figure="circuits",
        paper=0.9997,
    ),
    Statement(
        name="without-mlp2",
        text="Without the MLP there is no sum",
        measure=lambda found: m.measure_without_mlp(found, WITH_MLP),
        unit="accuracy",
        figure="circuits",
    ),
    Statement(
        name="routing",
        text="In layer 2 the final = attends to the numbers that its operands stand for",
        measure=lambda found: m.measure_measure(found, "attn2_equal_to_values", CHANCE_LIKE),
        unit="share of sequences",
        figure="attention",
    ),
    Statement(
        name="phases-in-order",
        text="Addition comes first, then a jump as variables are looked up, then forbidden places",
        measure=m.measure_order,
        unit="share of seeds",
        figure="pools",
    ),
    Statement(
        name="jump",
        text="After addition is there, held-out sums with one variable rise by .3 within a tenth of the training",
        measure=m.measure_jump,
        unit="rise of accuracy",
        figure="pools",
        paper=0.376,
    ),
    Statement(
        name="routing-rises-with-it",
        text="That jump is routing: attention of the final = in layer 2 on the values changes in the same moment",
        measure=m.measure_lag,
        unit="share of the training",
        figure="circuits_over_training",
    ),
    Statement(
        name="gradient",
        text="From addition to the jump the loss pulls the merged query-key matrix along the block that matches variables, more "
        "than along 99 % of shuffled blocks",
        measure=lambda found: m.measure_gradient(found, NULL_GRADIENT),
        unit="share of checkpoints",
        figure="gradient",
    ),
    Statement(
        name="addition-frozen",
        text="With addition frozen as it is before the jump, variables are looked up as soon: addition does not wait for binding",
        measure=lambda found: m.measure_frozen(found, "addition", "nothing", "untrained addition", NEVER),
        unit="ratio of steps",
        figure="independence",
    ),
    Statement(
        name="routing-frozen",
        text="With the look-up taken from a trained model and frozen, the rest is learnt no later than everything is",
        measure=lambda found: m.measure_frozen(found, "routing", "fresh", "untrained routing", NEVER),
        unit="ratio of steps",
        figure="independence",
    ),
    Statement(
        name="core-keep",
        text="A small core before the MLP, of either kind of sum, carries both: accuracy on held-out sums with the core alone",
        measure=lambda found: m.measure_core(found, "keep", RANDOM_KEEP),
        unit="accuracy",
        figure="core_edits",
        source=OURS,
    ),
    Statement(
        name="core-remove",
        text="Without it there is nothing left",
        measure=lambda found: m.measure_core(found, "remove", RANDOM_REMOVE),
        unit="accuracy",
        figure="core_edits",
        source=OURS,
    ),
    Statement(
        name="one-core",
        text="The core of sums of numbers and the core of sums of variables span one subspace",
        measure=m.measure_overlap,
        unit="overlap",
        figure="core_edits",
        source=OURS,
    ),
    Statement(
        name="core-carries",
        text="Coordinates of a sum of numbers, written into a sequence that adds other variables, become its answer",
        measure=lambda found: m.measure_carried(found, CHANCE_LIKE),
        unit="share of answers",
        figure="core_carried",
        source=OURS,
    ),
)
"""In the order of the report."""


def make_claims(
    config: Config, findings: Sequence[SeedFindings], independence: Sequence[IndependenceFindings], *, preset: str
) -> list[Claim]:
    """Every claim with its number.

    Args:
        config: what was run. findings: one a seed. independence: the trainings with frozen parts.
        preset: its name.
    """
    evidence = Evidence(config=config, seeds=tuple(findings), independence=tuple(independence))
    judged = [(statement, statement.measure(evidence)) for statement in STATEMENTS]
    return [_judged(statement, found, preset) for statement, found in judged if found is not None]


def _judged(statement: Statement, found: Measured, preset: str) -> Claim:
    return Claim(
        id=f"assign-add/{statement.name}",
        statement=statement.text,
        source=statement.source,
        unit=statement.unit,
        paper=statement.paper,
        mark=found.mark or MARKS[statement.name],
        measured=found.value,
        low=found.low,
        high=found.high,
        num=found.num,
        seeds=tuple(found.seeds),
        controls=tuple(found.controls),
        note=found.note,
        figure=statement.figure,
        preset=preset,
    )
