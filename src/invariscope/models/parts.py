"""The parts of a transformer's weights by the names of circuits: what scores (query-key), what is moved (value-output), the rest.

A part is a list of views, so that writing into them writes into the model. Queries, keys and values share one matrix, of which
``blocks.0.query_key`` is the upper two thirds and ``blocks.0.value_output`` the lower third with the output projection
(Elhage et al. 2021, *A Mathematical Framework for Transformer Circuits*).

>>> import torch
>>> config = TransformerConfig(vocab_size=4, context_length=3, width=8, num_heads=1, mlp_width=0)
>>> part_names(config)
('embeddings', 'blocks.0.query_key', 'blocks.0.value_output', 'unembedding')
>>> [list(view.shape) for view in weight_part(Transformer(config, generator=torch.Generator()), "blocks.0.query_key")]
[[16, 8]]
"""

from __future__ import annotations

from torch import Tensor

from invariscope.errors import unknown_name
from invariscope.models.transformer import Block, Transformer, TransformerConfig

__all__ = ["part_names", "weight_part"]


def part_names(config: TransformerConfig) -> tuple[str, ...]:
    """The parts of a model, which together hold every weight but those of norms."""
    blocks = [
        f"blocks.{layer}.{part}"
        for layer in range(config.num_layers)
        for part in ("query_key", "value_output", *(["mlp"] if config.layer("mlp_width", layer) else []))
    ]
    return ("embeddings", *blocks, "unembedding")


def weight_part(model: Transformer, name: str) -> list[Tensor]:
    """The weights of a part, as views that share memory with the model and need no gradient.

    Raises:
        UnknownNameError: where the model has no such part.
    """
    if name not in part_names(model.config):
        raise unknown_name("part of the weights", name, part_names(model.config))
    if name == "embeddings":
        return [p.detach() for key, p in model.named_parameters() if key in ("token_embedding", "position_embedding")]
    if name == "unembedding":
        return [p.detach() for p in model.unembedding.parameters()]
    _, layer, part = name.split(".")
    block = model.blocks[int(layer)]
    assert isinstance(block, Block)
    if part == "mlp":
        return [p.detach() for linear in (block.mlp_input, block.mlp_output) for p in linear.parameters()]
    attention = block.attention
    split = 2 * attention.num_heads * attention.head_width
    shared = [p.detach() for p in attention.query_key_value.parameters()]
    if part == "query_key":
        return [view[:split] for view in shared]
    return [*(view[split:] for view in shared), *(p.detach() for p in attention.output.parameters())]
