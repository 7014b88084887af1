"""The model as others write it, and the loops that train it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from assign_add_parts.setting import BETAS, LEARNING_RATE, WEIGHT_DECAY


class BookBlock(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        if hidden:
            self.up, self.down = nn.Linear(width, hidden, bias=False), nn.Linear(hidden, width, bias=False)
        self.hidden = hidden

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part(x)[:, None] for part in (self.q, self.k, self.v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True)[:, 0])
        return x + self.down(F.relu(self.up(x))) if self.hidden else x


class BookModel(nn.Module):
    """The model as a textbook writes it: logits at every position."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        super().__init__()
        (vocab, width), length = weights["token_embedding"].shape, len(weights["position_embedding"])
        self.tokens, self.positions = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([BookBlock(width, 0), BookBlock(width, len(weights["blocks.1.mlp_input.weight"]))])
        self.out = nn.Linear(width, len(weights["unembedding.weight"]), bias=False)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                parameter.copy_(parts_of(weights)[BOOK_NAMES.get(name, name)])

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.out(x)


BOOK_NAMES = {"tokens.weight": "embed", "positions.weight": "position", "out.weight": "unembed"} | {
    f"blocks.{layer}.{name}.weight": f"{layer}.{name}" for layer in (0, 1) for name in ("q", "k", "v", "o", "up", "down")
}


def parts_of(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Our weights under short names, with queries, keys and values apart."""
    parts = {
        "embed": weights["token_embedding"],
        "position": weights["position_embedding"],
        "unembed": weights["unembedding.weight"],
        "1.up": weights["blocks.1.mlp_input.weight"],
        "1.down": weights["blocks.1.mlp_output.weight"],
    }
    for layer in (0, 1):
        parts |= dict(
            zip(
                (f"{layer}.q", f"{layer}.k", f"{layer}.v"),
                weights[f"blocks.{layer}.attention.query_key_value.weight"].chunk(3),
                strict=True,
            )
        )
        parts[f"{layer}.o"] = weights[f"blocks.{layer}.attention.output.weight"]
    return parts


class Nothing(nn.Module):
    """In the place of an MLP that adds nothing."""

    def forward(self, x: Tensor, *_: object, **__: object) -> Tensor:
        return torch.zeros_like(x)


def lens_model(weights: dict[str, Tensor], *, bypass: bool = False) -> nn.Module:
    """TransformerLens's native model with our weights; biases and the first layer's MLP zero and frozen."""
    from transformer_lens.config import TransformerBridgeConfig
    from transformer_lens.model_bridge import TransformerBridge

    parts = parts_of(weights)
    (vocab, width), length = parts["embed"].shape, len(parts["position"])
    config = TransformerBridgeConfig(
        n_layers=2,
        d_model=width,
        n_ctx=length,
        d_head=width,
        n_heads=1,
        d_mlp=len(parts["1.up"]),
        d_vocab=vocab,
        d_vocab_out=len(parts["unembed"]),
        act_fn="relu",
        normalization_type=None,
        positional_embedding_type="standard",
        seed=0,
        device="cpu",
    )
    model = TransformerBridge.boot_native(config)
    names = {"tok_embed.weight": "embed", "pos.weight": "position", "head.weight": "unembed"}
    names |= {f"layers.{layer}.attn.{name}.weight": f"{layer}.{name}" for layer in (0, 1) for name in "qkvo"}
    names |= {"layers.1.mlp.fc_in.weight": "1.up", "layers.1.mlp.fc_out.weight": "1.down"}
    found = 0
    with torch.no_grad():
        for long, parameter in model.named_parameters():
            name = names.get(long.replace("_original_component.", ""))
            found += name is not None
            parameter.requires_grad_(name is not None)
            parameter.copy_(torch.zeros_like(parameter) if name is None else parts[name])
    assert found == len(parts), f"TransformerLens has {found} of our {len(parts)} matrices"
    if bypass:
        model.blocks[0].mlp = Nothing()
    return model


def ordinary_loop(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> list[float]:
    """AdamW as it comes on the last of all positions' logits; the losses."""
    optimiser = torch.optim.AdamW(
        [parameter for parameter in model.parameters() if parameter.requires_grad],
        lr=LEARNING_RATE,
        betas=BETAS,
        weight_decay=WEIGHT_DECAY,
    )
    losses = []
    for tokens, targets in batches:
        optimiser.zero_grad()
        loss = F.cross_entropy(model(tokens)[:, -1], targets)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def folded_loop(model: Any, batches: Iterable[tuple[Tensor, Tensor]]) -> list[float]:
    """What ``iv.train`` does in a step, on ready batches and in the model's own type."""
    from invariscope.models import folded_logits

    optimiser = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=BETAS, weight_decay=WEIGHT_DECAY, fused=True)
    losses = []
    for tokens, targets in batches:
        optimiser.zero_grad(set_to_none=True)
        loss = F.cross_entropy(folded_logits(model, tokens), targets)
        losses.append(float(loss.detach()))
        loss.backward()
        optimiser.step()
    return losses
