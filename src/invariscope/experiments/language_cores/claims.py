"""The claims of ``agreement`` and the marks that they are judged by, written down before the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from invariscope.cores.layer_sweep import LayerEffect
from invariscope.estimate import Estimate
from invariscope.experiments.language_cores.config import Config, ModelConfig
from invariscope.experiments.language_cores.findings import ModelFindings
from invariscope.storage.claims import Claim, Control, Mark

__all__ = ["MARKS", "make_claims"]

PAPER, OURS = "arXiv:2602.22600", "this project"

MARKS = {
    "keep": Mark(kind="at_least", target=0.97),
    "flip": Mark(kind="at_most", target=0.05),
    "remove": Mark(kind="at_most", target=0.1),
    "transfer-flip": Mark(kind="at_most", target=0.1),
    "transfer-remove": Mark(kind="at_most", target=0.15),
    "coordinate": Mark(kind="at_least", target=0.8),
    "stability": Mark(kind="at_least", target=0.95),
    "onset": Mark(kind="at_most", target=1),
    "same-numbers": Mark(kind="at_most", target=1e-5),
}
"""By claim. Those of keep, flip, remove and transfer are areas under the curve or distances of one from chance."""

RANDOM_KEEPS_NOT = Mark(kind="below", target=0.97)
CONTROL_FLIPS_NOT = Mark(kind="at_least", target=0.9)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """One model at one layer that claims name."""

    model: ModelFindings
    layer: int

    def effect(self, edit: str, name: str = "core") -> LayerEffect:
        """The effect of the first projection's core, or of a control."""
        return self.model.sweep.effect(self.layer, edit, name=name, projection=self.model.sweep.projections[0])

    @property
    def place(self) -> str:
        """In words."""
        return f"{self.model.name} {self.layer}"


def make_claims(config: Config, models: Sequence[ModelFindings], *, preset: str) -> list[Claim]:
    """Every claim with its number.

    Args:
        config: which layers are judged.
        models: what was measured, in the order of the configuration.
        preset: its name.
    """
    judged = [
        _Judged(model=model, layer=layer)
        for settings, model in zip(config.models, models, strict=True)
        for layer in _layers(settings, model)
    ]
    first = [
        _Judged(model=model, layer=settings.transfer if settings.transfer is not None else layers[0])
        for settings, model in zip(config.models, models, strict=True)
        if (layers := _layers(settings, model)) and (settings.transfer is not None or not settings.judged)
    ]
    return [
        _keep(judged, preset, config),
        _flip(judged, preset, config),
        _remove(judged, preset, config),
        *_transfers(first, preset, config),
        _coordinate(judged, preset, config),
        _stability(models, preset, config),
        *_onset(models, preset, config),
        _same_numbers(models, preset, config),
    ]


def _layers(settings: ModelConfig, model: ModelFindings) -> list[int]:
    """Where claims are judged: the layers named, or the chosen one and those after it."""
    swept = [found.layer for found in model.sweep.layers]
    if settings.judged:
        return [layer for layer in settings.judged if layer in swept]
    return [] if model.sweep.chosen is None else [layer for layer in swept if layer >= model.sweep.chosen]


def _claim(
    name: str,
    text: str,
    *,
    value: float | None,
    low: float | None,
    high: float | None,
    num: int,
    unit: str,
    figure: str,
    preset: str,
    config: Config,
    controls: Sequence[Control] = (),
    note: str = "",
    source: str = PAPER,
    paper: float | None = None,
) -> Claim:
    return Claim(
        id=f"agreement/{name}",
        statement=text,
        source=source,
        unit=unit,
        paper=paper,
        mark=MARKS[name],
        measured=value,
        low=low,
        high=high,
        num=num,
        seeds=config.all_seeds(),
        controls=tuple(controls),
        note=note,
        figure=figure,
        preset=preset,
    )


def _worst(judged: Sequence[_Judged], edit: str, pick: Callable) -> tuple[_Judged | None, Estimate | None]:
    found = [(one, one.effect(edit).score) for one in judged]
    return pick(found, key=lambda entry: entry[1].value) if found else (None, None)


def _over(judged: Sequence[_Judged], title: str, name: str, edit: str, pick: Callable, mark: Mark | None = None) -> list[Control]:
    """One control, over the models and layers where it was measured."""
    values = [
        one.effect(edit, name).score.value
        for one in judged
        if any(effect.name == name for effect in one.model.sweep.at(one.layer).effects)
    ]
    if not values:
        return []
    low, high = (min(values), max(values)) if len(values) > 1 else (None, None)
    return [Control(name=title, value=pick(values), low=low, high=high, mark=mark)]


