"""Folded parts say what the model's own attention does, family by family; what they cannot say is refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from invariscope.errors import ConfigError
from invariscope.models import Transformer, TransformerConfig, linear_parts
from models.folded_heads import check_against_the_model, normed
from tiny_language_models import FAMILIES, tiny_model

LINEAR = [name for name in FAMILIES if not name.startswith(("gemma", "qwen3"))]


@pytest.mark.parametrize("family", LINEAR)
def test_the_ends_of_a_language_model_are_its_own(family):
    model = tiny_model(family)
    final = "ln_f" if family == "gpt2" else "final_layer_norm" if family.startswith("gpt_neox") else "norm"
    base = model.transformer if family == "gpt2" else model.gpt_neox if family.startswith("gpt_neox") else model.model
    norm, x = getattr(base, final), torch.randn(4, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        norm.weight.normal_(1.0, 0.2, generator=torch.Generator().manual_seed(2))
        parts = linear_parts(model)
        expected = model.lm_head(norm(x))
        assert torch.allclose(
            normed(x.double(), centred=family.startswith("gpt")) @ parts.unembedding, expected.double(), atol=1e-4
        )
        embedded = model.get_input_embeddings().weight.double()
    assert torch.allclose(torch.nn.functional.cosine_similarity(parts.tokens, embedded), torch.ones(50, dtype=torch.float64))
    assert (parts.positions is None) == (family != "gpt2")
    assert (parts.rotary is None) == (family == "gpt2")


@pytest.mark.parametrize("norm", ["none", "pre"])
def test_the_heads_of_ours_attend_as_it_does(norm):
    config = TransformerConfig(
        vocab_size=50,
        context_length=6,
        num_layers=2,
        width=12,
        num_heads=(2, 3),
        head_width=5,
        norm=norm,
        attention_bias=True,
        embedding_std=1.0,
    )
    model = Transformer(config, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.2)
        parts = linear_parts(model)
        assert parts.heads == ((0, 0), (0, 1), (1, 0), (1, 1), (1, 2))
        for layer in range(2):
            check_against_the_model(parts, model, layer, norm=norm == "pre")


def test_gradients_pass():
    config = TransformerConfig(vocab_size=5, context_length=4, width=6, num_heads=2, num_layers=2, mlp_width=0, norm="pre")
    model = Transformer(config, generator=torch.Generator().manual_seed(0))
    parts = linear_parts(model)
    parts.layers[1].query.square().sum().backward()
    assert model.blocks[1].attention.query_key_value.weight.grad[:6].abs().min() > 0
    assert model.blocks[1].attention.query_key_value.weight.grad[6:].abs().max() == 0


def test_other_models_are_refused():
    with pytest.raises(ConfigError, match="a model of class Identity; expected our Transformer, or one causal language model of"):
        linear_parts(nn.Identity())
    config = TransformerConfig(vocab_size=5, context_length=4, width=6, num_heads=1, norm="post")
    with pytest.raises(ConfigError, match=r"norm='post', .* expected norms in front of what reads"):
        linear_parts(Transformer(config, generator=torch.Generator().manual_seed(0)))
