"""The forward pass of HookedTransformer, written out on its state dict as an oracle, and such state dicts drawn at random."""

from __future__ import annotations

import torch
from torch import Tensor


def random_hooked(
    *,
    layers: int = 2,
    vocab: int = 7,
    outputs: int = 5,
    context: int = 6,
    width: int = 8,
    heads: int = 2,
    head_width: int = 4,
    hidden: int = 12,
    norm: bool = False,
    biases: bool = False,
    seed: int = 0,
) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return 0.4 * torch.randn(*shape, generator=generator)

    def bias(*shape: int) -> Tensor:
        return draw(*shape) if biases else torch.zeros(*shape)

    tensors = {"embed.W_E": draw(vocab, width), "pos_embed.W_pos": draw(context, width)}
    for layer in range(layers):
        block = f"blocks.{layer}."
        if norm:
            tensors |= {f"{block}ln{i}.{x}": draw(width) for i in (1, 2) for x in "wb"}
        tensors |= {f"{block}attn.W_{x}": draw(heads, width, head_width) for x in "QKV"}
        tensors |= {f"{block}attn.W_O": draw(heads, head_width, width), f"{block}attn.b_O": bias(width)}
        tensors |= {f"{block}attn.b_{x}": bias(heads, head_width) for x in "QKV"}
        tensors |= {f"{block}attn.mask": torch.ones(context, context).tril().bool(), f"{block}attn.IGNORE": torch.tensor(-1e5)}
        tensors |= {f"{block}mlp.W_in": draw(width, hidden), f"{block}mlp.b_in": bias(hidden)}
        tensors |= {f"{block}mlp.W_out": draw(hidden, width), f"{block}mlp.b_out": bias(width)}
    if norm:
        tensors |= {f"ln_final.{x}": draw(width) for x in "wb"}
    return tensors | {"unembed.W_U": draw(width, outputs), "unembed.b_U": bias(outputs)}


def hooked_logits(tensors: dict[str, Tensor], tokens: Tensor) -> Tensor:
    def normed(name: str, x: Tensor) -> Tensor:
        if f"{name}.w" not in tensors:
            return x
        centred = x - x.mean(-1, keepdim=True)
        scale = (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()
        return centred / scale * tensors[f"{name}.w"] + tensors[f"{name}.b"]

    length = tokens.shape[1]
    x = tensors["embed.W_E"][tokens] + tensors["pos_embed.W_pos"][:length]
    for layer in range(1 + max(int(key.split(".")[1]) for key in tensors if key.startswith("blocks."))):
        block = f"blocks.{layer}."
        read = normed(f"{block}ln1", x)
        q, k, v = (
            torch.einsum("btm,hmd->bthd", read, tensors[f"{block}attn.W_{n}"]) + tensors[f"{block}attn.b_{n}"] for n in "QKV"
        )
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / tensors[f"{block}attn.W_Q"].shape[2] ** 0.5
        later = torch.ones(length, length).triu(1).bool()
        z = torch.einsum("bhqk,bkhd->bqhd", scores.masked_fill(later, -torch.inf).softmax(-1), v)
        x = x + torch.einsum("bqhd,hdm->bqm", z, tensors[f"{block}attn.W_O"]) + tensors[f"{block}attn.b_O"]
        hidden = normed(f"{block}ln2", x) @ tensors[f"{block}mlp.W_in"] + tensors[f"{block}mlp.b_in"]
        x = x + hidden.relu() @ tensors[f"{block}mlp.W_out"] + tensors[f"{block}mlp.b_out"]
    return normed("ln_final", x) @ tensors["unembed.W_U"] + tensors["unembed.b_U"]