def _arbitrary(judged: Sequence[_Judged]) -> list[str]:
    """Names of the arbitrary margins."""
    names = (one.name for entry in judged for one in entry.model.sweep.at(entry.layer).effects)
    return list(dict.fromkeys(name.removeprefix("margin of ") for name in names if name.startswith("margin of ")))


def _keep(judged: Sequence[_Judged], preset: str, config: Config) -> Claim:
    worst, value = _worst(judged, "keep", min)
    controls = [
        *_over(judged, "random direction", "random", "keep", max, RANDOM_KEEPS_NOT),
        *_over(judged, "PCA", "pca", "keep", max),
        *_over(judged, "mean difference", "mean_difference", "keep", max),
    ]
    for name in _arbitrary(judged):
        controls += _over(judged, f"margin {name} under its own core", f"margin of {name}", "keep", min)
    return _claim(
        "keep",
        "One direction late in the model, kept alone, still tells plural from singular subjects",
        value=None if value is None else value.value,
        low=None if value is None else value.low,
        high=None if value is None else value.high,
        num=len(judged),
        unit="AUC",
        figure="layers",
        preset=preset,
        config=config,
        controls=controls,
        note="" if worst is None else f"the worst of all judged layers: {worst.place}",
        paper=1.0,
    )


def _flip(judged: Sequence[_Judged], preset: str, config: Config) -> Claim:
    worst, value = _worst(judged, "flip", max)
    controls = [
        *_over(judged, "random direction", "random", "flip", min, CONTROL_FLIPS_NOT),
        *_over(judged, "PCA", "pca", "flip", min, CONTROL_FLIPS_NOT),
        *_over(judged, "mean difference", "mean_difference", "flip", max),
    ]
    for name in _arbitrary(judged):
        controls += _over(judged, f"core of the margin {name}, on ours", f"core of {name}", "flip", min, CONTROL_FLIPS_NOT)
        controls += _over(judged, f"margin {name} under its own core", f"margin of {name}", "flip", max)
    return _claim(
        "flip",
        "Reflected about its mean, it inverts the number of the verb",
        value=None if value is None else value.value,
        low=None if value is None else value.low,
        high=None if value is None else value.high,
        num=len(judged),
        unit="AUC",
        figure="transfer",
        preset=preset,
        config=config,
        controls=controls,
        note="a margin of two arbitrary tokens is turned by its own core just as well: that much is algebra at a late layer"
        + ("" if worst is None else f"; the worst of all judged layers: {worst.place}"),
        paper=0.0,
    )


def _from_chance(estimate: Estimate) -> float:
    """How far an area under the curve is from one half; 0 where its interval contains it."""
    low = estimate.value if estimate.low is None else estimate.low
    high = estimate.value if estimate.high is None else estimate.high
    return 0.0 if low <= 0.5 <= high else abs(estimate.value - 0.5)


def _remove(judged: Sequence[_Judged], preset: str, config: Config) -> Claim:
    found = [(one, _from_chance(one.effect("remove").score)) for one in judged]
    worst = max(found, key=lambda entry: entry[1]) if found else None
    controls = [
        *_over(judged, "AUC after removing a random direction", "random", "remove", min),
        *_over(judged, "AUC after removing PCA", "pca", "remove", min),
        *_over(judged, "AUC after removing the mean difference", "mean_difference", "remove", max),
    ]
    if worst is not None:
        own = worst[0].effect("remove").score
        controls.insert(0, Control(name=f"AUC at {worst[0].place}", value=own.value, low=own.low, high=own.high))
    return _claim(
        "remove",
        "Without it the model cannot tell them apart: the AUC is at chance",
        value=None if worst is None else worst[1],
        low=None,
        high=None,
        num=len(judged),
        unit="AUC from .5",
        figure="layers",
        preset=preset,
        config=config,
        controls=controls,
        note="distance from one half, 0 where the interval contains it; the worst of all judged layers",
        paper=0.0,
    )


def _transfers(first: Sequence[_Judged], preset: str, config: Config) -> list[Claim]:
    if not any(one.model.sweep.transfers for one in first):
        return []
    flips = [
        (one, name, found)
        for one in first
        for name, found in zip(one.model.sweep.transfers, one.effect("flip").transfers, strict=True)
    ]
    removes = [
        (one, name, found)
        for one in first
        for name, found in zip(one.model.sweep.transfers, one.effect("remove").transfers, strict=True)
    ]
    flip = max(flips, key=lambda entry: entry[2].value)
    remove = max(removes, key=lambda entry: abs(entry[2].value - 0.5))
    each = [Control(name=f"{name}, {one.place}", value=found.value, low=found.low, high=found.high) for one, name, found in flips]
    left = [
        Control(name=f"{name}, {one.place}", value=found.value, low=found.low, high=found.high) for one, name, found in removes
    ]
    return [
        _claim(
            "transfer-flip",
            "Made from is and are alone, it inverts verbs that were not in its objective",
            value=flip[2].value,
            low=flip[2].low,
            high=flip[2].high,
            num=len(flips),
            unit="AUC",
            figure="transfer",
            preset=preset,
            config=config,
            controls=each,
            source=OURS,
            note="what an edit of a late layer does to its own margin is nearly algebra; this can fail",
        ),
        _claim(
            "transfer-remove",
            "And without it those verbs lose their number too",
            value=abs(remove[2].value - 0.5),
            low=None,
            high=None,
            num=len(removes),
            unit="AUC from .5",
            figure="transfer",
            preset=preset,
            config=config,
            controls=left,
            source=OURS,
            note="distance from one half",
        ),
    ]


