"""The claims of ``imir-confinement`` and their marks, written down before the runs."""

from __future__ import annotations

import statistics

from invariscope.experiments.imir_confinement.config import Config
from invariscope.experiments.imir_confinement.measure import OPTIMISERS, Findings
from invariscope.storage.claims import Claim, Control, Mark

__all__ = ["MARKS", "make_claims"]

PAPER = "arXiv:2607.11875, Theorem 1"
MARKS = {
    "confined": Mark(kind="at_most", target=1e-12),
    "sampled-noise": Mark(kind="within", target=-0.5, tolerance=0.05),
    "reduced-losses": Mark(kind="at_most", target=1e-11),
    "reduced-coordinates": Mark(kind="at_most", target=1e-10),
    "attracting": Mark(kind="below", target=1.0),
}
BROKEN = Mark(kind="above", target=0.1)
GROWS = Mark(kind="above", target=1.0)


def make_claims(config: Config, found: Findings, *, preset: str) -> list[Claim]:
    """Every claim with its number.

    Args:
        config: what was run. found: what came out. preset: its name.
    """
    shares = [share for one in found.confined for share in one.shares]
    worst = max(found.confined, key=lambda one: max(one.shares))
    trained = {name: [one for one in found.attraction if one.optimiser == name] for name in OPTIMISERS}
    ratio = {name: [one.outside[-1] / one.outside[0] for one in some] for name, some in trained.items()}
    inside = {
        name: statistics.median(one.inside[-1] / (one.inside[-1] + one.outside[-1]) for one in some)
        for name, some in trained.items()
    }
    decays = f"{config.weight_decay:g} x {config.learning_rate:g}"
    largest = max(found.confined, key=lambda one: one.weights)

    def claim(name: str, statement: str, measured: float, **fields) -> Claim:
        fields = {
            "source": PAPER,
            "unit": "share of the norm",
            "figure": "offspan",
            "seeds": config.seeds,
            "num": len(config.seeds),
        } | fields
        return Claim(
            id=f"imir-confinement/{name}", statement=statement, mark=MARKS[name], measured=measured, preset=preset, **fields
        )

    return [
        claim(
            "confined",
            "At points of the manifold the exact gradient lies in it, for every task and model here",
            max(shares),
            low=min(shares),
            high=max(shares),
            num=len(shares),
            controls=[
                Control(name=one.name, value=min(one.shares), low=min(one.shares), high=max(one.shares), mark=BROKEN)
                for one in found.broken
            ],
            note=f"The largest share outside of {len(found.confined)} tasks and models ({worst.name}, {worst.model}), beside the "
            f"smallest of each control. The largest model has {largest.weights} weights and {largest.dim} coordinates.",
        ),
        claim(
            "sampled-noise",
            "A sampled gradient leaves the manifold by its noise alone: one over the root of the batch",
            found.sampled.slope,
            low=found.sampled.low,
            high=found.sampled.high,
            unit="slope",
            figure="noise",
            controls=[Control(name="exact gradient: share outside", value=statistics.median(shares))],
        ),
        claim(
            "reduced-losses",
            "Gradient descent on all weights and natural descent in the coordinates have the same losses",
            found.loss_difference,
            unit="nats",
            figure="descent",
            source="arXiv:2607.11875, Corollary 1",
            num=config.steps,
            seeds=config.seeds[:1],
            controls=[
                Control(
                    name="how far the loss falls meanwhile",
                    value=found.descent_losses[0] - found.descent_losses[-1],
                    mark=Mark(kind="above", target=0.1),
                )
            ],
        ),
        claim(
            "reduced-coordinates",
            "And the same coordinates",
            found.coordinate_difference,
            unit="coordinate",
            figure="descent",
            source="arXiv:2607.11875, Corollary 1",
            num=config.steps,
            seeds=config.seeds[:1],
        ),
        claim(
            "attracting",
            "A training that begins outside comes closer: the squared norm outside, at the end over the beginning, under "
            "gradient descent",
            max(ratio["SGD"]),
            low=min(ratio["SGD"]),
            high=max(ratio["SGD"]),
            unit="ratio",
            figure="attraction",
            source="arXiv:2607.11875, experiments",
            num=len(ratio["SGD"]),
            seeds=config.seeds[: config.trainings],
            controls=[
                Control(name="Adam", value=min(ratio["Adam"]), low=min(ratio["Adam"]), high=max(ratio["Adam"]), mark=GROWS),
                Control(
                    name="weight decay alone would give",
                    value=(1 - config.learning_rate * config.weight_decay) ** (2 * config.steps),
                ),
            ],
            note=f"The training that comes least close. With weight decay ({decays} a step): "
            f"{max(ratio['SGD with weight decay']):.3g} at most. Median share of the squared norm inside at the end: "
            f"{', '.join(f'{name} {share:.3f}' for name, share in inside.items())}. Most of it comes from growth "
            "inside.",
        ),
    ]
