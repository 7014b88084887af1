"""Findings of a study in which everything comes out as it should."""

from __future__ import annotations

from collections.abc import Sequence

from invariscope.cores.layer_sweep import LayerEffect, LayerFindings, LayerSweep
from invariscope.cores.stability import Stability
from invariscope.estimate import Estimate
from invariscope.experiments.language_cores.config import Config, ModelConfig
from invariscope.experiments.language_cores.findings import Histogram, LayerDetail, ModelFindings

CONFIG = Config(
    models=(
        ModelConfig(name="tiny-a", layers=(1, 2, 3), judged=(2, 3), transfer=2),
        ModelConfig(name="tiny-b", layers=(1, 2), judged=(2,)),
    )
)
SCORES = {
    "model": {"full": 0.99},
    "core": {"keep": 0.99, "remove": 0.52, "flip": 0.01},
    "random": {"keep": 0.6, "remove": 0.99, "flip": 0.98},
    "pca": {"keep": 0.6, "remove": 0.99, "flip": 0.98},
    "mean_difference": {"keep": 0.95, "remove": 0.6, "flip": 0.2},
    "core of the/of": {"keep": 0.5, "remove": 0.99, "flip": 0.98},
    "margin of the/of": {"keep": 0.99, "remove": 0.5, "flip": 0.02},
}


def near(value: float, spread: float = 0.01) -> Estimate:
    return Estimate(value=value, low=value - spread, high=value + spread, num=64, chance=0.5)


def effects(layer: int, changes: dict[tuple[str, str], float]) -> tuple[LayerEffect, ...]:
    found = []
    for name, edits in SCORES.items():
        for edit, score in edits.items():
            value = near(changes.get((name, edit), score))
            core = name == "core"
            transfers = (near(changes.get(("transfer", edit), score)),) * 2 if name in ("model", "core", "random") else ()
            found.append(
                LayerEffect(
                    layer=layer,
                    name=name,
                    projection="oblique" if core else "",
                    rank=1,
                    edit=edit,
                    accuracy=value,
                    margin=value,
                    auc=value,
                    transfers=transfers,
                    elsewhere=near(0.1) if core else None,
                    unrelated=near(0.01) if core else None,
                )
            )
    return tuple(found)


def model(
    name: str,
    layers: Sequence[int],
    *,
    at: int | None = None,
    changes: dict[tuple[str, str], float] | None = None,
    r2: float = 0.95,
    halves: float = 0.99,
    deviation: float = 1e-6,
    chosen: int = 2,
) -> ModelFindings:
    """One model; ``changes`` spoil the effects at layer ``at``."""
    found = tuple(
        LayerFindings(
            layer=layer,
            site=f"blocks.{layer}.resid_post",
            share=(0.99 if layer >= chosen else 0.4,),
            r2={"oblique": near(r2)},
            within={"oblique": near(0.7)},
            effects=effects(layer, (changes or {}) if layer == at else {("core", "flip"): 0.9} if layer < 2 else {}),
        )
        for layer in layers
    )
    sweep = LayerSweep(
        model=name,
        behaviour="agreement",
        objective="choices[logsumexp]",
        positions="last",
        num_extraction=512,
        num_heldout=192,
        projections=("oblique",),
        ranks=(1,),
        transfers=("were/was", "have/has"),
        layers=found,
        chosen=chosen,
        rule="a rule",
    )
    stability = Stability(
        activation_halves=near(0.8),
        adjoint_halves=Estimate(value=halves, low=halves - 0.01, high=halves + 0.005, num=64, chance=0.04),
        activation_bootstrap=near(0.85),
        adjoint_bootstrap=near(0.99),
        num_groups=64,
    )
    detail = LayerDetail(
        layer=2,
        projection="oblique",
        rank=1,
        edges=(-1.0, 0.0, 1.0),
        histograms=tuple(
            Histogram(edit=edit, label=label, counts=(3, 1) if label == "singular" else (1, 3))
            for edit in ("full", "keep", "remove", "flip")
            for label in ("singular", "plural")
        ),
        points=((-1.0, -2.0, "singular"), (1.0, 2.0, "plural")),
        stability=stability,
    )
    return ModelFindings(
        name=name, facts={"licence": "none"}, deviation=deviation, tolerance=1e-5, sweep=sweep, detail=detail, notes=()
    )


def models(**changes) -> list[ModelFindings]:
    """Both; ``changes`` spoil the last judged layer of the second."""
    return [model("tiny-a", (1, 2, 3)), model("tiny-b", (1, 2), at=2, **changes)]