def _coordinate(judged: Sequence[_Judged], preset: str, config: Config) -> Claim:
    projection = judged[0].model.sweep.projections[0] if judged else ""
    found = [(one, one.model.sweep.at(one.layer)) for one in judged]
    values = [(one, layer.r2[projection]) for one, layer in found if projection in layer.r2]
    worst = min(values, key=lambda entry: entry[1].value) if values else None
    within = [layer.within[projection].value for _, layer in found if projection in layer.within]
    controls = [Control(name="within number", value=min(within), low=min(within), high=max(within))] if within else []
    return _claim(
        "coordinate",
        "Its coordinate says how strongly the model prefers one verb: hold-out R\u00b2 of the margin",
        value=None if worst is None else worst[1].value,
        low=None if worst is None else worst[1].low,
        high=None if worst is None else worst[1].high,
        num=len(values),
        unit="R\u00b2",
        figure="coordinates",
        preset=preset,
        config=config,
        controls=controls,
        source=OURS,
        note="" if worst is None else f"the worst of all judged layers: {worst[0].place}",
    )


def _stability(models: Sequence[ModelFindings], preset: str, config: Config) -> Claim:
    found = [
        (model, model.detail.stability) for model in models if model.detail is not None and model.detail.stability is not None
    ]
    worst = min(found, key=lambda entry: entry[1].adjoint_halves.value) if found else None
    controls = []
    if worst is not None:
        sides = [stability.activation_halves for _, stability in found]
        least = min(sides, key=lambda estimate: estimate.value)
        controls = [
            Control(name="activation side", value=least.value, low=least.low, high=least.high),
            Control(name="two random directions", value=worst[1].adjoint_halves.chance),
        ]
    value = None if worst is None else worst[1].adjoint_halves
    return _claim(
        "stability",
        "Another half of the prompts gives the same direction on the adjoint side: |cos| between halves",
        value=None if value is None else value.value,
        low=None if value is None else value.low,
        high=None if value is None else value.high,
        num=len(found),
        unit="|cos|",
        figure="coordinates",
        preset=preset,
        config=config,
        controls=controls,
        source=OURS,
        note="" if worst is None else f"the worst model: {worst[0].name}",
    )


def _onset(models: Sequence[ModelFindings], preset: str, config: Config) -> list[Claim]:
    """Only where every layer was swept: whether the rule's layer is where flipping begins to work."""
    whole = [model for model in models if len(model.sweep.layers) > model.sweep.layers[-1].layer]
    if len(whole) < len(models):
        return []
    gaps = []
    for model in whole:
        flips = [found.layer for found in model.sweep.layers if model.score(found.layer, "flip").value <= 0.1]
        if flips and model.sweep.chosen is not None:
            gaps.append((model, abs(flips[0] - model.sweep.chosen), flips[0]))
    worst = max(gaps, key=lambda entry: entry[1]) if len(gaps) == len(whole) and gaps else None
    return [
        _claim(
            "onset",
            "The layer from which on a flip inverts is the one that the spectrum alone names",
            value=None if worst is None else float(worst[1]),
            low=None,
            high=None,
            num=len(gaps),
            unit="layers apart",
            figure="onset",
            preset=preset,
            config=config,
            controls=[Control(name=f"first flip of {model.name}", value=float(layer)) for model, _, layer in gaps],
            source=OURS,
            note="first layer whose flip has an AUC of at most .1, against the first from which on the core carries .95 of the "
            "squared singular values",
        )
    ]


def _same_numbers(models: Sequence[ModelFindings], preset: str, config: Config) -> Claim:
    found = [model.deviation for model in models if model.deviation is not None]
    return _claim(
        "same-numbers",
        "Sites, padded batches and edits give the numbers of plain Hugging Face: largest relative deviation",
        value=max(found) if found else None,
        low=None,
        high=None,
        num=len(found),
        unit="relative",
        figure="",
        preset=preset,
        config=config,
        source=OURS,
        note="float32; six prompts of different length, both padding sides",
    )
