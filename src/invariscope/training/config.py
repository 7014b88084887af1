"""How a model is trained: every number that the result depends on, and nothing else.

The learning rate is a function of the step alone, so a resumed run continues as if it had never stopped.

>>> config = TrainConfig(steps=100, learning_rate=1.0, warmup_steps=10, schedule="cosine", final_share=0.0)
>>> [round(learning_rate_at(config, step), 3) for step in (0, 9, 54, 99)]
[0.1, 1.0, 0.5, 0.0]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from invariscope.errors import ConfigError, unknown_name
from invariscope.models import TransformerConfig
from invariscope.models.folded import check_foldable
from invariscope.positions import Positions, describe_positions

__all__ = ["TrainConfig", "learning_rate_at", "resolve_forward"]

Forward = Literal["auto", "plain", "last", "folded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """AdamW (Loshchilov & Hutter, arXiv:1711.05101) on freshly sampled batches, or on a fixed set of sequences.

    Args:
        steps: optimiser steps; E epochs of a fixed set are E * ceil(num_sequences / batch_size) of them.
        batch_size: sequences a step.
        num_sequences: size of a fixed training set that is reshuffled each epoch; None: fresh sequences at every step.
        learning_rate: its largest value.
        weight_decay: decoupled; a step multiplies every weight by 1 - learning rate x weight_decay.
        betas: AdamW's moment decays.
        warmup_steps: steps of linear warm-up.
        schedule: after warm-up: constant, or cosine or linear down to final_share of the largest value.
        final_share: share of the learning rate at the last step.
        eval_every: steps between evaluations on held-out sequences; 0: only at the end.
        eval_sequences: held-out sequences an evaluation, of the task's second pool and of each in ``eval_pools``.
        eval_pools: further pools of the task that are scored and logged.
        checkpoint_every: steps between checkpoints; 0: only at the end.
        batches_at_once: batches of fresh sequences drawn together, which is faster where each is small; rows depend on it.
        forward: plain computes every token; last only the rows of the last block that the loss reads; folded looks the first
            block up in tables (:func:`invariscope.models.folded_logits`); auto: folded or else last where the loss reads the
            last token only, and where the model allows it.

    Raises:
        ConfigError: for a number out of range; UnknownNameError for an unknown choice.
    """

    steps: int = 400
    batch_size: int = 128
    num_sequences: int | None = None
    learning_rate: float = 3e-3
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.999)
    warmup_steps: int = 20
    schedule: Literal["constant", "cosine", "linear"] = "cosine"
    final_share: float = 0.02
    eval_every: int = 50
    eval_sequences: int = 512
    eval_pools: tuple[str, ...] = ()
    checkpoint_every: int = 0
    batches_at_once: int = 1
    forward: Forward = "auto"

    def __post_init__(self) -> None:
        least = dict.fromkeys(("steps", "batch_size", "batches_at_once", "eval_sequences"), 1)
        least |= dict.fromkeys(("warmup_steps", "eval_every", "checkpoint_every"), 0)
        for name, low in least.items():
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            _check(name, value, whole and value >= low, f"a whole number of at least {low}")
        if self.num_sequences is not None:
            whole = isinstance(self.num_sequences, int) and not isinstance(self.num_sequences, bool)
            good = whole and self.num_sequences >= 1
            _check("num_sequences", self.num_sequences, good, "a whole number of at least 1, or None for fresh sequences")
        for name in ("learning_rate", "weight_decay"):
            _check(name, getattr(self, name), 0 <= getattr(self, name) < math.inf, "a finite number of at least 0")
        _check("final_share", self.final_share, 0 <= self.final_share <= 1, "from 0 to 1")
        two = len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas)
        _check("betas", self.betas, two, "two numbers from 0 to below 1")
        if self.schedule not in ("constant", "cosine", "linear"):
            raise unknown_name("schedule", str(self.schedule), ("constant", "cosine", "linear"))
        if self.forward not in ("auto", "plain", "last", "folded"):
            raise unknown_name("forward", str(self.forward), ("auto", "plain", "last", "folded"))


def _check(name: str, value: object, good: bool, expected: str) -> None:
    if not good:
        raise ConfigError(f"{name} = {value}", expected=expected, do=f"correct {name}")


def learning_rate_at(config: TrainConfig, step: int) -> float:
    """The learning rate of ``step``, a function of nothing else.

    With s = ``step``, W warm-up steps, S steps in all, f = ``final_share`` and p = (s - W + 1) / (S - W):

        s < W: lr (s + 1) / W        after: lr (f + (1 - f) g(p)),  g = (1 + cos πp) / 2, 1 - p, or 1 throughout

    Args:
        config: the training.
        step: counted from 0; the last one is ``config.steps - 1``, at which p = 1.
    """
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    if config.schedule == "constant":
        return config.learning_rate
    progress = (step - config.warmup_steps + 1) / max(1, config.steps - config.warmup_steps)
    fall = (1 + math.cos(math.pi * progress)) / 2 if config.schedule == "cosine" else 1 - progress
    return config.learning_rate * (config.final_share + (1 - config.final_share) * fall)


def resolve_forward(forward: Forward, loss_positions: Positions, model: TransformerConfig) -> Literal["plain", "last", "folded"]:
    """What ``auto`` means for a task whose loss is read at ``loss_positions``; a pure function of the configuration.

    Raises:
        ConfigError: for ``last`` and ``folded`` where the loss reads other tokens too, or the model does not fold.
    """
    only_last = isinstance(loss_positions, str) and loss_positions == "last"
    if forward in ("last", "folded") and not only_last:
        raise ConfigError(
            f"forward = {forward!r} for a loss at {describe_positions(loss_positions)!r}",
            expected="a task whose loss reads the last token",
            do="use 'plain'",
        )
    if forward == "folded":
        check_foldable(model)
    if forward != "auto":
        return forward
    return "plain" if not only_last else "folded" if _is_foldable(model) else "last"


def _is_foldable(model: TransformerConfig) -> bool:
    try:
        check_foldable(model)
    except ConfigError:
        return False
    return True
