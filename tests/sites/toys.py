"""Small models of every shape that a site can have, and what a test compares before and after."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from invariscope.models import Transformer, TransformerConfig

__all__ = [
    "HuggingFaceLike",
    "Keywords",
    "Output",
    "Pair",
    "Pooled",
    "StopHereError",
    "Tuples",
    "padded",
    "seeded",
    "small_transformer",
    "state_of",
    "tokens_of",
]

Pair = namedtuple("Pair", ["hidden", "extra"])


class StopHereError(Exception):
    """What a test raises to see what is left behind."""


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def small_transformer(dtype: torch.dtype = torch.float64, **choices: Any) -> Transformer:
    """A transformer of width 6 whose biases and gains are not at their special initial values."""
    fields = {"vocab_size": 5, "context_length": 5, "width": 6, "num_heads": 2, "mlp_width": 8, "num_layers": 2} | choices
    model = Transformer(TransformerConfig(**fields), generator=seeded(0)).double()
    generator = seeded(9)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
    return model.to(dtype)


def tokens_of(rows: int = 3, length: int = 5, seed: int = 1) -> Tensor:
    return torch.randint(0, 5, (rows, length), generator=seeded(seed))


def state_of(model: nn.Module) -> dict[str, Any]:
    """Hooks, modes, flags and weights of a model, and the global random state: what must be as before."""
    registries = [
        *("_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs"),
        *("_forward_hooks_always_called", "_backward_hooks", "_backward_pre_hooks"),
    ]
    return {
        "hooks": [[tuple(getattr(module, name)) for name in registries] for module in model.modules()],
        "training": [module.training for module in model.modules()],
        "requires_grad": [parameter.requires_grad for parameter in model.parameters()],
        "no grad": [parameter.grad is None for parameter in model.parameters()],
        "weights": [parameter.tolist() for parameter in model.state_dict().values()],
        "rng": torch.get_rng_state().tolist(),
        "grad mode": torch.is_grad_enabled(),
    }


class Split(nn.Module):
    """Gives a tuple, plain or named, whose first entry is the hidden state."""

    def __init__(self, named: bool) -> None:
        super().__init__()
        self.named = named

    def forward(self, x: Tensor) -> Any:
        return Pair(x * 2, "extra") if self.named else (x * 2, "extra", 3)


class Tuples(nn.Module):
    """A block whose output is a tuple, read by name or by place."""

    def __init__(self, named: bool = False) -> None:
        super().__init__()
        self.block = Split(named)
        self.last_extra: Any = None

    def forward(self, x: Tensor) -> Tensor:
        out = self.block(x)
        self.last_extra = tuple(out)[1:]
        return (out.hidden if isinstance(out, Pair) else out[0]) + 1


class Inner(nn.Module):
    """Takes its input by keyword only."""

    def forward(self, *, scale: float, hidden_states: Tensor) -> Tensor:
        return hidden_states * scale


class Keywords(nn.Module):
    """Calls a module with keywords only."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(scale=3.0, hidden_states=x)


class Pooled(nn.Module):
    """Gives one vector a sequence, [B, D], from one a token."""

    def __init__(self) -> None:
        super().__init__()
        self.pool, self.head = nn.Identity(), nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(x.mean(1)) ** 2)


@dataclass
class Output:
    """What Hugging Face's models give: an object with ``logits``."""

    logits: Tensor


class HuggingFaceLike(nn.Module):
    """The outside of a Hugging Face model: token ids and an attention mask in, an object with logits out.

    Every token gets the mean of the real tokens up to itself, so padding on either side gives the same numbers.
    """

    def __init__(self, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(9, 4, generator=seeded(3), dtype=dtype))
        self.places = nn.Parameter(torch.randn(8, 4, generator=seeded(4), dtype=dtype))
        self.mixed, self.after = nn.Identity(), nn.Tanh()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Output:
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        place = (mask.cumsum(1) - 1).clamp_min(0)
        x = (F.embedding(input_ids, self.table) + F.embedding(place, self.places)) * mask[..., None]
        x = x.cumsum(1) / mask.cumsum(1).clamp_min(1)[..., None]
        return Output(logits=self.after(self.mixed(x)) @ self.table.T)


def padded(sequences: list[list[int]], side: str) -> dict[str, Tensor]:
    """Token ids and attention mask of the sequences, padded left or right with token 8."""
    width = max(map(len, sequences)) + 1

    def fill(row: list[int], pad: int) -> list[int]:
        pads = [pad] * (width - len(row))
        return pads + row if side == "left" else row + pads

    ids = [fill(sequence, 8) for sequence in sequences]
    mask = [fill([1] * len(sequence), 0) for sequence in sequences]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}
