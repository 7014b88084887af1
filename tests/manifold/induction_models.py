"""An induction circuit written by hand, whose coordinates are known exactly, and a model of many heads to sum over."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from invariscope.models import Transformer, TransformerConfig

VOCABULARY, PLACES = 7, 9
RELATION = torch.tensor([[0, 4], [1, 5], [2, 6]])
PREVIOUS, MATCH, OUTPUT, MEMORY = 3.0, 5.0, 4.0, 2.0


def induction_model(**values: float) -> Transformer:
    """Tokens in the first slot of the stream, places in the second; head 0.0 writes the third, head 1.0 the fourth.

    Scores before the softmax are the values as given: weights carry the root of the head's width.
    """
    values = {"previous": PREVIOUS, "match": MATCH, "output": OUTPUT, "memory": MEMORY} | values
    slot = max(VOCABULARY, PLACES)
    config = TransformerConfig(
        vocab_size=VOCABULARY,
        context_length=PLACES,
        num_layers=2,
        width=4 * slot,
        num_heads=1,
        head_width=slot,
        mlp_width=0,
    )
    model = Transformer(config, generator=torch.Generator().manual_seed(0))
    root = slot**0.5
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        token, place, moved, found = (torch.arange(slot) + index * slot for index in range(4))
        t, p = torch.arange(VOCABULARY), torch.arange(PLACES)
        model.token_embedding[t, token[t]] = 1.0
        model.position_embedding[p, place[p]] = 1.0
        first, second = (block.attention for block in model.blocks)
        # Rows of the shared matrix: queries, keys, values of the one head.
        first.query_key_value.weight[p[:-1], place[p[1:]]] = values["previous"] * root
        first.query_key_value.weight[slot + p, place[p]] = 1.0
        first.query_key_value.weight[2 * slot + t, token[t]] = 1.0
        first.output.weight[moved[t], t] = 1.0
        second.query_key_value.weight[t, token[t]] = values["match"] * root
        second.query_key_value.weight[slot + t, moved[t]] = 1.0
        second.query_key_value.weight[2 * slot + t, token[t]] = 1.0
        second.output.weight[found[t], t] = 1.0
        model.unembedding.weight[t, found[t]] = values["output"]
        model.unembedding.weight[RELATION[:, 1], token[RELATION[:, 0]]] = values["memory"]
    return model


DEEP = TransformerConfig(
    vocab_size=12, context_length=8, num_layers=3, width=16, num_heads=(2, 3, 1), head_width=(4, 8, 5), mlp_width=0
)


def seeded(seed: int) -> torch.Generator:
    """A generator of its own."""
    return torch.Generator().manual_seed(seed)


def deep(**fields: Any) -> Transformer:
    """Untrained, of three layers with heads of several numbers and widths."""
    return Transformer(dataclasses.replace(DEEP, embedding_std=1.0, **fields), generator=seeded(0))
