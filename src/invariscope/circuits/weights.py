"""The matrices that a head amounts to, and whether a model is one that they describe.

Acting on rows, a head scores ``x_query QK x_key^T`` with ``QK = W_Q W_K^T`` and moves ``x_key OV`` with ``OV = W_V W_O``
(Elhage et al. 2021, *A Mathematical Framework for Transformer Circuits*). Both are D x D whatever the head's width. QK is left
unscaled, as in arXiv:2605.31497; the model's own scores are divided by sqrt(d).

Legend of shapes: D width, d head width, H heads. Layers count from 0, as sites do: the paper's layer 2 is layer 1 here.

>>> import torch
>>> config = TransformerConfig(vocab_size=5, context_length=4, width=6, num_heads=1, num_layers=2, mlp_width=(0, 8))
>>> model = Transformer(config, generator=torch.Generator().manual_seed(0))
>>> value_output(model, 0).shape, query_key(model, 1).shape
(torch.Size([6, 6]), torch.Size([6, 6]))
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from invariscope.errors import ConfigError
from invariscope.models import Transformer, TransformerConfig
from invariscope.models.transformer import Block
from invariscope.tasks import AssignAdd

__all__ = ["HeadWeights", "block_of", "check_model", "head_weights", "query_key", "score_scale", "value_output"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeadWeights:
    """The four matrices of one head, acting on rows, in float64.

    Args:
        query, key, value: [D, d]. output: [d, D].
    """

    query: Float[Tensor, "D d"]
    key: Float[Tensor, "D d"]
    value: Float[Tensor, "D d"]
    output: Float[Tensor, "d D"]


def block_of(model: Transformer, layer: int) -> Block:
    """One block, whose parts can be called by name."""
    block = model.blocks[layer]
    assert isinstance(block, Block)
    return block


def head_weights(model: Transformer, layer: int, head: int | None = None) -> HeadWeights:
    """The matrices of a head.

    Args:
        model: whose head. layer: from 0. head: from 0; None: the only one.

    Raises:
        ConfigError: for a layer or head that is not there, or several heads of which none is named.
    """
    config = model.config
    if not 0 <= layer < config.num_layers:
        raise ConfigError(f"layer {layer} of a model of {config.num_layers}", expected="a layer from 0 on", do="name a layer")
    num_heads = config.layer("num_heads", layer)
    if head is None and num_heads > 1:
        raise ConfigError(f"layer {layer}, which has {num_heads} heads", expected="which head is meant", do="give head=")
    index = 0 if head is None else head
    if not 0 <= index < num_heads:
        raise ConfigError(f"head {head} of {num_heads}", expected=f"from 0 to {num_heads - 1}", do="name a head")
    attention = block_of(model, layer).attention
    stacked, output = attention.query_key_value.weight, attention.output.weight
    width = output.shape[0]
    query, key, value = stacked.detach().double().view(3, num_heads, -1, width)[:, index].transpose(1, 2)
    return HeadWeights(query=query, key=key, value=value, output=output.detach().double().view(width, num_heads, -1)[:, index].T)


def value_output(model: Transformer, layer: int, head: int | None = None) -> Float[Tensor, "D D"]:
    """``OV = W_V W_O``, acting on rows, in float64; arguments as :func:`head_weights`."""
    weights = head_weights(model, layer, head)
    return weights.value @ weights.output


def query_key(model: Transformer, layer: int, head: int | None = None) -> Float[Tensor, "D D"]:
    """``QK = W_Q W_K^T``, unscaled, acting on rows, in float64; arguments as :func:`head_weights`."""
    weights = head_weights(model, layer, head)
    return weights.query @ weights.key.T


def score_scale(model: Transformer, layer: int) -> float:
    """What the model divides the scores of a layer's heads by, sqrt(d)."""
    config = model.config
    return math.sqrt(config.layer("head_width", layer) or config.width // config.layer("num_heads", layer))


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
