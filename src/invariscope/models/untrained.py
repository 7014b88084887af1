"""The untrained twin of a model: the control that says what the architecture alone gives.

An untrained model is no subspace of the trained one: the same measurement runs on it from the start.

>>> from invariscope.models.transformer import TransformerConfig
>>> config = TransformerConfig(vocab_size=4, context_length=8, width=8, num_heads=2)
>>> model = Transformer(config, generator=torch.Generator().manual_seed(0))
>>> twin = untrained(model, torch.Generator().manual_seed(1))
>>> twin.config == model.config, torch.equal(twin.token_embedding, model.token_embedding)
(True, False)
"""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import nn

from invariscope.errors import ConfigError
from invariscope.models.disentangled import Disentangled
from invariscope.models.transformer import Transformer

__all__ = ["untrained"]

Model = TypeVar("Model", bound=nn.Module)


def untrained(model: Model, generator: torch.Generator) -> Model:
    """A model of the same class and configuration with fresh weights drawn from ``generator``.

    Args:
        model: one of our models; its type, device and mode (training or evaluation) are the new one's too.
        generator: source of the weights; equal generators give equal models.

    Raises:
        ConfigError: where the model cannot be rebuilt from a configuration.
    """
    if isinstance(model, Transformer | Disentangled):
        kind: Any = type(model)
        parameter = next(model.parameters())
        return kind(model.config, generator=generator).to(parameter.device, parameter.dtype).train(model.training)
    raise ConfigError(
        f"a model of class {type(model).__name__}",
        expected="one of our models, whose configuration says how to build it anew",
        do="build the untrained model yourself and run the same measurement on it",
    )
