"""The figures of language-model cores: findings put into the forms of :mod:`invariscope.figures`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from invariscope.cores.layer_sweep import ONSET_SHARE, LayerEffect
from invariscope.estimate import Estimate
from invariscope.experiments.language_cores.findings import LayerDetail, ModelFindings
from invariscope.figures import (
    Condition,
    ConditionDots,
    CoordinateScatter,
    Figure,
    LayerCurve,
    LayerCurves,
    MarginBars,
    MarginHistogram,
    ScatterPoints,
    draw_condition_dots,
    draw_coordinate_scatter,
    draw_layer_curves,
    draw_margin_histogram,
)

__all__ = ["make_figures"]

EDITS = ("keep", "remove", "flip")
TITLES = {
    "random": "random",
    "pca": "PCA",
    "gradient": "gradients",
    "mean_difference": "mean difference",
    "leace": "LEACE",
}
SHOWN_CONTROLS = ("random", "pca", "mean_difference")
"""On the curves; the table of transfer has all of them."""


def make_figures(models: Sequence[ModelFindings]) -> list[Figure]:
    """Every figure, in the order of the report."""
    detailed = [(model, model.detail) for model in models if model.detail is not None]
    return [
        _layers(models),
        *([_transfer(detailed)] if detailed else []),
        *(_margins(model, detail) for model, detail in detailed),
        *([_coordinates(detailed)] if detailed else []),
        _onset(models),
    ]


def _quantity(models: Sequence[ModelFindings]) -> str:
    has_auc = all(one.auc is not None for model in models for found in model.sweep.layers for one in found.effects)
    return "AUC" if has_auc else "accuracy"


def _chance(models: Sequence[ModelFindings], quantity: str) -> float | None:
    """One half of an area under the curve; of accuracies what their prompts say, None where models differ in it."""
    if quantity == "AUC":
        return 0.5
    found = {
        one.accuracy.chance for model in models for layer in model.sweep.layers for one in layer.effects if one.name == "core"
    }
    return found.pop() if len(found) == 1 else None


def _score(effect: LayerEffect, quantity: str) -> Estimate:
    return effect.auc if quantity == "AUC" and effect.auc is not None else effect.accuracy


def _layers(models: Sequence[ModelFindings]) -> Figure:
    quantity = _quantity(models)
    curves: list[LayerCurve] = []
    chosen = {}
    for model in models:
        for edit in EDITS:
            panel = f"{model.name}: {edit}"
            if model.sweep.chosen is not None:
                chosen[panel] = model.sweep.chosen
            lines = [(f"core, {projection}", "core", projection) for projection in model.sweep.projections]
            names = list(dict.fromkeys(one.name for found in model.sweep.layers for one in found.effects))
            lines += [(_title(name), name, "") for name in names if name in SHOWN_CONTROLS or name.startswith("core of")]
            for title, name, projection in lines:
                curve = _curve(model, panel, title, name, projection, edit, quantity)
                curves += [curve] if curve.layers else []
    return draw_layer_curves(
        LayerCurves(
            curves=tuple(curves),
            title="What an edit does, layer by layer",
            quantity=quantity,
            chance=_chance(models, quantity),
            chosen=chosen,
            note="Keep near 1, remove at chance and flip near 0 is a core; a control that does the same has found it too. Before "
            "the onset later attention reads the prompt again, so that even keeping a random direction scores high.",
        ),
        name="layers",
    )


def _curve(model: ModelFindings, panel: str, title: str, name: str, projection: str, edit: str, quantity: str) -> LayerCurve:
    found = [
        one
        for layer in model.sweep.layers
        for one in layer.effects
        if (one.name, one.projection, one.edit, one.rank) == (name, projection, edit, model.sweep.ranks[0])
    ]
    scores = [_score(one, quantity) for one in found]
    return LayerCurve(
        panel=panel,
        name=title,
        layers=tuple(one.layer for one in found),
        values=tuple(score.value for score in scores),
        lows=tuple(score.low for score in scores),
        highs=tuple(score.high for score in scores),
        role="core" if name == "core" else "control",
    )


def _title(name: str) -> str:
    return TITLES.get(name, name)


def _onset(models: Sequence[ModelFindings]) -> Figure:
    curves = tuple(
        LayerCurve(
            panel=model.name,
            name="share of the squared singular values",
            layers=tuple(found.layer for found in model.sweep.layers),
            values=tuple(found.share[0] for found in model.sweep.layers),
            lows=(None,) * len(model.sweep.layers),
            highs=(None,) * len(model.sweep.layers),
        )
        for model in models
    )
    return draw_layer_curves(
        LayerCurves(
            curves=curves,
            title="How much of H J\u1d40 the core's directions carry",
            quantity="share",
            chance=ONSET_SHARE,
            chance_label="threshold",
            subject="Share of the squared singular values that the core's rank carries, against the layer whose output is read",
            chosen={model.name: model.sweep.chosen for model in models if model.sweep.chosen is not None},
            note=f"The dashed line is the rule's {ONSET_SHARE:g}; the layer taken is the first from which on the share is above.",
        ),
        name="onset",
    )


def _transfer(detailed: Sequence[tuple[ModelFindings, LayerDetail]]) -> Figure:
    models = [model for model, _ in detailed]
    quantity = _quantity(models)
    chance = _chance(models, quantity)
    # Of transfers there are areas only.
    transfers = quantity == "AUC" and any(model.sweep.transfers for model in models)
    dots: list[Condition] = []
    # An edit a row, so that two models stand side by side.
    for edit in EDITS:
        for model, detail in detailed:
            sweep = model.sweep
            panel = f"{model.name}, layer {detail.layer}: {edit}"
            core = sweep.effect(detail.layer, edit, projection=detail.projection, rank=detail.rank)
            dots.append(_dot(panel, "the objective", _score(core, quantity), core=True))
            dots += [
                _dot(panel, f"transfer to {name}", found, core=True)
                for name, found in zip(sweep.transfers if transfers else (), core.transfers, strict=False)
            ]
            others = [
                one
                for one in sweep.at(detail.layer).effects
                if one.edit == edit and one.name not in ("model", "core") and one.rank == detail.rank
            ]
            dots += [_dot(panel, _control_title(one.name), _score(one, quantity), core=False) for one in others]
    subject = "Area under the curve" if quantity == "AUC" else "Accuracy"
    forms = " and on other forms of the same classes, which no core was extracted from" if transfers else ""
    return draw_condition_dots(
        ConditionDots(
            dots=tuple(dots),
            references={} if chance is None else {"chance": chance},
            title="Does the core turn answers that it was not made from?" if transfers else "The core beside its controls",
            caption=f"{subject} under an edit of one layer. Filled: the core, on its own objective{forms}. Open: controls of "
            "equal rank on the objective; the core of a margin of two arbitrary tokens on ours; and that margin under its own "
            "core: how much of keep, remove and flip is algebra at a late layer.",
            quantity=quantity,
            unit="",
            columns=2,
            span=(-0.05, 1.05),
        ),
        name="transfer",
    )


def _control_title(name: str) -> str:
    if name.startswith("core of "):
        return f"core of the margin {name.removeprefix('core of ')}, on ours"
    if name.startswith("margin of "):
        return f"margin {name.removeprefix('margin of ')} under its own core"
    return f"{_title(name)} of equal rank"


def _dot(panel: str, name: str, value: Estimate, *, core: bool) -> Condition:
    return Condition(
        panel=panel, name=name, value=value.value, low=value.low, high=value.high, role="core" if core else "control"
    )


def _margins(model: ModelFindings, detail: LayerDetail) -> Figure:
    titles = {"full": "unedited"}
    keys = {}
    for edit in dict.fromkeys(one.edit for one in detail.histograms):
        name = "model" if edit == "full" else "core"
        projection = "" if edit == "full" else detail.projection
        found = [
            one
            for one in model.sweep.at(detail.layer).effects
            if (one.name, one.projection, one.edit) == (name, projection, edit)
        ]
        if found:
            score = f"{'AUC' if found[0].auc is not None else 'accuracy'} {found[0].score.value:.3f}"
            keys[titles.get(edit, edit)] = f"{score}, mean for the right answer {found[0].margin.value:+.2f}"
    return draw_margin_histogram(
        MarginHistogram(
            edges=detail.edges,
            bars=tuple(
                MarginBars(panel=titles.get(one.edit, one.edit), label=one.label, counts=one.counts) for one in detail.histograms
            ),
            title=f"Margins in {model.name}, layer {detail.layer}",
            unit="logits",
            keys=keys,
            note=f"{detail.projection.capitalize()} core of rank {detail.rank}.",
        ),
        name=f"margins-{_file_name(model.name)}",
    )


def _coordinates(detailed: Sequence[tuple[ModelFindings, LayerDetail]]) -> Figure:
    points: list[ScatterPoints] = []
    keys = {}
    for model, detail in detailed:
        panel = f"{model.name}, layer {detail.layer}"
        for label in dict.fromkeys(label for _, _, label in detail.points):
            own = [(x, y) for x, y, at in detail.points if at == label]
            points.append(ScatterPoints(panel=panel, label=label, x=tuple(x for x, _ in own), y=tuple(y for _, y in own)))
        found = model.sweep.at(detail.layer)
        if detail.projection in found.r2:
            within = found.within.get(detail.projection)
            inside = "" if within is None else f", within classes {within.value:.2f}"
            keys[panel] = f"R\u00b2 {found.r2[detail.projection].value:.2f}{inside}"
    return draw_coordinate_scatter(
        CoordinateScatter(
            points=tuple(points),
            title="The coordinate says how strongly the model will answer",
            x_title="core coordinate",
            y_title="margin (logits)",
            keys=keys,
            note="R\u00b2 is held out by group.",
        ),
        name="coordinates",
    )


def _file_name(name: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-") or "model"
