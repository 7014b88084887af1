"""Whether a model is one that the measures of these circuits describe.

>>> import torch
>>> task = AssignAdd(modulus=5, num_variables=4)
>>> shape = {"vocab_size": task.vocab_size, "num_outputs": 5, "context_length": task.sequence_length}
>>> config = TransformerConfig(**shape, width=6, num_heads=1, num_layers=2, mlp_width=(0, 8))
>>> check_model(Transformer(config, generator=torch.Generator().manual_seed(0)), task, one_head=True, linear=True, mlp=True)
"""

from __future__ import annotations

from torch import nn

from invariscope.errors import ConfigError
from invariscope.models import Transformer, TransformerConfig
from invariscope.tasks import AssignAdd

__all__ = ["check_model"]


def check_model(model: Transformer, task: AssignAdd, *, one_head: bool = False, linear: bool = False, mlp: bool = False) -> None:
    """Refuse a model that a measure would describe wrongly.

    Args:
        model, task: of two layers, and of the task's tokens, length and numbers.
        one_head: there is one head a layer.
        linear: what layers read and what they add is linear in the residual stream: no norm, no bias in attention or on the
            logits. Weights alone then say what a model does.
        mlp: the second layer has an MLP.

    Raises:
        ConfigError: naming every tensor whose shape does not fit, or the property that is missing.
    """
    config, width = model.config, model.config.width
    expected = {
        "token_embedding": [task.vocab_size, width],
        "position_embedding": [task.sequence_length, width],
        "unembedding.weight": [task.num_outputs, width],
    }
    shapes = {name: list(parameter.shape) for name, parameter in model.named_parameters() if name in expected}
    # A longer context is no harm: its last positions are not read.
    long = "position_embedding"
    wrong = [
        name
        for name, shape in shapes.items()
        if shape != expected[name] and not (name == long and shape[0] > task.sequence_length)
    ]
    if wrong:
        raise ConfigError(
            f"a model with {', '.join(f'{name} {shapes[name]}' for name in wrong)}",
            expected=f"{', '.join(f'{name} {expected[name]}' for name in wrong)}, as the task has them",
            do="give the task that the model was trained on: its layout, modulus, variables, assignments and padding",
        )
    if config.num_layers != 2:
        raise ConfigError(
            f"a model of {config.num_layers} layers",
            expected="two layers, the first of which binds and the second looks up",
            do="train a model of two layers",
        )
    layers = range(config.num_layers)
    if one_head and any(config.layer("num_heads", layer) != 1 for layer in layers):
        heads = [config.layer("num_heads", layer) for layer in layers]
        raise ConfigError(f"a model of {heads} heads", expected="one head a layer", do="train with num_heads=1")
    if linear:
        _check_linear(config, model)
    if mlp and not config.layer("mlp_width", 1):
        raise ConfigError(
            "a model whose second layer has no MLP", expected="an MLP there, which adds", do="train with mlp_width=(0, 512)"
        )


def _check_linear(config: TransformerConfig, model: nn.Module) -> None:
    found = [f"norm {config.layer('norm', layer)!r}" for layer in range(2) if config.layer("norm", layer) != "none"]
    found += ["a final norm"] * config.final_norm
    found += [name for name, _ in model.named_parameters() if name.endswith("bias") and "mlp" not in name and "norm" not in name]
    if found:
        raise ConfigError(
            f"a model with {', '.join(dict.fromkeys(found))}",
            expected="neither norms nor biases outside the MLP: weights alone then say what attention does",
            do="train such a model, or use the measures that run the model",
        )
