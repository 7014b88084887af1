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


def test_transfer_shows_every_edit_with_both_models_side_by_side():
    panels = list(dict.fromkeys(row[0] for row in FIGURES["transfer"].rows))
    assert panels == [f"{name}, layer 2: {edit}" for edit in ("keep", "remove", "flip") for name in ("tiny-a", "tiny-b")]
    keep = {row[1]: row[3:] for row in FIGURES["transfer"].rows if row[0] == "tiny-a, layer 2: keep"}
    assert keep["the objective"] == (0.99, 0.98, 1.0)
    assert keep["transfer to have/has"] == (0.99, 0.98, 1.0)
    assert keep["random of equal rank"][0] == 0.6
    assert keep["margin the/of under its own core"][0] == 0.99
    assert FIGURES["transfer"].columns[3] == "AUC"


def scored_by_accuracy(chances: tuple[float, float] = (0.4, 0.4)) -> list:
    """Models of three classes, or of one a prompt: only the margins of arbitrary tokens have two classes, and so an area."""

    def scored(effect, chance):
        right = dataclasses.replace(effect.accuracy, value=effect.accuracy.value / 2, chance=chance)
        arbitrary = effect.name.startswith("margin of")
        return dataclasses.replace(effect, accuracy=right, auc=effect.auc if arbitrary else None, transfers=())

    found = []
    for one, chance in zip(models(), chances, strict=True):
        layers = tuple(
            dataclasses.replace(layer, effects=tuple(scored(effect, chance) for effect in layer.effects))
            for layer in one.sweep.layers
        )
        found.append(dataclasses.replace(one, sweep=dataclasses.replace(one.sweep, layers=layers)))
    return found


def everything_said(figure) -> str:
    axes = [value["title"]["text"] for name, value in figure.plot["layout"].items() if "axis" in name and "title" in value]
    notes = [note["text"] for note in figure.plot["layout"]["annotations"]]
    return " ".join([figure.caption, figure.alt, *figure.columns, *axes, *notes])


def test_without_an_area_every_figure_shows_and_says_accuracy():
    figures = {figure.name: figure for figure in make_figures(scored_by_accuracy())}
    assert set(figures) == set(FIGURES)
    for figure in figures.values():
        assert "AUC" not in everything_said(figure), figure.name
        assert "under the curve" not in everything_said(figure), figure.name
    layers, transfer = figures["layers"], figures["transfer"]
    assert layers.columns[4] == transfer.columns[3] == "accuracy"
    assert layers.plot["layout"]["yaxis"]["title"]["text"] == transfer.plot["layout"]["xaxis"]["title"]["text"] == "accuracy"
    assert layers.caption.startswith("Accuracy under the edit named above each panel")
    assert transfer.caption.startswith("Accuracy under an edit of one layer.")
    assert transfer.title == "The core beside its controls"
    assert "other forms" not in transfer.caption
    found = {row[1]: row[3] for row in transfer.rows if row[0] == "tiny-a, layer 2: flip"}
    assert found["the objective"] == 0.01 / 2
    # Not the area that this row has alone: one axis has one quantity.
    assert found["margin the/of under its own core"] == 0.02 / 2
    assert not any(name.startswith("transfer to") for name in found)
    keys = [note["text"] for note in figures["margins-tiny-a"].plot["layout"]["annotations"]]
    assert any(text.startswith("accuracy 0.495, mean for the right answer") for text in keys)


def test_chance_of_an_accuracy_is_that_of_the_prompts_and_left_out_where_models_differ():
    assert "chance 0.5" in everything_said(FIGURES["layers"])
    for name in ("layers", "transfer"):
        same = next(figure for figure in make_figures(scored_by_accuracy()) if figure.name == name)
        assert "chance 0.4" in everything_said(same)
        assert "chance 0.5" not in everything_said(same)
        other = next(figure for figure in make_figures(scored_by_accuracy((0.4, 0.3))) if figure.name == name)
        assert "chance 0." not in everything_said(other)


def test_margins_and_coordinates_say_their_scores():
    texts = [note["text"] for note in FIGURES["margins-tiny-a"].plot["layout"]["annotations"]]
    assert "AUC 0.990, mean for the right answer +0.99" in texts
    assert any(text.startswith("AUC 0.010, mean for the right answer ") for text in texts)
    keys = [note["text"] for note in FIGURES["coordinates"].plot["layout"]["annotations"]]
    assert any("within classes 0.70" in text for text in keys)


def test_without_a_chosen_layer_the_curves_are_left():
    bare = [dataclasses.replace(one, detail=None, sweep=dataclasses.replace(one.sweep, chosen=None)) for one in models()]
    assert [figure.name for figure in make_figures(bare)] == ["layers", "onset"]
