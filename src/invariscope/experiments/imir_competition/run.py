"""Run the study: one job measures everything, and claims and figures follow from it."""

from __future__ import annotations

from invariscope.experiments.imir_competition.claims import make_claims
from invariscope.experiments.imir_competition.figures import make_figures
from invariscope.experiments.imir_competition.measure import Findings
from invariscope.experiments.one_job import OneJobStudy

__all__ = ["run"]

run = OneJobStudy(
    name="imir-competition",
    job="invariscope.experiments.imir_competition.measure:measure_job",
    findings=Findings,
    make_claims=make_claims,
    make_figures=make_figures,
).run
