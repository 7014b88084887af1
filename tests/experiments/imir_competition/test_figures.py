"""Figures hold the findings' numbers; every claim names one of them."""

from experiments.imir_competition.tiny import TINY, findings
from invariscope.experiments.imir_competition.claims import make_claims
from invariscope.experiments.imir_competition.figures import make_figures


def test_figures_and_claims_belong_together():
    found = findings()
    figures = {figure.name: figure for figure in make_figures(TINY, found)}
    assert {claim.figure for claim in make_claims(TINY, found, preset="tiny")} == set(figures)
    mix = found.mixes[1]
    assert ("with memory trained", "β", mix.relevance, mix.beta) in figures["relevance"].rows
    assert ("controls", "α, no memory", mix.relevance, mix.alpha_without) in figures["relevance"].rows
    assert ("memory in the attention (surrogate)", "time until recall", 0.1, found.times.surrogate[2]) in figures["times"].rows
    assert "memory in the attention (surrogate), time until recall: slope -0.9999 [-1.0002, -0.9995]" in figures["times"].caption
    ratio = found.bursts[1].times[2] / found.bursts[1].times[0]
    assert ("time until recall with a mask", "over that of one copy", 4, ratio, None, None) in figures["bursts"].rows
