"""Figures hold the findings' numbers; every claim names one of them."""

import math

import pytest

from experiments.imir_confinement.tiny import TINY, findings
from invariscope.experiments.imir_confinement.claims import make_claims
from invariscope.experiments.imir_confinement.figures import make_figures


def test_figures_and_claims_belong_together():
    found = findings()
    figures = {figure.name: figure for figure in make_figures(TINY, found)}
    assert {claim.figure for claim in make_claims(TINY, found, preset="tiny")} == set(figures)
    rows = {row[1]: row[3] for row in figures["offspan"].rows}
    assert rows["recall"] == pytest.approx(math.log10(max(found.confined[0].shares)))
    assert rows["Zipf tokens"] == pytest.approx(math.log10(max(found.broken[2].shares)))
    assert figures["noise"].rows[0][2:] == (4096, found.sampled.shares[0])
    assert figures["descent"].rows[-1][3] == found.descent_losses[20]
    low, high = sorted(one.outside[-1] for one in found.attraction if one.optimiser == "Adam")
    assert ("squared norm outside", "Adam", 20, (low + high) / 2, low, high) in figures["attraction"].rows
