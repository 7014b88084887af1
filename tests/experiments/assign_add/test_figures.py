"""Figures hold the findings' numbers; every claim names one of them."""

import dataclasses

from experiments.assign_add.tiny_study import STUDY, frozen_arms, ideal
from invariscope.experiments.assign_add.claims import make_claims
from invariscope.experiments.assign_add.config import PRESETS
from invariscope.experiments.assign_add.figures import SUMS, make_figures


def drawn(findings, independence=(), study=STUDY):
    return {figure.name: figure for figure in make_figures(study, findings, independence)}


def test_every_claim_names_a_figure_that_exists(tiny):
    arms = frozen_arms(STUDY.seeds)
    figures = drawn(tiny[1], arms)
    named = {claim.figure for claim in make_claims(STUDY, tiny[1], arms, preset="tiny")}
    # The tiny models have no gradient to speak of, and so no claim of it.
    assert named <= set(figures)
    everything = {
        *("pools", "phases", "mirror_leak", "circuits", "circuits_over_training", "attention", "identity", "cosines"),
        *("neurons", "score_terms", "independence", "core_edits", "core_carried"),
    }
    assert everything <= set(figures) <= everything | {"gradient"}
    ideals = [ideal(0), ideal(1)]
    named = {claim.figure for claim in make_claims(STUDY, ideals, arms, preset="tiny")}
    insides = {"attention", "identity", "cosines", "neurons", "circuits_over_training"}
    assert named <= set(drawn(ideals, arms)) | insides
    assert "gradient" in named


def test_what_a_preset_does_not_measure_is_not_drawn():
    study = dataclasses.replace(
        PRESETS["quick"], task=dataclasses.replace(STUDY.task, split="unordered"), seeds=(0,), core_sequences=0
    )
    figures = drawn([ideal(0, study=study, cores=None)], study=study)
    assert set(figures) == {"pools", "circuits"}


def test_pools_stand_in_the_panel_of_their_kind_with_a_band_over_seeds():
    worse = dict.fromkeys(STUDY.task.corners, (0.1, 0.4))
    rows = drawn([ideal(0), ideal(1, pools=worse), ideal(2)])["pools"].rows
    assert {row[0] for row in rows} == set(SUMS.values())
    assert ("held-out sums", "1 variable", 32, 1.0, 0.4, 1.0) in rows
    assert ("sums of training, forbidden places", "2 variables, 2 misplaced", 4, 0.1, 0.1, 0.1) in rows


def test_each_seed_has_its_own_phases():
    figure = drawn([ideal(0), ideal(1)])["phases"]
    bands = [shape for shape in figure.plot["layout"]["shapes"] if shape["type"] == "rect"]
    assert [(band["x0"], band["x1"]) for band in bands] == [(7, 9), (15, 17), (23, 25)] * 2
    assert "phases" not in drawn([ideal(0)])


def test_the_leak_sets_trained_swapped_and_unseen_apart():
    rows = {row[:2]: row[3] for row in drawn([ideal(0), ideal(1)])["mirror_leak"].rows}
    assert rows["0 variables", "trained"] == 0.999
    assert rows["0 variables", "held out in both orders"] == 0.97


def test_arms_stand_beside_what_they_are_compared_with():
    rows = drawn([ideal(0), ideal(1)], frozen_arms((0, 1)))["independence"].rows
    panels = {row[1]: row[0] for row in rows}
    assert panels["addition frozen"] == panels["nothing frozen"] == "addition is there"
    assert panels["routing frozen"] == panels["nothing frozen, fresh"] == "fresh weights"


def test_cores_and_what_they_carry():
    figures = drawn([ideal(0)])
    rows = {row[:2]: row[3] for row in figures["core_edits"].rows}
    assert rows["keep the core of sums of numbers", "core, on sums of variables"] == 0.98
    assert rows["remove the core of sums of variables", "random directions, on sums of numbers"] == 0.99
    assert "ranks of the two cores: 8 and 8; overlap of their spans: 0.950" in figures["core_edits"].caption
    assert [row[3] for row in figures["core_carried"].rows] == [0.97, 0.01, 0.9]
