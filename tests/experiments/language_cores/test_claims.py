"""Every claim's mark can fail, one bad layer of one model is enough, and controls that know too much are a caveat."""

from __future__ import annotations

import dataclasses

import pytest

from experiments.language_cores.ideal_models import CONFIG, model, models
from invariscope.experiments.language_cores.claims import MARKS, make_claims

ALWAYS = set(MARKS) - {"onset"}


def verdicts(found, config=CONFIG) -> dict[str, str]:
    return {claim.id.removeprefix("agreement/"): claim.verdict for claim in make_claims(config, found, preset="quick")}


def test_all_is_reproduced_where_all_is_well_and_onset_needs_every_layer():
    assert verdicts(models()) == dict.fromkeys(ALWAYS, "reproduced")


@pytest.mark.parametrize(
    ("claim", "changes"),
    [
        ("keep", {"changes": {("core", "keep"): 0.9}}),
        ("flip", {"changes": {("core", "flip"): 0.1}}),
        ("remove", {"changes": {("core", "remove"): 0.7}}),
        ("remove", {"changes": {("core", "remove"): 0.3}}),
        ("coordinate", {"r2": 0.5}),
        ("stability", {"halves": 0.9}),
        ("same-numbers", {"deviation": 2e-5}),
    ],
)
def test_one_bad_layer_is_enough(claim, changes):
    assert verdicts(models(**changes)) == dict.fromkeys(ALWAYS, "reproduced") | {claim: "not reproduced"}


@pytest.mark.parametrize(("edit", "value", "claim"), [("flip", 0.3, "transfer-flip"), ("remove", 0.8, "transfer-remove")])
def test_transfer_is_judged_where_it_is_asked_for(edit, value, claim):
    spoiled = [model("tiny-a", (1, 2, 3), at=2, changes={("transfer", edit): value}), model("tiny-b", (1, 2))]
    assert verdicts(spoiled)[claim] == "not reproduced"
    elsewhere = [model("tiny-a", (1, 2, 3), at=3, changes={("transfer", edit): value}), model("tiny-b", (1, 2))]
    assert verdicts(elsewhere)[claim] == "reproduced"


@pytest.mark.parametrize(
    ("claim", "changes"),
    [
        ("keep", {("random", "keep"): 0.98}),
        ("flip", {("random", "flip"): 0.5}),
        ("flip", {("pca", "flip"): 0.5}),
        ("flip", {("core of the/of", "flip"): 0.5}),
    ],
)
def test_a_control_that_does_the_same_is_a_caveat(claim, changes):
    assert verdicts(models(changes=changes))[claim] == "reproduced with caveat"


def test_an_interval_that_contains_chance_is_at_chance():
    claims = {claim.id: claim for claim in make_claims(CONFIG, models(), preset="quick")}
    # .52 with an interval from .51 on does not contain it.
    assert claims["agreement/remove"].measured == pytest.approx(0.02)
    alone = dataclasses.replace(CONFIG, models=CONFIG.models[1:])
    nearer = make_claims(alone, models(changes={("core", "remove"): 0.505})[1:], preset="quick")
    assert {claim.id: claim.measured for claim in nearer}["agreement/remove"] == 0


def test_the_rule_s_layer_is_held_against_the_first_flip_where_every_layer_was_swept():
    every = dataclasses.replace(CONFIG, models=tuple(dataclasses.replace(one, layers=()) for one in CONFIG.models))
    good = [model("tiny-a", (0, 1, 2, 3)), model("tiny-b", (0, 1, 2, 3))]
    assert verdicts(good, every)["onset"] == "reproduced"
    late = [good[0], model("tiny-b", (0, 1, 2, 3, 4, 5), chosen=5)]
    assert verdicts(late, every)["onset"] == "not reproduced"


def test_a_model_without_a_layer_is_not_measured():
    free = tuple(dataclasses.replace(one, judged=(), transfer=None) for one in CONFIG.models)
    config = dataclasses.replace(CONFIG, models=free)
    none = [dataclasses.replace(one, sweep=dataclasses.replace(one.sweep, chosen=None), detail=None) for one in models()]
    found = verdicts(none, config)
    assert {found[name] for name in ("keep", "flip", "remove", "coordinate", "stability")} == {"not measured"}
    assert "transfer-flip" not in found
