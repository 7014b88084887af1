"""A transformer as the linear maps that it is made of, MLPs aside: embeddings, heads, unembedding, with norms folded in.

What a norm divides by depends on all that stands in the stream, so that only its gain can be folded (``fold_ln`` of
TransformerLens does the same). A token is given as a first layer would read it if it stood alone: divided by its own size;
positions are divided by the mean size of tokens.

>>> from invariscope.models.transformer import TransformerConfig
>>> config = TransformerConfig(vocab_size=5, context_length=4, width=6, num_heads=2, num_layers=2, mlp_width=0)
>>> parts = linear_parts(Transformer(config, generator=torch.Generator().manual_seed(0)))
>>> parts.tokens.shape, parts.positions.shape, parts.unembedding.shape, len(parts.layers), parts.heads[-1]
(torch.Size([5, 6]), torch.Size([4, 6]), torch.Size([6, 5]), 2, (1, 1))
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from invariscope.batch import Batch, check_batches
from invariscope.errors import ConfigError
from invariscope.models.heads import FoldedNorm, LayerHeads, block_of, fold_norm, over_size, split_heads
from invariscope.models.language_heads import attention_places, language_heads, norm_of
from invariscope.models.transformer import Transformer
from invariscope.sites import read_sites
from invariscope.sites.families import FAMILIES, Located, locate

__all__ = ["LinearParts", "Rotary", "linear_parts", "mean_reads"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rotary:
    """Rotary position embeddings (Su et al., arXiv:2104.09864) of the first r entries of a query or key.

    Args:
        cos, sin: at each position, [P, r].
    """

    cos: Float[Tensor, "P r"]
    sin: Float[Tensor, "P r"]

    def turn(self, x: Float[Tensor, "*n d"], position: int | slice) -> Float[Tensor, "*n d"]:
        """Queries or keys as they are at a position, or at those of a slice, one a row."""
        cos, sin = self.cos[position], self.sin[position]
        r = cos.shape[-1]
        turned, rest = x[..., :r], x[..., r:]
        lower, upper = turned.chunk(2, -1)
        return torch.cat([turned * cos + torch.cat([-upper, lower], -1) * sin, rest], -1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearParts:
    """The parts, acting on rows, in float64.

    Args:
        tokens: embeddings, [V, D]. positions: learned ones, [P, D]; None: there are none.
        unembedding: [D, outputs], the gain of the final norm folded in; its biases shift all tokens' logits alike.
        layers: their heads. rotary: what turns queries and keys; None: nothing does.
        causal: whether a token sees earlier ones only.
    """

    tokens: Float[Tensor, "V D"]
    positions: Float[Tensor, "P D"] | None
    unembedding: Float[Tensor, "D outputs"]
    layers: tuple[LayerHeads, ...]
    rotary: Rotary | None = None
    causal: bool = True

    @property
    def heads(self) -> tuple[tuple[int, int], ...]:
        """(layer, head) of every head, from the lowest layer."""
        return tuple((layer, head) for layer, one in enumerate(self.layers) for head in range(one.num_heads))


def linear_parts(model: nn.Module, *, num_positions: int = 64) -> LinearParts:
    """The parts of one of our transformers, or of a language model of a known family; gradients pass.

    Args:
        model: a :class:`Transformer`, or what transformers builds.
        num_positions: for which rotary embeddings are kept.

    Raises:
        ConfigError: for any other model, for post-norms, and for heads that are no linear maps.
    """
    if isinstance(model, Transformer):
        return _ours(model)
    located = locate(model)
    if located is None or located.unembedding is None:
        raise ConfigError(
            f"a model of class {type(model).__name__}",
            expected=f"our Transformer, or one causal language model of {', '.join(FAMILIES)}",
            do="take its matrices apart yourself, or look at its attention patterns",
        )
    return _language(located, num_positions)


def _ours(model: Transformer) -> LinearParts:
    config = model.config
    norms = [config.layer("norm", layer) for layer in range(config.num_layers)]
    if "post" in norms:
        raise ConfigError(
            "a model with norm='post', whose norms mix what is written with all that stands there",
            expected="norms in front of what reads, or none",
            do="train with norm='pre' or norm='none'",
        )
    layers = []
    for layer, norm in enumerate(norms):
        heads = split_heads(model, layer)
        if norm == "pre":
            heads = fold_norm(heads, *norm_of(block_of(model, layer).attention_norm))
        layers.append(heads)
    positions = model.position_embedding.double() if config.positions == "learned" else None
    tokens = model.token_embedding.double()
    if "pre" in norms:
        tokens, positions = _alone(tokens, positions, "layer")
    unembedding = model.unembedding.weight.double().T
    if isinstance(model.final_norm, nn.LayerNorm):
        unembedding = _fold_final(model.final_norm, unembedding)
    return LinearParts(tokens=tokens, positions=positions, unembedding=unembedding, layers=tuple(layers), causal=config.causal)


def _language(located: Located, num_positions: int) -> LinearParts:
    places, base = attention_places(located), located.base
    final: Any = base.get_submodule(located.family.final_norm)
    embedded: Any = base.get_submodule(located.family.tokens)
    learned: Any = base.get_submodule(located.family.positions) if located.family.positions else None
    _, _, norm = norm_of(located.blocks[0].get_submodule(places.norm))
    positions = None if learned is None else learned.weight.double()
    tokens, positions = _alone(embedded.weight.double(), positions, norm)
    assert located.unembedding is not None
    head: Any = located.unembedding
    return LinearParts(
        tokens=tokens,
        positions=positions,
        unembedding=_fold_final(final, head.weight.double().T),
        layers=tuple(language_heads(located, layer) for layer in range(len(located.blocks))),
        rotary=None if learned is not None else _rotary(base, num_positions),
    )


def _rotary(base: nn.Module, num_positions: int) -> Rotary:
    turning: Any = base.get_submodule("rotary_emb")
    device = next(base.parameters()).device
    with torch.no_grad():
        cos, sin = turning(torch.zeros(1, device=device), torch.arange(num_positions, device=device)[None])
    return Rotary(cos=cos[0].double(), sin=sin[0].double())


def _alone(tokens: Tensor, positions: Tensor | None, norm: FoldedNorm) -> tuple[Tensor, Tensor | None]:
    alone = over_size(tokens, norm)
    # One number for all positions: they are read together with tokens.
    ratio = alone.norm(dim=1).mean() / tokens.norm(dim=1).mean()
    return alone, None if positions is None else positions * ratio


def _fold_final(norm: nn.Module, unembedding: Tensor) -> Tensor:
    gain, _, kind = norm_of(norm)
    folded = gain.double()[:, None] * unembedding
    return folded - folded.mean(0, keepdim=True) if kind == "layer" else folded


def mean_reads(model: nn.Module, parts: LinearParts, batches: Iterable[Batch]) -> list[Float[Tensor, "P D"]]:
    """What each layer's heads read at each place, on the average over sequences, as the folded matrices take it.

    Args:
        model: whose parts they are. batches: sequences of one length, without padding.

    Raises:
        ConfigError: for padding, sequences of several lengths, or none.
    """
    sites = [f"blocks.{layer}.resid_pre" for layer in range(len(parts.layers))]
    device = next(model.parameters()).device
    sums: list[Tensor] = []
    num = 0
    for given in check_batches(batches):
        batch = given.to(device)
        if (batch.valid is not None and not bool(batch.valid.all())) or (sums and batch.length != len(sums[0])):
            raise ConfigError(
                f"a batch of {batch.num_rows} sequences up to {batch.length} tokens long, padded or of another length",
                expected="sequences of one length, so that places mean the same in all of them",
                do="cut them to one length",
            )
        with torch.no_grad(), read_sites(model, sites) as seen:
            model(**batch.inputs)
            shape = (batch.num_rows, batch.length, -1)
            found = [heads.over_size(seen[site].view(shape)).sum(0) for heads, site in zip(parts.layers, sites, strict=True)]
        sums = [old + new for old, new in zip(sums, found, strict=True)] if sums else found
        num += batch.num_rows
    if not sums:
        raise ConfigError("no batches", expected="sequences", do="give batches")
    return [one / num for one in sums]
