"""What the study ``imir-confinement`` runs: small tasks whose whole law is listed, models, and negative controls."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from invariscope.errors import ConfigError
from invariscope.tasks.blocks import (
    AssociativeRecall,
    BlockTask,
    ConditionalRetrieval,
    IndirectObject,
    KHop,
    Ngram,
    PermutationInversion,
)

__all__ = ["CONTROLS", "MODELS", "PRESETS", "TASKS", "Case", "Config"]

TASKS: Mapping[str, BlockTask] = {
    "recall": AssociativeRecall(num_blocks=2, num_rare=5),
    "recall, independent offsets": AssociativeRecall(num_blocks=2, num_rare=4, placement="offsets", num_positions=4),
    "recall, common and rare": AssociativeRecall(num_blocks=2, num_rare=4, num_common=2, rare_share=0.3, fresh_share=0.4),
    "recall, symmetric memory": AssociativeRecall(num_blocks=2, num_rare=0, num_common=3, rare_share=0.0, symmetric=True),
    "recall, directed memory": AssociativeRecall(num_blocks=2, num_rare=0, num_common=3, rare_share=0.0),
    "2-hop": KHop(num_blocks=2, num_rare=4),
    "2-hop with distractors": KHop(num_blocks=4, num_rare=6, placement="ring"),
    "trigram": Ngram(num_blocks=2, num_rare=5),
    "indirect object": IndirectObject(num_blocks=1, num_rare=4),
    "conditional retrieval": ConditionalRetrieval(num_blocks=2, num_rare=3),
    "permutation inversion": PermutationInversion(num_blocks=3, num_rare=3, placement="ring"),
}
"""Small enough to sum over everything."""

MODELS: Mapping[str, Mapping[str, Any]] = {
    "two layers": {},
    "three layers": {"num_layers": 3},
    "two heads": {"num_heads": 2},
    "no mask": {"causal": False},
    "norm in the scores": {"score_norm": True},
    "feed-forward, one-hot basis": {"feed_forward": "plain"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A way to break Theorem 1.

    Args:
        task: what is trained on. claimed: whose symmetry is claimed. model: of its configuration.
        span: arguments of the manifold. point_std: of its random points; None: the study's.
    """

    task: BlockTask
    claimed: BlockTask
    model: Mapping[str, Any]
    span: Mapping[str, Any] = field(default_factory=dict)
    point_std: float | None = None


_SMALL = AssociativeRecall(num_blocks=2, num_rare=4)
_RING = dataclasses.replace(_SMALL, placement="ring", num_positions=5)
_MEMORY = TASKS["recall, symmetric memory"]
CONTROLS: Mapping[str, Case] = {
    "all-ones blocks left out": Case(task=_SMALL, claimed=_SMALL, model={}, span={"leave_out": ("ones",)}),
    "no random offset": Case(task=dataclasses.replace(_SMALL, placement="fixed"), claimed=_RING, model={}),
    "Zipf tokens": Case(task=dataclasses.replace(_SMALL, zipf=1.0), claimed=_SMALL, model={}),
    "relation C left out": Case(task=_MEMORY, claimed=_MEMORY, model={}, span={"leave_out": ("C",)}),
    # The paper's basis. How much its inverses matter depends on the setting: with two layers or smaller weights it is far less.
    "inverse shifts left out": Case(
        task=dataclasses.replace(_SMALL, placement="offsets", num_positions=4),
        claimed=dataclasses.replace(_SMALL, placement="offsets", num_positions=4),
        model={"num_layers": 3, "readout": "direct", "centred": True},
        span={"basis": "paper", "inverse": False},
        point_std=2.0,
    ),
    "random maps, additive stream": Case(task=_SMALL, claimed=_SMALL, model={"stream": "additive"}),
    "feed-forward, rotated basis": Case(task=_SMALL, claimed=_SMALL, model={"feed_forward": "rotated"}),
}

LARGE_LAW = 20_000
"""Laws with more sequences are asked of the first model alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The study's numbers.

    Args:
        seeds: random points of each manifold.
        point_std: deviation of their coordinates.
        batches: sizes of sampled gradients, large enough for the noise to be small beside the gradient.
        draws: sampled gradients of each size.
        steps: of descent in the full model and in coordinates, and of the trainings that ask what attracts.
        learning_rate: of gradient descent.
        adam_rate: learning rate of Adam.
        weight_decay: of gradient descent with it.
        initial_std: of the full weights of those trainings, which begin outside.
        batch_size: of them.
        trainings: of each optimiser there, for the first seeds.

    Raises:
        ConfigError: for a number out of range.
    """

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    point_std: float = 0.5
    batches: tuple[int, ...] = (1024, 4096, 16384, 65536, 262144)
    draws: int = 8
    steps: int = 400
    learning_rate: float = 1.0
    adam_rate: float = 0.01
    weight_decay: float = 0.01
    initial_std: float = 0.1
    batch_size: int = 256
    trainings: int = 3

    def __post_init__(self) -> None:
        least = {"draws": 2, "steps": 1, "batch_size": 1, "trainings": 1}
        for name, low in least.items():
            if getattr(self, name) < low:
                raise ConfigError(f"{name} = {getattr(self, name)}", expected=f"{low} or more", do=f"raise {name}")
        if not self.seeds or len(set(self.batches)) < 3 or min(self.batches) < 1:
            raise ConfigError(
                f"seeds {list(self.seeds)}, batches {list(self.batches)}",
                expected="a seed, and three sizes",
                do="name some",
            )

    def all_seeds(self) -> tuple[int, ...]:
        """Every seed."""
        return self.seeds

    def with_first_seed(self, seed: int) -> Config:
        """The same study with as many seeds, counted from ``seed``."""
        return dataclasses.replace(self, seeds=tuple(range(seed, seed + len(self.seeds))))


PRESETS: Mapping[str, Config] = {
    "quick": Config(),
    "standard": Config(seeds=tuple(range(10)), draws=32, steps=1000),
}
