"""What the study ``assign-add`` runs: the task, the model, its training, and how much data each measurement stands on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from invariscope.errors import ConfigError
from invariscope.models import TransformerConfig
from invariscope.tasks import AssignAdd
from invariscope.training import TrainConfig

__all__ = ["PRESETS", "Config"]

LEAST = {
    "num_sequences": 32,
    "num_pairs": 32,
    "num_shuffles": 20,
    "core_sequences": 0,
    "independence_steps": 0,
    "width": 1,
    "mlp_width": 1,
}
"""Below these a measure has too few sequences."""

BIG = AssignAdd()
"""Six variables and four paddings; addition is learnt well before the variables are looked up."""
SMALL = AssignAdd(num_variables=4, num_pads=2, mixture=(0.4, 0.4, 0.2))
"""Four variables and two paddings, learnt in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The study's numbers.

    Args:
        task: the task.
        seeds: one model each.
        width: of the residual stream, and of the one head of each of the two layers.
        mlp_width: hidden units of the MLP of the second layer; the first has none.
        initial_scale: multiplies 1 / sqrt(width), the standard deviation of every initial matrix; .8 as in the paper.
        embedding_std: standard deviation of the initial embeddings; None: as the other matrices.
        train: how each model is trained. Every pool of the task is scored at each evaluation, and circuits are measured at each
            checkpoint, so that ``checkpoint_every`` is a multiple of ``eval_every``.
        num_sequences: sequences of each kind behind attention and probes.
        num_pairs: sums behind shared computation, each in a constant and a variable version.
        num_shuffles: shuffled variables behind the null of the gradient.
        core_sequences: sequences behind each core; 0: no cores.
        independence_steps: steps of each training in which one circuit is frozen while the other forms; 0: none.

    Raises:
        ConfigError: for a number out of range.
    """

    task: AssignAdd = SMALL
    seeds: tuple[int, ...] = (0,)
    width: int = 128
    mlp_width: int = 512
    initial_scale: float = 1.0
    embedding_std: float | None = 0.5
    train: TrainConfig = field(
        default_factory=lambda: TrainConfig(
            steps=2500,
            batch_size=256,
            learning_rate=3e-3,
            weight_decay=0.4,
            betas=(0.9, 0.98),
            warmup_steps=50,
            final_share=0.0,
            eval_every=50,
            checkpoint_every=50,
            batches_at_once=64,
        )
    )
    num_sequences: int = 512
    num_pairs: int = 512
    num_shuffles: int = 200
    core_sequences: int = 1024
    independence_steps: int = 0

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            if getattr(self, name) < least:
                raise ConfigError(f"{name} = {getattr(self, name)}", expected=f"at least {least}", do=f"raise {name}")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds) or min(self.seeds) < 0:
            raise ConfigError(f"seeds {list(self.seeds)}", expected="one or more different seeds from 0 on", do="name each once")
        if not self.train.eval_every or self.train.checkpoint_every % self.train.eval_every or not self.train.checkpoint_every:
            raise ConfigError(
                f"train.eval_every = {self.train.eval_every} and train.checkpoint_every = {self.train.checkpoint_every}",
                expected="evaluations, and checkpoints at a multiple of them: phases are read from both",
                do="set checkpoint_every to a multiple of eval_every",
            )
        if self.train.num_sequences is not None:
            raise ConfigError(
                f"train.num_sequences = {self.train.num_sequences}",
                expected="fresh sequences at every step",
                do="leave it out",
            )
        self.model()

    def all_seeds(self) -> tuple[int, ...]:
        """Every seed."""
        return self.seeds

    def with_first_seed(self, seed: int) -> Config:
        """The same study with as many seeds, counted from ``seed``."""
        return dataclasses.replace(self, seeds=tuple(range(seed, seed + len(self.seeds))))

    def model(self) -> TransformerConfig:
        """The model's configuration: two layers of one head, an MLP in the second, no norm and no bias, as in the paper."""
        return TransformerConfig(
            vocab_size=self.task.vocab_size,
            num_outputs=self.task.num_outputs,
            context_length=self.task.sequence_length,
            num_layers=2,
            width=self.width,
            num_heads=1,
            mlp_width=(0, self.mlp_width),
            activation="relu",
            initial_scale=self.initial_scale,
            initial_std="width",
            embedding_std=self.embedding_std,
        )

    def training(self) -> TrainConfig:
        """How each model is trained: every corner of the task is scored on the way."""
        return dataclasses.replace(self.train, eval_pools=tuple(self.task.corners))

    def frozen_training(self) -> TrainConfig:
        """How a model is trained further, some of it frozen: the same learning rate, held from the start, and shorter."""
        pools = tuple(pool for pool in self.task.corners if "bad" not in pool and "held-" not in pool)
        return dataclasses.replace(
            self.train, steps=self.independence_steps, schedule="constant", eval_pools=pools, checkpoint_every=0
        )


def _phases() -> Config:
    train = dataclasses.replace(
        Config().train,
        steps=12_000,
        learning_rate=2e-3,
        weight_decay=0.5,
        schedule="constant",
        eval_every=100,
        checkpoint_every=100,
    )
    return Config(task=BIG, seeds=(0, 1, 2, 3, 4), train=train, core_sequences=0, independence_steps=6000)


def _paper() -> Config:
    train = TrainConfig(
        steps=40_000,
        batch_size=512,
        learning_rate=1e-3,
        weight_decay=0.02,
        warmup_steps=0,
        schedule="constant",
        eval_every=200,
        checkpoint_every=400,
        batches_at_once=32,
    )
    return Config(task=AssignAdd.paper(), seeds=(0, 1, 2, 3, 4), initial_scale=0.8, embedding_std=None, train=train)


PRESETS: Mapping[str, Config] = {
    "quick": Config(),
    "standard": Config(seeds=(0, 1, 2, 3, 4)),
    "phases": _phases(),
    "paper": _paper(),
}
