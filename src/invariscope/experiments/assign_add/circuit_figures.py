"""What is drawn of circuits: their measures at the end and over training, and the first seed's insides."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

from invariscope.circuits import CircuitMeasures
from invariscope.estimate import Estimate
from invariscope.experiments.assign_add.findings import CircuitAtStep, Pictures, SeedFindings
from invariscope.figures import (
    AccuracyCurve,
    AccuracyCurves,
    Condition,
    ConditionDots,
    Figure,
    HeatMap,
    HeatMaps,
    ValueBars,
    ValueHistogram,
    draw_accuracy_curves,
    draw_condition_dots,
    draw_heat_maps,
    draw_value_histogram,
)
from invariscope.figures.marks import Role

__all__ = ["circuit_figures"]

SHARES = {
    "attn1_equal_to_operands": "layer 1: = attends to its operands",
    "number_to_own_variable": "layer 1: a number attends to its own variable",
    "attn2_equal_to_values": "layer 2: = attends to what its operands stand for",
    "qk2_ov1_variable_identity": "layer 2 matches each variable with itself",
    "own_variable_probe_after": "probe for a number's own variable after layer 1",
    "patched_attention": "answers that follow patched attention output",
    "ov2_mlp2_accuracy": "sums by embeddings, OV2 and MLP2 alone",
    "without_mlp2_accuracy": "accuracy without MLP2",
    "frequency_share": "a neuron's share of one frequency",
}
"""Shares in [0, 1] that are drawn beside those of untrained models, from above."""
SITES = {
    "blocks.1.resid_mid": "residual stream before MLP2",
    "blocks.1.mlp_pre": "pre-activations of MLP2",
    "blocks.1.mlp_out": "output of MLP2",
}
FOLLOWED = tuple(field.name for field in dataclasses.fields(CircuitAtStep) if field.name != "step")


def circuit_figures(findings: Sequence[SeedFindings]) -> list[Figure]:
    """The measures of all seeds, and what the first of them looks like inside."""
    [pictures] = [one.pictures for one in findings if one.pictures is not None][:1] or [None]
    followed = [one for one in findings if one.circuits]
    return [
        _measures(findings),
        *([_over_training(followed)] if followed else []),
        *(_insides(pictures) if pictures is not None else []),
    ]


def _insides(pictures: Pictures) -> list[Figure]:
    return [
        _attention(pictures),
        _identity(pictures),
        _cosines(pictures),
        *([_neurons(pictures)] if pictures.neurons else []),
        _terms(pictures),
    ]


def _measures(findings: Sequence[SeedFindings]) -> Figure:
    dots = []
    roles: dict[str, Role] = {"trained": "core", "untrained": "control"}
    for panel, role in roles.items():
        for name, text in SHARES.items():
            found = [_measure(one.measures if panel == "trained" else one.untrained, name) for one in findings]
            known = [estimate for estimate in found if estimate is not None]
            if not known:
                continue
            values = [estimate.value for estimate in known]
            several = len(values) > 1
            dots.append(
                Condition(
                    panel=panel,
                    name=text,
                    value=statistics.median(values),
                    low=min(values) if several else known[0].low,
                    high=max(values) if several else known[0].high,
                    role=role,
                )
            )
    return draw_condition_dots(
        ConditionDots(
            dots=tuple(dots),
            title="The circuit, part by part",
            caption="Each part's own measure in the trained models and in the same models before training"
            + ("; medians over seeds, with bars from the lowest to the highest." if len(findings) > 1 else ", with intervals."),
            quantity="share",
            unit="",
            columns=2,
            span=(-0.05, 1.05),
        ),
        name="circuits",
    )


def _measure(measures: CircuitMeasures, name: str) -> Estimate | None:
    return getattr(measures, name)


def _over_training(findings: Sequence[SeedFindings]) -> Figure:
    one = len(findings) == 1
    curves = []
    for found in findings:
        panel = "of layer 1 and layer 2" if one else f"seed {found.seed}"
        steps = tuple(at.step for at in found.circuits)
        curves += [
            AccuracyCurve(panel=panel, name=SHARES[name], steps=steps, values=tuple(getattr(at, name) for at in found.circuits))
            for name in FOLLOWED
        ]
        held = AccuracyCurve(
            panel=panel,
            name="accuracy on held-out sums with one variable",
            steps=found.steps,
            values=found.pools["1var-held"],
            role="control",
        )
        curves.append(held)
    return draw_accuracy_curves(
        AccuracyCurves(
            curves=tuple(curves),
            title="Circuits over training",
            quantity="share",
            subject="Each circuit's measure at every checkpoint, and the accuracy that needs all of them.",
            columns=1 if one else 2,
        ),
        name="circuits_over_training",
    )


def _attention(pictures: Pictures) -> Figure:
    tokens = pictures.attention[0].tokens
    return draw_heat_maps(
        HeatMaps(
            maps=(
                HeatMap(
                    panel="layer 1",
                    rows=tokens,
                    columns=tokens,
                    values=tuple(_upper_blank(one.first) for one in pictures.attention),
                    rows_title="from",
                    columns_title="to",
                ),
                HeatMap(
                    panel="from the final =",
                    rows=tokens,
                    columns=("layer 1", "layer 2"),
                    values=tuple(tuple(zip(one.first[-1], one.last, strict=True)) for one in pictures.attention),
                    rows_title="to",
                ),
            ),
            title="Attention in one sequence",
            quantity="attention",
            limits=(0.0, 1.0),
            steps=tuple(one.step for one in pictures.attention),
            square=False,
            note="In layer 1 each number attends to its variable and the final = to both operands; in layer 2 it attends to the "
            "numbers that they stand for.",
        ),
        name="attention",
    )


def _upper_blank(rows: Sequence[Sequence[float]]) -> tuple[tuple[float | None, ...], ...]:
    # What comes later is not attended to: blank, not nought.
    return tuple(tuple(value if key <= query else None for key, value in enumerate(row)) for query, row in enumerate(rows))


def _identity(pictures: Pictures) -> Figure:
    names = pictures.variables
    return draw_heat_maps(
        HeatMaps(
            maps=(
                HeatMap(
                    panel="score",
                    rows=names,
                    columns=names,
                    values=(pictures.identity,),
                    rows_title="variable in the sum",
                    columns_title="variable assigned",
                ),
            ),
            title="Layer 2 matches each variable with itself",
            quantity="score",
            scale="diverging",
            columns=1,
            subject="Scores of layer 2 between what layer 1 writes of one variable into = (rows) and of another into its number "
            "(columns), before they are divided by the square root of the head's width.",
        ),
        name="identity",
    )


def _cosines(pictures: Pictures) -> Figure:
    bars = []
    for one in pictures.cosines:
        panel = SITES[one.site]
        bars += [
            ValueBars(panel=panel, label="the same sum, of numbers and of variables", counts=one.matched_counts),
            ValueBars(panel=panel, label="sums that do not belong together", counts=one.shuffled_counts, role="control"),
        ]
    return draw_value_histogram(
        ValueHistogram(
            edges=pictures.cosines[0].edges,
            bars=tuple(bars),
            title="A sum of numbers and the same sum of variables",
            quantity="cosine",
            counted="pairs",
            keys={SITES[one.site]: f"means {one.matched.value:.3f} and {one.shuffled.value:.3f}" for one in pictures.cosines},
            columns=3,
        ),
        name="cosines",
    )


def _neurons(pictures: Pictures) -> Figure:
    size = len(pictures.neurons[0].values)
    numbers = tuple(str(value) for value in range(size))
    return draw_heat_maps(
        HeatMaps(
            maps=tuple(
                HeatMap(
                    panel=f"neuron {one.neuron}",
                    rows=numbers,
                    columns=numbers,
                    values=(one.values,),
                    rows_title="left number",
                    columns_title="right number",
                    key=f"frequency {one.frequency}: share {one.share:.2f}",
                )
                for one in pictures.neurons
            ),
            title="Neurons that add are waves",
            quantity="pre-activation",
            scale="diverging",
            own_limits=True,
            subject="Pre-activation of some neurons of the MLP over all sums of two numbers, centred over each map.",
        ),
        name="neurons",
    )


def _terms(pictures: Pictures) -> Figure:
    sources = pictures.terms[0].sources
    return draw_heat_maps(
        HeatMaps(
            maps=(
                HeatMap(
                    panel="what the score on the right number rests on",
                    rows=sources,
                    columns=sources,
                    values=tuple(one.terms for one in pictures.terms),
                    rows_title="written into =",
                    columns_title="written into the number",
                ),
            ),
            title="Where layer 2's scores come from",
            quantity="score",
            scale="diverging",
            steps=tuple(one.step for one in pictures.terms),
            columns=1,
            subject="Score of the final = on the right number less that on the other assigned numbers, split by what was written "
            "where.",
        ),
        name="score_terms",
    )
