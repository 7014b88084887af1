"""What a training begins with instead of fresh weights, and what of it stays as it is.

Whether one circuit is learnt before, and independently of, another is a causal question: keep the one as it was at some moment,
let the rest be trained, and see whether the other still forms (arXiv:2605.31497 claims so of addition and binding). Parts of
the weights are named as in :mod:`invariscope.models.parts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from invariscope.errors import ConfigError
from invariscope.models import Transformer, fingerprint, weight_part
from invariscope.training.checkpoints import load_model

__all__ = ["Frozen", "Start", "begin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a training takes weights from.

    Args:
        checkpoint: path of a checkpoint of a model of the same configuration.
        taken: parts that begin as they are there, the others fresh; None: all of them.
        frozen: parts among them that stay so.

    Raises:
        ConfigError: where a part is frozen that is not taken.
    """

    checkpoint: str
    taken: tuple[str, ...] | None = None
    frozen: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.taken is not None and not set(self.frozen) <= set(self.taken):
            raise ConfigError(
                f"frozen parts {sorted(set(self.frozen) - set(self.taken))} that are not taken from the checkpoint",
                expected="parts that are taken",
                do="name them in `taken` too",
            )

    def identity(self) -> dict[str, Any]:
        """What a run's configuration says of it: the weights, not where they stand."""
        weights = fingerprint(load_model(Path(self.checkpoint)))
        return {"weights": weights, "taken": None if self.taken is None else list(self.taken), "frozen": list(self.frozen)}


class Frozen:
    """Parts of a model as they are now, which :meth:`restore` writes back after a step of the optimiser."""

    def __init__(self, model: Transformer, parts: tuple[str, ...]) -> None:
        views = [view for part in parts for view in weight_part(model, part)]
        self._kept: list[tuple[Tensor, Tensor]] = [(view, view.clone()) for view in views]

    def restore(self) -> None:
        """Write the parts back as they were."""
        for view, value in self._kept:
            view.copy_(value)


def begin(model: Transformer, start: Start) -> Frozen:
    """Bring ``model``, freshly drawn, to its start, and say what stays.

    Raises:
        ConfigError: where the checkpoint is of another configuration. UnknownNameError: for a part that the model lacks.
        CheckpointError, ForeignFileError: as :func:`invariscope.training.load_model`.
    """
    source = load_model(Path(start.checkpoint))
    if source.config != model.config:
        raise ConfigError(
            f"{start.checkpoint}, a model of another configuration",
            expected=f"the weights of a {type(model).__name__} of the configuration that is trained",
            do="train with the configuration of the checkpoint",
        )
    with torch.no_grad():
        if start.taken is None:
            model.load_state_dict(source.state_dict())
        for part in start.taken or ():
            for mine, theirs in zip(weight_part(model, part), weight_part(source, part), strict=True):
                mine.copy_(theirs)
    return Frozen(model, start.frozen)
