"""Heads as linear maps against the model's own attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from invariscope.models.linear_parts import LinearParts
from invariscope.sites import read_sites

TOKENS = torch.randint(1, 50, (3, 6), generator=torch.Generator().manual_seed(0))


def normed(x: Tensor, *, centred: bool) -> Tensor:
    x = x - x.mean(-1, keepdim=True) if centred else x
    return x / x.square().mean(-1, keepdim=True).sqrt()


def check_against_the_model(parts: LinearParts, model: nn.Module, layer: int, *, norm: bool, centred: bool = True) -> None:
    """Patterns and head outputs of the model at a layer are those of the parts."""
    sites = [f"blocks.{layer}.{name}" for name in ("resid_pre", "attn_pattern", "attn_heads")]
    with torch.no_grad(), read_sites(model, sites) as seen:
        model(TOKENS)
    heads, (B, T) = parts.layers[layer], TOKENS.shape
    x = seen[sites[0]].view(B, 1, T, -1).double()
    assert heads.norm == ("none" if not norm else "layer" if centred else "rms")
    x = heads.over_size(x)
    q, k, v = (
        x @ matrix + bias[:, None]
        for matrix, bias in (
            (heads.query, heads.query_bias),
            (heads.key, heads.key_bias),
            (heads.value, heads.value_bias),
        )
    )
    if parts.rotary is not None:
        q, k = parts.rotary.turn(q, slice(0, T)), parts.rotary.turn(k, slice(0, T))
    scores = heads.scale * q @ k.transpose(-1, -2)
    pattern = scores.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -torch.inf).softmax(-1)
    assert torch.allclose(pattern, seen[sites[1]].view(B, T, -1, T).transpose(1, 2).double(), atol=2e-5)
    moved = seen[sites[2]].view(B, T, heads.num_heads, -1).transpose(1, 2).double()
    assert torch.allclose(pattern @ v, moved, atol=1e-4)
