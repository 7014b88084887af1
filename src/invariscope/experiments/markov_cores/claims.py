"""The claims of ``markov-cores`` and the marks that they are judged by, written down before the runs.

Cross-entropies are exact expectations under the chain's law. How each number is found stands in ``measured.py`` and
``measured_further.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from invariscope.experiments.markov_cores import measured as m
from invariscope.experiments.markov_cores.config import FOUR_STATES, TWELVE_STATES
from invariscope.experiments.markov_cores.findings import Findings
from invariscope.experiments.markov_cores.measured_further import (
    measure_belief,
    measure_belief_written,
    measure_paper_cca,
    measure_paper_keep,
    measure_paper_rank,
    measure_paper_spectrum,
    measure_size,
)
from invariscope.experiments.worst import Measured
from invariscope.storage.claims import Claim, Mark

__all__ = ["MARKS", "make_claims"]

PAPER, OURS = "arXiv:2602.22600", "this project"

MARKS = {
    "rank-resid-mid": Mark(kind="within", target=3, tolerance=0),
    "keep-resid-mid": Mark(kind="at_most", target=0.002),
    "remove-resid-mid": Mark(kind="at_least", target=0.98),
    "rank-12-state": Mark(kind="within", target=3, tolerance=0),
    "cca-12-state": Mark(kind="at_least", target=0.98),
    "cca-within-groups": Mark(kind="at_least", target=0.94),
    "transplant": Mark(kind="at_most", target=0.005),
    "transplant-hidden": Mark(kind="at_most", target=0.005),
    "rank-2-control": Mark(kind="within", target=2, tolerance=0),
    "spectrum": Mark(kind="at_most", target=0.03),
    "spectrum-against-controls": Mark(kind="at_most", target=1 / 3),
    "belief-state": Mark(kind="at_least", target=0.9),
    "belief-transplant": Mark(kind="at_most", target=0.005),
    "paper-rank": Mark(kind="within", target=3, tolerance=0),
    "paper-keep": Mark(kind="at_most", target=0.001),
    "paper-spectrum-pair": Mark(kind="at_most", target=0.02),
    "paper-spectrum-real": Mark(kind="at_most", target=0.03),
    "paper-cca": Mark(kind="at_least", target=0.9),
    "rank-against-size": Mark(kind="within", target=3, tolerance=0),
    "weight-cosine": Mark(kind="at_most", target=0.05),
    "near-optimal": Mark(kind="at_most", target=0.003),
    "by-construction-final-norm": Mark(kind="at_most", target=0.001),
}
"""By claim, for the preset quick. That of ``overlap`` is the central 95 % of random pairs of equal rank and dimension."""

STRICTER = {
    "standard": {
        "cca-12-state": Mark(kind="at_least", target=0.99),
        "cca-within-groups": Mark(kind="at_least", target=0.97),
        "spectrum": Mark(kind="at_most", target=0.02),
    }
}
"""By preset and claim, where longer training and more seeds ask for more."""

ACTIVATION_KEEP = Mark(kind="at_most", target=0.01)
UNTRAINED_SMALLEST = Mark(kind="at_most", target=0.5)
UNTRAINED_MEAN = Mark(kind="at_most", target=0.65)
UNTRAINED_WITHIN = Mark(kind="at_most", target=0.25)
TRANSPLANT_CONTROL = Mark(kind="at_least", target=0.2)
TRANSPLANT_PAIR = Mark(kind="at_least", target=0.8)
BELIEF_FINAL_NORM = Mark(kind="at_least", target=0.98)
BELIEF_CONTROL = Mark(kind="at_least", target=0.05)
GAP_RULE = Mark(kind="within", target=2, tolerance=0)
THIRD_CCA = Mark(kind="at_most", target=0.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What is claimed, and how it is measured.

    Args:
        name: the claim's id without the study's name.
        text: the statement.
        measure: from findings to its number.
        unit: of the number and of the mark.
        figure: the one that shows it.
        source: where the claim comes from. paper: the paper's number.
        applies: whether the run measures it at all.
        by_construction: true of any model.
    """

    name: str
    text: str
    measure: Callable[[Findings], Measured]
    unit: str
    figure: str
    source: str = PAPER
    paper: float | None = None
    by_construction: bool = False
    applies: Callable[[Findings], bool] = lambda findings: bool(findings.models)


