"""The matrices that attention heads amount to.

Acting on rows, a head scores ``x_query QK x_key^T`` with ``QK = W_Q W_K^T`` and moves ``x_key OV`` with ``OV = W_V W_O``
(Elhage et al. 2021, *A Mathematical Framework for Transformer Circuits*). Both are D x D whatever the head's width. QK is left
unscaled, as in arXiv:2605.31497; the model's own scores are divided by sqrt(d).

:func:`split_heads` gives all heads of a layer at once and lets gradients through; :func:`fold_norm` takes the gain of the norm
in front into the matrices, so that what they act on is the residual stream over its own size.

Legend of shapes: D width, d head width, H heads. Layers count from 0, as sites do: the paper's layer 2 is layer 1 here.

>>> import torch
>>> config = TransformerConfig(vocab_size=5, context_length=4, width=6, num_heads=1, num_layers=2, mlp_width=(0, 8))
>>> model = Transformer(config, generator=torch.Generator().manual_seed(0))
>>> value_output(model, 0).shape, query_key(model, 1).shape
(torch.Size([6, 6]), torch.Size([6, 6]))
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from invariscope.errors import ConfigError
from invariscope.models.transformer import Block, Transformer, TransformerConfig

__all__ = [
    "FoldedNorm",
    "HeadWeights",
    "LayerHeads",
    "block_of",
    "fold_norm",
    "head_weights",
    "over_size",
    "query_key",
    "score_scale",
    "split_heads",
    "value_output",
]

FoldedNorm = Literal["none", "rms", "layer"]


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerHeads:
    """All heads of a layer, acting on rows, in float64; heads that share keys and values have them repeated.

    Args:
        query, key, value: [H, D, d]; their biases [H, d].
        output: [H, d, D].
        scale: what scores are multiplied by, as a rule 1 / sqrt(d).
        shared: how many heads in a row have the same keys and values.
        norm: folded in, ``rms`` or ``layer``: what the matrices act on is then what stands there over its size.
    """

    query: Float[Tensor, "H D d"]
    key: Float[Tensor, "H D d"]
    value: Float[Tensor, "H D d"]
    output: Float[Tensor, "H d D"]
    query_bias: Float[Tensor, "H d"]
    key_bias: Float[Tensor, "H d"]
    value_bias: Float[Tensor, "H d"]
    scale: float
    shared: int = 1
    norm: FoldedNorm = "none"

    @property
    def num_heads(self) -> int:
        """H."""
        return self.query.shape[0]

    def over_size(self, x: Float[Tensor, "*n D"]) -> Float[Tensor, "*n D"]:
        """The residual stream as the matrices take it; a row of noughts stays one. What a norm adds to the size is left out."""
        return over_size(x.double(), self.norm)


def over_size(x: Float[Tensor, "*n D"], norm: FoldedNorm) -> Float[Tensor, "*n D"]:
    """Rows over what a norm without gain divides by, the mean still in them: the folded matrices take it off."""
    if norm == "none":
        return x
    seen = x - x.mean(-1, keepdim=True) if norm == "layer" else x
    size = seen.square().mean(-1, keepdim=True).sqrt()
    return x / torch.where(size > 0, size, 1.0)


def block_of(model: Transformer, layer: int) -> Block:
    """One block, whose parts can be called by name."""
    block = model.blocks[layer]
    assert isinstance(block, Block)
    return block


def split_heads(model: Transformer, layer: int) -> LayerHeads:
    """All heads of a layer as they stand in the weights, with no norm folded in; gradients pass.

    Raises:
        ConfigError: for a layer that is not there.
    """
    _check_layer(model.config, layer)
    attention = block_of(model, layer).attention
    H, d = attention.num_heads, attention.head_width
    weight, output = attention.query_key_value.weight.double(), attention.output.weight.double()
    query, key, value = weight.view(3, H, d, -1).transpose(2, 3)
    bias = attention.query_key_value.bias
    biases = weight.new_zeros(3, H, d) if bias is None else bias.double().view(3, H, d)
    return LayerHeads(
        query=query,
        key=key,
        value=value,
        output=output.view(-1, H, d).permute(1, 2, 0),
        query_bias=biases[0],
        key_bias=biases[1],
        value_bias=biases[2],
        scale=1 / score_scale(model, layer),
    )


def fold_norm(heads: LayerHeads, gain: Float[Tensor, "D"], bias: Float[Tensor, "D"] | None, norm: FoldedNorm) -> LayerHeads:
    """The heads behind a norm: with n(x) = g x / |x| + b, queries of n(x) are those of the folded heads of x / |x|.

    Args:
        heads: of the layer. gain, bias: of the norm; None: it has no bias.
        norm: ``layer`` takes the mean off first; the matrices then do.
    """

    def fold(matrix: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        folded = gain.double()[:, None] * matrix
        after = before if bias is None else before + bias.double() @ matrix
        return (folded - folded.mean(1, keepdim=True) if norm == "layer" else folded), after

    query, query_bias = fold(heads.query, heads.query_bias)
    key, key_bias = fold(heads.key, heads.key_bias)
    value, value_bias = fold(heads.value, heads.value_bias)
    return dataclasses.replace(
        heads,
        query=query,
        key=key,
        value=value,
        query_bias=query_bias,
        key_bias=key_bias,
        value_bias=value_bias,
        norm=norm,
    )


def _check_layer(config: TransformerConfig, layer: int) -> None:
    if not 0 <= layer < config.num_layers:
        raise ConfigError(f"layer {layer} of a model of {config.num_layers}", expected="a layer from 0 on", do="name a layer")


def head_weights(model: Transformer, layer: int, head: int | None = None) -> HeadWeights:
    """The matrices of a head, without gradients and with no norm folded in.

    Args:
        model: whose head. layer: from 0. head: from 0; None: the only one.

    Raises:
        ConfigError: for a layer or head that is not there, or several heads of which none is named.
    """
    _check_layer(model.config, layer)
    num_heads = model.config.layer("num_heads", layer)
    if head is None and num_heads > 1:
        raise ConfigError(f"layer {layer}, which has {num_heads} heads", expected="which head is meant", do="give head=")
    index = 0 if head is None else head
    if not 0 <= index < num_heads:
        raise ConfigError(f"head {head} of {num_heads}", expected=f"from 0 to {num_heads - 1}", do="name a head")
    heads = split_heads(model, layer)
    query, key, value, output = (part[index].detach() for part in (heads.query, heads.key, heads.value, heads.output))
    return HeadWeights(query=query, key=key, value=value, output=output)


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
