"""The heads of a language model of Hugging Face as linear maps: every family's own storage, read by one table.

Which modules hold what, :mod:`invariscope.sites.families` says. Grouped keys and values are repeated: each head has its own.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from invariscope.errors import ConfigError
from invariscope.models.heads import FoldedNorm, LayerHeads, fold_norm
from invariscope.sites.families import FAMILIES, AttentionPlaces, Located

__all__ = ["attention_places", "language_heads", "norm_of"]


def attention_places(located: Located) -> AttentionPlaces:
    """Where the weights of the heads are.

    Raises:
        ConfigError: for a family whose heads are no linear maps.
    """
    if located.family.attention is None:
        fit = ", ".join(name for name, family in FAMILIES.items() if family.attention is not None)
        raise ConfigError(
            f"a model of type {located.model_type!r}, whose heads have norms of their own",
            expected=f"heads that are linear maps, as of {fit}",
            do="look at its attention patterns instead: induction_patterns(model, ...)",
        )
    return located.family.attention


def norm_of(module: nn.Module) -> tuple[Tensor, Tensor | None, FoldedNorm]:
    """Gain, bias and kind of a layer norm or an RMS norm."""
    gain, bias = module.weight, getattr(module, "bias", None)
    assert isinstance(gain, Tensor)
    return gain, bias if isinstance(bias, Tensor) else None, "layer" if isinstance(module, nn.LayerNorm) else "rms"


def language_heads(located: Located, layer: int) -> LayerHeads:
    """All heads of a layer with the norm in front folded in; gradients pass.

    Raises:
        ConfigError: for a family whose heads are no linear maps.
    """
    places, block = attention_places(located), located.blocks[layer]
    config: Any = located.config
    H = int(config.num_attention_heads)

    def stored(path: str) -> tuple[Float[Tensor, "D outputs"], Float[Tensor, "outputs"]]:
        module = block.get_submodule(path)
        weight = module.weight
        assert isinstance(weight, Tensor)
        matrix = weight.double() if places.inputs_first else weight.double().T
        bias = getattr(module, "bias", None)
        return matrix, bias.double() if isinstance(bias, Tensor) else matrix.new_zeros(matrix.shape[1])

    def heads(matrix: Tensor, bias: Tensor) -> tuple[Float[Tensor, "H D d"], Float[Tensor, "H d"]]:
        groups = matrix.shape[1] // width
        split, biases = matrix.view(-1, groups, width).transpose(0, 1), bias.view(groups, width)
        return split.repeat_interleave(H // groups, 0), biases.repeat_interleave(H // groups, 0)

    output, _ = stored(places.output)
    width = output.shape[0] // H
    first, first_bias = stored(places.query)
    if places.packing:
        # Head by head, each with its query, key and value side by side; or all queries, then all keys, then all values.
        by_head = places.packing == "heads"
        shape = (H, 3, width) if by_head else (3, H, width)
        matrices, biases = first.view(-1, *shape), first_bias.view(shape)
        if by_head:
            matrices, biases = matrices.transpose(1, 2), biases.transpose(0, 1)
        (query, key, value), (query_bias, key_bias, value_bias) = matrices.permute(1, 2, 0, 3), biases
    else:
        query, query_bias = heads(first, first_bias)
        key, key_bias = heads(*stored(places.key))
        value, value_bias = heads(*stored(places.value))
    attention: Any = block.get_submodule(places.module)
    found = LayerHeads(
        query=query,
        key=key,
        value=value,
        output=output.view(H, width, -1),
        query_bias=query_bias,
        key_bias=key_bias,
        value_bias=value_bias,
        scale=float(attention.scaling),
        shared=H // int(getattr(config, "num_key_value_heads", None) or H),
    )
    return fold_norm(found, *norm_of(block.get_submodule(places.norm)))
