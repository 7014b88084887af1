"""The figures of ``imir-competition``."""

from __future__ import annotations

from invariscope.experiments.imir_competition.config import Config
from invariscope.experiments.imir_competition.measure import Findings
from invariscope.figures import (
    AccuracyCurve,
    AccuracyCurves,
    Figure,
    ScalingLaw,
    ScalingLaws,
    draw_accuracy_curves,
    draw_scaling_laws,
)
from invariscope.numerics.power_law import fit_power_law

__all__ = ["make_figures"]


def make_figures(config: Config, found: Findings) -> list[Figure]:
    """Every figure, in the order of the report."""
    return [_relevance(config, found), _times(found), _bursts(found)]


def _relevance(config: Config, found: Findings) -> Figure:
    mixes = sorted((one for one in found.mixes if one.relevance > 0), key=lambda one: (one.relevance, one.rare_share))
    sizes = tuple(one.relevance for one in mixes)
    lines = {
        "with memory trained": {"α": "alpha", "β": "beta", "γ": "gamma"},
        "controls": {"α, memory in the attention (surrogate)": "surrogate", "α, no memory": "alpha_without"},
    }
    laws = [
        ScalingLaw(
            panel=panel,
            name=name,
            sizes=sizes,
            values=tuple(getattr(one, field) for one in mixes),
            role="core" if panel != "controls" or "surrogate" in name else "control",
        )
        for panel, names in lines.items()
        for name, field in names.items()
    ]
    laws += [ScalingLaw(panel=panel, name="f itself", sizes=sizes, values=sizes, role="control") for panel in lines]
    return draw_scaling_laws(
        ScalingLaws(
            laws=tuple(laws),
            title="What memory leaves to the context",
            x_title="f, questions that memory cannot answer",
            quantity="gradient over that of rare questions alone",
            note=f"Exact gradients at α = β = γ = {config.value:g}, over all mixes of rare and fresh questions.",
        ),
        name="relevance",
    )


def _times(found: Findings) -> Figure:
    pairs = sorted(zip(found.times.rare_shares, found.times.surrogate, found.times.competing, strict=True))
    shares = tuple(share for share, _, _ in pairs)
    laws = []
    for panel, index in (("memory in the attention (surrogate)", 1), ("memory in the output matrix, learnt meanwhile", 2)):
        values = tuple(pair[index] for pair in pairs)
        inverse = tuple(values[-1] * shares[-1] / share for share in shares)
        law = fit_power_law(shares, values)
        laws += [
            ScalingLaw(
                panel=panel,
                name="time until recall",
                sizes=shares,
                values=values,
                slope=law.slope,
                interval=(law.low, law.high),
            ),
            ScalingLaw(panel=panel, name="one over f_r", sizes=shares, values=inverse, role="control"),
        ]
    return draw_scaling_laws(
        ScalingLaws(
            laws=tuple(laws),
            title="The rarer, the later",
            x_title="f_r, share of rare questions",
            quantity="time until rare questions are answered",
            note="Nothing is drawn: the intervals say how far the times are from a power law.",
        ),
        name="times",
    )


def _bursts(found: Findings) -> Figure:
    curves = []
    for one in found.bursts:
        where = "with a mask" if one.causal else "without a mask"
        for name, values in (("α", one.alpha), ("β", one.beta), ("γ", one.gamma)):
            curves.append(AccuracyCurve(panel=f"gradients {where}", name=name, steps=one.copies, values=values))
        times = tuple(time / one.times[0] for time in one.times)
        curves.append(
            AccuracyCurve(panel=f"time until recall {where}", name="over that of one copy", steps=one.copies, values=times)
        )
    return draw_accuracy_curves(
        AccuracyCurves(
            curves=tuple(curves),
            title="Copies help, and then hurt",
            quantity="over one copy",
            unit_axis=False,
            x_title="copies of the pair that is asked for",
            subject="Gradients of the circuit, and time until contexts without copies are answered, over those of one copy.",
        ),
        name="bursts",
    )
