"""Figures hold the findings' numbers; every claim names one of them."""

from __future__ import annotations

import dataclasses

from experiments.language_cores.ideal_models import CONFIG, models
from invariscope.experiments.language_cores.claims import make_claims
from invariscope.experiments.language_cores.figures import make_figures

FIGURES = {figure.name: figure for figure in make_figures(models())}


def test_every_claim_names_a_figure_that_exists():
    named = {claim.figure for claim in make_claims(CONFIG, models(), preset="quick")} - {""}
    assert named <= set(FIGURES)
    assert set(FIGURES) == {"layers", "transfer", "margins-tiny-a", "margins-tiny-b", "coordinates", "onset"}


def test_curves_hold_cores_and_controls_at_every_layer():
    rows = [row for row in FIGURES["layers"].rows if row[0] == "tiny-a: flip"]
    assert [row[4] for row in rows if row[1] == "core, oblique"] == [0.9, 0.01, 0.01]
    assert {row[1]: row[2] for row in rows} == {
        "core, oblique": "core",
        "random": "control",
        "PCA": "control",
        "mean difference": "control",
        "core of the/of": "control",
    }


def test_transfer_stands_beside_the_objective_and_the_arbitrary_margin():
    names = [row[1] for row in FIGURES["transfer"].rows if row[0] == "tiny-b, layer 2: flip"]
    assert names[:3] == ["the objective", "transfer to were/was", "transfer to have/has"]
    assert "margin the/of under its own core" in names
    assert "core of the margin the/of, on ours" in names


def test_margins_and_coordinates_say_their_scores():
    texts = [note["text"] for note in FIGURES["margins-tiny-a"].plot["layout"]["annotations"]]
    assert "AUC 0.990, mean for the right answer +0.99" in texts
    assert any(text.startswith("AUC 0.010, mean for the right answer ") for text in texts)
    keys = [note["text"] for note in FIGURES["coordinates"].plot["layout"]["annotations"]]
    assert any("within classes 0.70" in text for text in keys)


def test_without_a_chosen_layer_the_curves_are_left():
    bare = [dataclasses.replace(one, detail=None, sweep=dataclasses.replace(one.sweep, chosen=None)) for one in models()]
    assert [figure.name for figure in make_figures(bare)] == ["layers", "onset"]
