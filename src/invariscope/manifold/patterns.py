"""Induction by what heads attend to: the definition that coordinates are compared with (Olsson et al., arXiv:2209.11895).

On random tokens that are repeated once, a **previous-token head** attends from each token to the one before, and an **induction
head** from each token of the second half to the one after its first occurrence.

>>> from invariscope.models import TransformerConfig
>>> config = TransformerConfig(vocab_size=6, context_length=8, num_layers=2, width=8, num_heads=2, mlp_width=0)
>>> model = Transformer(config, generator=torch.Generator().manual_seed(0))
>>> found = induction_patterns(model, torch.arange(6), num_sequences=3, period=4, generator=torch.Generator().manual_seed(0))
>>> found.heads, found.induction.shape, round(found.even, 3)
(((0, 0), (0, 1), (1, 0), (1, 1)), torch.Size([3, 4]), 0.159)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from invariscope.batch import text_inputs
from invariscope.errors import ConfigError
from invariscope.models import LanguageModel, Transformer
from invariscope.sites import list_sites, read_sites

__all__ = ["InductionPatterns", "induction_patterns", "repeated_tokens"]

ROWS_AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InductionPatterns:
    """Mean attention weights of N heads on B sequences.

    Args:
        heads: (layer, head) of each, from the lowest layer.
        previous: from each token to the one before, [B, N].
        induction: from each token of the second half to the one after its first occurrence, [B, N].
        even: what the latter is where a head attends to all it sees alike.
    """

    heads: tuple[tuple[int, int], ...]
    previous: Float[Tensor, "B N"]
    induction: Float[Tensor, "B N"]
    even: float


def repeated_tokens(
    tokens: Int[Tensor, "n"], *, num_sequences: int, period: int, generator: torch.Generator
) -> Int[Tensor, "B T"]:
    """Sequences of ``period`` tokens drawn alike from ``tokens``, twice over."""
    half = tokens[torch.randint(len(tokens), (num_sequences, period), generator=generator)]
    return torch.cat([half, half], 1)


def induction_patterns(
    model: nn.Module | LanguageModel,
    tokens: Int[Tensor, "n"],
    *,
    num_sequences: int = 8,
    period: int = 64,
    generator: torch.Generator,
) -> InductionPatterns:
    """Where each head attends on repeated random tokens.

    Args:
        model: a :class:`Transformer`, or a language model, itself or as loaded, whose attention is ``eager``.
        tokens: ids that are drawn from. num_sequences: B. period: tokens that are repeated. generator: of the draws.

    Raises:
        ConfigError: for a period below 2, no tokens, and attention that does not return its weights.
        UnknownNameError: for a model without such sites.
    """
    if period < 2 or num_sequences < 1 or not len(tokens):
        raise ConfigError(
            f"{num_sequences} sequences of {period} tokens repeated, drawn from {len(tokens)}",
            expected="a sequence of two tokens or more, and tokens to draw from",
            do="raise period",
        )
    module = model.model if isinstance(model, LanguageModel) else model
    sequences = repeated_tokens(tokens, num_sequences=num_sequences, period=period, generator=generator)
    blocks = {name.split(".")[1] for name in list_sites(module) if name.startswith("blocks.")}
    sites = [f"blocks.{layer}.attn_pattern" for layer in range(len(blocks))]
    queries = torch.arange(period, 2 * period)
    device = next(module.parameters()).device
    previous, induction, heads = [], [], ()
    for rows in sequences.split(ROWS_AT_ONCE):
        inputs: dict[str, Any] = {"tokens": rows} if isinstance(module, Transformer) else text_inputs(rows.tolist())
        with torch.no_grad(), read_sites(module, sites) as seen:
            module(**{name: value.to(device) for name, value in inputs.items()})
            patterns = [seen[site].view(len(rows), 2 * period, -1, 2 * period).double().cpu() for site in sites]
        heads = tuple((layer, head) for layer, one in enumerate(patterns) for head in range(one.shape[2]))
        pattern = torch.cat(patterns, 2)
        previous.append(pattern[:, torch.arange(1, 2 * period), :, torch.arange(2 * period - 1)].mean(0))
        induction.append(pattern[:, queries, :, queries - period + 1].mean(0))
    return InductionPatterns(
        heads=heads,
        previous=torch.cat(previous),
        induction=torch.cat(induction),
        even=float((1 / (queries + 1.0)).mean()),
    )
