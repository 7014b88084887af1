"""Figures hold the findings' numbers; every claim names one of them."""

from experiments.imir_dynamics.tiny import TINY, findings
from invariscope.experiments.imir_dynamics.claims import make_claims
from invariscope.experiments.imir_dynamics.figures import make_figures


def test_figures_and_claims_belong_together():
    found = findings()
    figures = {figure.name: figure for figure in make_figures(TINY, found)}
    assert {claim.figure for claim in make_claims(TINY, found, preset="tiny")} <= set(figures)
    assert set(figures) == {"coordinates", "accuracy", "context", "beginnings"}
    last = found.trajectories[1].moments[-1]
    assert ("seed 1", "α, previous token", 40, last.circuits[0], None, None) in figures["coordinates"].rows
    assert [frame.label.split(":")[0] for frame in figures["coordinates"].frames] == [
        f"Step {moment.step}" for moment in found.trajectories[0].moments
    ]
    assert ("induction circuit", "time until recall", 8.0, found.emergence[2]) in figures["context"].rows
    assert figures["beginnings"].plot["data"][0]["z"][0] == list(found.grid[-1])