STATEMENTS = (
    Statement(
        name="rank-resid-mid",
        text="After attention, where nothing bounds the rank, the core of a 4-state chain has 3 directions: sufficient and "
        "necessary",
        measure=lambda findings: m.measure_rank(findings, FOUR_STATES, MARKS["rank-resid-mid"].target),
        unit="directions",
        figure="rank_curve",
        paper=3.0,
    ),
    Statement(
        name="keep-resid-mid",
        text="Keeping the core alone after attention leaves the cross-entropy as it is",
        measure=lambda findings: m.measure_keep(findings, activation_mark=ACTIVATION_KEEP),
        unit="nats",
        figure="ablation_bars",
    ),
    Statement(
        name="remove-resid-mid",
        text="Removing the core after attention leads all the way to the stationary law",
        measure=m.measure_remove,
        unit="share of the way",
        figure="ablation_bars",
    ),
    Statement(
        name="rank-12-state",
        text="A 12-state chain whose log has rank 3 also gets a core of 3 directions, not of 11: sufficient and necessary",
        measure=lambda findings: m.measure_rank(findings, TWELVE_STATES, MARKS["rank-12-state"].target),
        unit="directions",
        figure="rank_curve",
        source=OURS,
    ),
    Statement(
        name="cca-12-state",
        text="Two seeds of the 12-state chain carry the same three coordinates, up to a linear map",
        measure=lambda findings: m.measure_cca(findings, smallest_mark=UNTRAINED_SMALLEST, mean_mark=UNTRAINED_MEAN),
        unit="correlation",
        figure="similarity_bars",
    ),
    Statement(
        name="cca-within-groups",
        text="The coordinates agree inside each group of states too, where a mere group label says nothing",
        measure=lambda findings: m.measure_cca_within(findings, untrained_mark=UNTRAINED_WITHIN),
        unit="correlation",
        figure="similarity_bars",
        source=OURS,
    ),
    Statement(
        name="transplant",
        text="Coordinates of one seed's core, mapped by one affine map, run the other seed's model on a donor's input",
        measure=lambda findings: m.measure_transplant(
            findings.transplants, control_mark=TRANSPLANT_CONTROL, pair_mark=TRANSPLANT_PAIR
        ),
        unit="nats above base",
        figure="transplant",
        source=OURS,
    ),
    Statement(
        name="transplant-hidden",
        text="So do those of a hidden chain, where they carry a belief about what nobody sees",
        # Chance lies .17 nats above the optimum here: the controls' mark is that of the written belief.
        measure=lambda findings: m.measure_transplant(
            findings.hidden_transplants, control_mark=BELIEF_CONTROL, pair_mark=BELIEF_CONTROL
        ),
        unit="nats above base",
        figure="transplant_hidden",
        source=OURS,
        applies=lambda findings: bool(findings.hidden_transplants),
    ),
    Statement(
        name="rank-2-control",
        text="Where two of the four states share a row, the core has 2 directions, and a third has nothing in common between "
        "seeds",
        measure=lambda findings: m.measure_rank_two(findings, gap_rule=GAP_RULE, third_cca=THIRD_CCA),
        unit="directions",
        figure="similarity_bars",
        source=OURS,
    ),
    Statement(
        name="belief-state",
        text="A model of a hidden chain carries the exact Bayes belief in a core of 2 directions: an internal model of the "
        "world, not a copy of the token",
        measure=lambda findings: measure_belief(findings, final_norm_mark=BELIEF_FINAL_NORM),
        unit="hold-out R²",
        figure="beliefs",
        source=OURS,
        applies=lambda findings: bool(findings.beliefs),
    ),
    Statement(
        name="belief-transplant",
        text="Written into the core with nothing else left at the site, the exact belief predicts as well as the model's own "
        "coordinates",
        measure=lambda findings: measure_belief_written(findings, control_mark=BELIEF_CONTROL),
        unit="nats above own coordinates",
        figure="belief_transplant",
        source=OURS,
        applies=lambda findings: bool(findings.beliefs),
    ),
    Statement(
        name="rank-against-size",
        text="The core does not grow with the model: 3 directions over widths 16 to 256, 1 to 8 heads, one and two layers",
        measure=lambda findings: measure_size(findings, MARKS["rank-against-size"].target),
        unit="directions",
        figure="sizes",
        applies=lambda findings: bool(findings.sizes),
    ),
    Statement(
        name="spectrum",
        text="The operator fitted in the core has the chain's eigenvalues: the largest error",
        measure=m.measure_spectrum,
        unit="distance",
        figure="eigenvalues",
        paper=0.02,
    ),
    Statement(
        name="spectrum-against-controls",
        text="That error is at most a third of what an untrained core and random subspaces give for nothing",
        measure=m.measure_spectrum_ratio,
        unit="ratio",
        figure="eigenvalues",
        source=OURS,
    ),
    Statement(
        name="overlap",
        text="The subspaces of two seeds lie as chance would have it: no more orthogonal than random ones of equal rank",
        measure=m.measure_overlap,
        unit="overlap",
        figure="similarity_bars",
        paper=0.029,
    ),
    Statement(
        name="weight-cosine",
        text="The weights of two seeds have nothing in common: the largest absolute cosine, matrices only",
        measure=m.measure_weight_cosine,
        unit="cosine",
        figure="similarity_bars",
        paper=0.04,
    ),
    Statement(
        name="near-optimal",
        text="The models have learnt their chains: Kullback-Leibler divergence from the true law",
        measure=m.measure_divergence,
        unit="nats",
        figure="training_curves",
        source=OURS,
    ),
    Statement(
        name="by-construction-final-norm",
        text="True by construction: before a linear readout of 4 outputs 3 directions keep the logits of any model",
        measure=m.keep_by_construction,
        unit="nats",
        figure="ablation_bars",
        by_construction=True,
    ),
    *(
        Statement(
            name=name,
            text=text,
            measure=measure,
            unit=unit,
            figure=figure,
            paper=paper,
            applies=lambda findings: bool(findings.paper),
            by_construction=name in ("paper-rank", "paper-keep"),
        )
        for name, text, measure, unit, figure, paper in (
            (
                "paper-rank",
                "By construction at most 3, and so it is: the paper's rank by .999 of the energy at the layer's output",
                measure_paper_rank,
                "directions",
                "paper_spectrum",
                3.0,
            ),
            (
                "paper-keep",
                "By construction before a readout of four outputs: keeping the core alone keeps the accuracy",
                measure_paper_keep,
                "accuracy",
                "paper_spectrum",
                0.0,
            ),
            (
                "paper-spectrum-pair",
                "The operator in the core has the chain's complex pair .75 ± .25i",
                lambda findings: measure_paper_spectrum(findings, pair=True),
                "distance",
                "paper_spectrum",
                0.0,
            ),
            (
                "paper-spectrum-real",
                "And its real eigenvalue .5",
                lambda findings: measure_paper_spectrum(findings, pair=False),
                "distance",
                "paper_spectrum",
                0.02,
            ),
            (
                "paper-cca",
                "The coordinates of two seeds agree up to a linear map",
                measure_paper_cca,
                "correlation",
                "paper_spectrum",
                0.92,
            ),
        )
    ),
)
"""In the order of the report."""


def make_claims(findings: Findings, *, preset: str) -> list[Claim]:
    """Every claim with its number.

    Args:
        findings: what was measured.
        preset: its name.
    """
    return [_judged(statement, statement.measure(findings), preset) for statement in STATEMENTS if statement.applies(findings)]


def _judged(statement: Statement, found: Measured, preset: str) -> Claim:
    return Claim(
        id=f"markov-cores/{statement.name}",
        statement=statement.text,
        source=statement.source,
        unit=statement.unit,
        paper=statement.paper,
        mark=found.mark or STRICTER.get(preset, {}).get(statement.name) or MARKS[statement.name],
        measured=found.value,
        low=found.low,
        high=found.high,
        num=found.num,
        seeds=tuple(found.seeds),
        controls=tuple(found.controls),
        note=found.note,
        figure=statement.figure,
        preset=preset,
        by_construction=statement.by_construction,
    )
