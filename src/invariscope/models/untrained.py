"""The untrained twin of a model: the control that says what the architecture alone gives.

An untrained model is no subspace of the trained one: the same measurement runs on it from the start.
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

from invariscope.errors import ConfigError
from invariscope.models.transformer import Transformer

__all__ = ["untrained"]

Model = TypeVar("Model", bound=nn.Module)


def untrained(model: Model, generator: torch.Generator) -> Model:
    """A model of the same class and configuration with fresh weights drawn from ``generator``.

    Raises:
        ConfigError: where the model cannot be rebuilt from a configuration.
    """
    if isinstance(model, Transformer):
        fresh = type(model)(model.config, generator=generator)
        parameter = next(model.parameters())
        return fresh.to(device=parameter.device, dtype=parameter.dtype).train(model.training)
    raise ConfigError(
        f"a model of class {type(model).__name__}",
        expected="one of our models, whose configuration says how to build it anew",
        do="build the untrained model yourself and run the same measurement on it",
    )
