"""Confinement: the exact expected loss and its gradient over a whole law, and whether a claimed symmetry is one.

Theorem 1 of arXiv:2607.11875: where a task's law is symmetric, the expected gradient at a point of the manifold lies in the
manifold. It is a statement about expectations and about gradient descent. A sampled gradient leaves it by its noise, as one over
the root of the batch; and an optimiser that rescales each weight, such as Adam, leaves it altogether.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from invariscope.batch import Batch
from invariscope.errors import ConfigError
from invariscope.manifold.coordinates import InductionManifold
from invariscope.models.disentangled import Disentangled
from invariscope.tasks import Symmetry

__all__ = [
    "OffspanCurve",
    "check_invariance",
    "expected_gradient",
    "expected_loss",
    "follow_offspan",
    "random_point",
    "set_weights",
    "warn_of_adaptive_steps",
]

TOLERANCE = 1e-9


def expected_loss(model: Disentangled, batches: Iterable[Batch]) -> Float[Tensor, ""]:
    """Cross-entropy in nats, weighted by the batches' weights, or the mean of all rows; differentiable.

    Args:
        batches: of a block-list task: all of its law with weights (``task.enumerate``), or samples.
    """
    total, weight = torch.zeros((), dtype=model.key_query[0].dtype), 0.0
    for batch in batches:
        assert batch.targets is not None
        losses = F.cross_entropy(model(**batch.inputs), batch.targets[:, 0], reduction="none")
        rows = torch.ones_like(losses) if batch.weights is None else batch.weights.to(losses)
        total, weight = total + rows @ losses, weight + float(rows.sum())
    return total / weight


def expected_gradient(model: Disentangled, batches: Iterable[Batch]) -> tuple[dict[str, Tensor], float]:
    """Gradient of :func:`expected_loss` by parameter name, and the loss."""
    parameters = dict(model.named_parameters())
    sums, total, weight = {name: torch.zeros_like(one) for name, one in parameters.items()}, 0.0, 0.0
    # Batch by batch: the graph of a whole law does not fit into memory.
    for batch in batches:
        rows = float(batch.num_rows) if batch.weights is None else float(batch.weights.sum())
        loss = expected_loss(model, [batch])
        for name, one in zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True):
            sums[name] += rows * one
        total, weight = total + rows * float(loss.detach()), weight + rows
    return {name: one / weight for name, one in sums.items()}, total / weight


def set_weights(model: Disentangled, manifold: InductionManifold, coordinates: Float[Tensor, "dim"]) -> Disentangled:
    """``model`` at a point of the manifold."""
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for key, weight in manifold.weights(coordinates).items():
            parameters[key].copy_(weight)
    return model


def random_point(manifold: InductionManifold, generator: torch.Generator, *, std: float = 0.5) -> Float[Tensor, "dim"]:
    """Coordinates drawn from a normal distribution of deviation ``std``."""
    return std * torch.randn(manifold.dim, generator=generator, dtype=torch.float64)


def _labels(batch: Batch) -> Int[Tensor, "B T"]:
    tokens = batch.inputs["tokens"]
    return batch.inputs.get("positions", torch.arange(tokens.shape[1]).expand(tokens.shape))


def check_invariance(model: Disentangled, batches: Iterable[Batch], symmetry: Symmetry) -> None:
    """Raise where a generator does not keep the law: the expected loss of a generic model differs on the renamed law.

    Args:
        model: whose configuration is asked. Not its weights: at a point that has the symmetry by itself nothing would change.
        batches: the whole law, with weights.
        symmetry: what is claimed.

    Raises:
        ConfigError: naming the generator, also one of other sizes than the model's.
    """
    every, config = list(batches), model.config
    model = Disentangled(config, generator=torch.Generator().manual_seed(0), initial_std=0.5).double()
    for number, (tokens, labels) in enumerate(symmetry.generators):
        if (len(tokens), len(labels)) != (config.vocab_size, config.num_labels):
            raise ConfigError(
                f"generator {number} of {len(tokens)} tokens and {len(labels)} labels",
                expected=f"{config.vocab_size} tokens and {config.num_labels} labels, as the model has",
                do="take symmetry and model from one task",
            )
    with torch.no_grad():
        before = float(expected_loss(model, every))
        for number, (tokens, labels) in enumerate(symmetry.generators):
            token, label = torch.tensor(tokens), torch.tensor(labels)
            renamed = [
                Batch(
                    inputs={"tokens": token[batch.inputs["tokens"]], "positions": label[_labels(batch)]},
                    targets=None if batch.targets is None else token[batch.targets],
                    weights=batch.weights,
                )
                for batch in every
            ]
            after = float(expected_loss(model, renamed))
            if abs(after - before) > TOLERANCE * max(1.0, abs(before)):
                moved = [str(i) for i, j in enumerate(tokens) if i != j][:4], [str(i) for i, j in enumerate(labels) if i != j][:4]
                what = f"tokens {', '.join(moved[0])}" if moved[0] else f"labels {', '.join(moved[1])}"
                raise ConfigError(
                    f"generator {number}, which moves {what} ..., under which the expected loss changes from {before:.9g} "
                    f"to {after:.9g}",
                    expected="a permutation that keeps the task's law",
                    do="leave it out, or change the task (no zipf, a placement that draws its labels)",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class OffspanCurve:
    """How much of a model's weights lies outside the manifold as it is trained.

    Args:
        steps: optimiser steps done. outside, inside: squared norms there. losses: of the whole law, in nats.
    """

    steps: tuple[int, ...]
    outside: tuple[float, ...]
    inside: tuple[float, ...]
    losses: tuple[float, ...]


def follow_offspan(
    model: Disentangled,
    manifold: InductionManifold,
    batches: Iterable[Batch],
    optimiser: torch.optim.Optimizer,
    *,
    law: Iterable[Batch],
    every: int = 1,
    is_control: bool = False,
) -> OffspanCurve:
    """Train ``model`` in place, one step a batch, and measure it on the way.

    Args:
        model: whose parameters the optimiser has. manifold: of its configuration.
        batches: of training. law: the whole of it, with weights, for the loss.
        every: steps between measurements; the end is always one.
        is_control: whether leaving the manifold is what is asked for; otherwise an adaptive optimiser is warned of.

    Raises:
        ConfigError: where ``every`` is below 1. ShapeError: for a manifold of another configuration.
    """
    if every < 1:
        raise ConfigError(f"every = {every}", expected="1 or more", do="raise every")
    if not is_control:
        warn_of_adaptive_steps(type(optimiser).__name__, stacklevel=3)
    law, rows = list(law), []
    for step, batch in enumerate(itertools.chain(batches, [None])):
        if step % every == 0 or batch is None:
            outside, whole = manifold.squared_norms(model)
            with torch.no_grad():
                loss = float(expected_loss(model, law))
            rows.append((step, outside, whole - outside, loss))
        if batch is not None:
            gradient, _ = expected_gradient(model, [batch])
            for name, parameter in model.named_parameters():
                parameter.grad = gradient[name]
            optimiser.step()
    steps, outside, inside, losses = zip(*rows, strict=True)
    return OffspanCurve(steps=steps, outside=outside, inside=inside, losses=losses)


def warn_of_adaptive_steps(optimiser: str, *, stacklevel: int = 2) -> None:
    """Warn where a claim about confinement is asked of an optimiser that rescales each weight.

    Args:
        optimiser: its name. stacklevel: of the warning, as in :func:`warnings.warn`.
    """
    if any(name in optimiser.lower() for name in ("ada", "rms", "lion")):
        warnings.warn(
            f"{optimiser} divides each weight's step by its own gradient's size, so that rounding noise where the gradient is "
            "zero grows to full steps: it leaves the manifold within a few steps. Claims about confinement are about gradient "
            "descent",
            stacklevel=stacklevel,
        )
