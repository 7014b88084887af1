"""The parts of a transformer's weights: together all of them, each once, and views."""

import pytest
import torch

from invariscope.errors import UnknownNameError
from invariscope.models import Transformer, TransformerConfig, part_names, weight_part

CONFIG = TransformerConfig(
    vocab_size=5,
    context_length=4,
    num_layers=2,
    width=8,
    num_heads=2,
    mlp_width=(0, 16),
    attention_bias=(True, False),
    mlp_bias=True,
    unembedding_bias=True,
)


def fresh():
    return Transformer(CONFIG, generator=torch.Generator().manual_seed(0))


def test_parts_hold_every_weight_once():
    model = fresh()
    assert part_names(CONFIG) == (
        "embeddings",
        "blocks.0.query_key",
        "blocks.0.value_output",
        "blocks.1.query_key",
        "blocks.1.value_output",
        "blocks.1.mlp",
        "unembedding",
    )
    for name in part_names(CONFIG):
        for view in weight_part(model, name):
            view += 1
    before = fresh()
    for old, new in zip(before.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(new, old + 1)


def test_a_part_changes_nothing_else():
    model = fresh()
    for view in weight_part(model, "blocks.1.value_output"):
        view.zero_()
    fused = model.blocks[1].attention.query_key_value.weight
    assert bool((fused[16:] == 0).all())
    assert torch.equal(fused[:16], fresh().blocks[1].attention.query_key_value.weight[:16])
    assert torch.equal(model.blocks[0].attention.query_key_value.weight, fresh().blocks[0].attention.query_key_value.weight)


def test_unknown_parts_are_named_with_the_nearest():
    with pytest.raises(UnknownNameError, match=r"part of the weights 'blocks.0.mlp'.*nearest: blocks.1.mlp"):
        weight_part(fresh(), "blocks.0.mlp")
