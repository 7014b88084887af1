"""What the study ``imir-transformers`` runs: trainings on recall with fewer and fewer rare questions, and a language model."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from invariscope.errors import ConfigError
from invariscope.models import TransformerConfig
from invariscope.tasks.blocks import AssociativeRecall
from invariscope.training import TrainConfig

__all__ = ["PRESETS", "Config"]


def _training(steps: int, checkpoint_every: int) -> TrainConfig:
    return TrainConfig(
        steps=steps,
        learning_rate=3e-3,
        schedule="constant",
        eval_every=0,
        checkpoint_every=checkpoint_every,
        batches_at_once=8,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The study's numbers.

    Args:
        seeds: trainings of each share. (Seed 0 was looked at when the marks were written.)
        rare_shares: f_r of the trainings, the most first.
        task: recall; its own rare_share is replaced.
        width: of the model.
        num_heads: of each of its two layers.
        train: how it is trained, with a checkpoint every so often.
        num_sequences: of each kind of question, behind accuracies and pulls.
        language_model: as for ``load_language_model``; empty: none.
        pattern_sequences: of repeated random tokens, behind its attention patterns.
        pattern_period: tokens that are repeated.
        read_sequences: random tokens behind the mean of what its layers read.
        num_bootstrap: draws behind intervals and nulls.

    Raises:
        ConfigError: for a number out of range, or a task that the study does not fit.
    """

    seeds: tuple[int, ...] = (1, 2)
    rare_shares: tuple[float, ...] = (0.5, 0.2)
    task: AssociativeRecall = field(
        default_factory=lambda: AssociativeRecall(num_blocks=6, num_rare=32, num_common=16, placement="fixed")
    )
    width: int = 64
    num_heads: int = 1
    train: TrainConfig = field(default_factory=lambda: _training(1500, 75))
    num_sequences: int = 512
    language_model: str = "smollm2-135m"
    pattern_sequences: int = 8
    pattern_period: int = 64
    read_sequences: int = 16
    num_bootstrap: int = 1000

    def __post_init__(self) -> None:
        least = {"num_sequences": 32, "pattern_sequences": 2, "pattern_period": 2, "read_sequences": 1, "num_bootstrap": 100}
        for name, low in least.items():
            if getattr(self, name) < low:
                raise ConfigError(f"{name} = {getattr(self, name)}", expected=f"{low} or more", do=f"raise {name}")
        if not self.seeds or not self.rare_shares or not all(0 < share < 1 for share in self.rare_shares):
            raise ConfigError(
                f"seeds {list(self.seeds)}, rare_shares {list(self.rare_shares)}",
                expected="a seed, and shares between 0 and 1: memory needs common questions, and induction rare ones",
                do="name some",
            )
        if self.task.placement != "fixed" or self.task.num_common < 2 or not 0 < self.train.checkpoint_every < self.train.steps:
            raise ConfigError(
                f"placement {self.task.placement!r}, {self.task.num_common} common pairs, a checkpoint every "
                f"{self.train.checkpoint_every} of {self.train.steps} steps",
                expected="fixed places, two common pairs or more, and checkpoints on the way",
                do="correct them",
            )

    def all_seeds(self) -> tuple[int, ...]:
        """Every seed."""
        return self.seeds

    def with_first_seed(self, seed: int) -> Config:
        """The same study with as many seeds, counted from ``seed``."""
        return dataclasses.replace(self, seeds=tuple(range(seed, seed + len(self.seeds))))

    def arm(self, rare_share: float) -> AssociativeRecall:
        """The task with this share of rare questions."""
        return dataclasses.replace(self.task, rare_share=rare_share)

    def model(self) -> TransformerConfig:
        """Two layers of attention without MLPs or norms."""
        return TransformerConfig(
            vocab_size=self.task.vocab_size,
            context_length=self.task.sequence_length,
            num_layers=2,
            width=self.width,
            num_heads=self.num_heads,
            mlp_width=0,
        )


PRESETS: Mapping[str, Config] = {
    "quick": Config(),
    "standard": Config(
        seeds=(1, 2, 3, 4, 5),
        rare_shares=(0.5, 0.2, 0.1),
        train=_training(4000, 100),
        num_sequences=2048,
        pattern_sequences=32,
        read_sequences=64,
    ),
}
