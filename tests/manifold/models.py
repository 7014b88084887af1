"""Models on the manifold of small tasks, for all tests here."""

from __future__ import annotations

import torch

from invariscope.manifold import InductionManifold, random_point, set_weights
from invariscope.models.disentangled import Disentangled, DisentangledConfig
from invariscope.tasks.blocks import AssociativeRecall, BlockTask

RECALL = AssociativeRecall(num_blocks=2, num_rare=5)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def manifold_of(
    task: BlockTask, symmetric_as: BlockTask | None = None, *, of: dict | None = None, **choices
) -> InductionManifold:
    """The manifold of a model with these choices; `symmetric_as`: whose symmetry is claimed; `of`: arguments of the manifold."""
    config = DisentangledConfig(vocab_size=task.vocab_size, num_labels=task.num_labels, **choices)
    return InductionManifold(config, (symmetric_as or task).symmetry, relation=task.relation, **(of or {}))


def model_at(manifold: InductionManifold, theta: torch.Tensor | None = None, seed: int = 0, std: float = 0.5) -> Disentangled:
    """A model in float64 at a point, or at a random one."""
    draw = generator(seed)
    model = Disentangled(manifold.config, generator=draw).double()
    return set_weights(model, manifold, random_point(manifold, draw, std=std) if theta is None else theta)
