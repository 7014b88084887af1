"""Folded matrices are those that the model multiplies with, and models that they do not describe are refused."""

import pytest
import torch

from circuits.hand_built import PAPER, SMALL, circuit, generator, tokens_of, unknowing
from invariscope.circuits import check_model, head_weights, query_key, value_output
from invariscope.circuits.weights import score_scale
from invariscope.errors import ConfigError
from invariscope.sites import read_sites


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("head", [0, 1, 2])
def test_the_matrices_are_the_models_own(layer, head):
    model = unknowing(num_heads=3, head_width=5, width=12)
    sites = [f"blocks.{layer}.{name}" for name in ("resid_pre", "attn_pattern", "attn_heads")]
    tokens = tokens_of(SMALL, "train", 4)
    with torch.no_grad(), read_sites(model, sites) as seen:
        model(tokens)
    x = seen[sites[0]].view(4, -1, 12).double()
    scores = x @ query_key(model, layer, head) @ x.transpose(1, 2) / score_scale(model, layer)
    scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    pattern = seen[sites[1]].view(4, -1, 3, x.shape[1])[:, :, head].double()
    assert torch.allclose(scores.softmax(-1), pattern, atol=1e-6)
    heads = seen[sites[2]].view(4, -1, 3, 5)[:, :, head].double()
    moved = heads @ head_weights(model, layer, head).output
    assert torch.allclose(pattern @ x @ value_output(model, layer, head), moved, atol=1e-6)


def test_they_need_no_gradient_and_are_float64():
    found = query_key(unknowing(), 0)
    assert (found.requires_grad, found.dtype) == (False, torch.float64)


def test_which_head_must_be_said():
    model = unknowing(num_heads=2)
    with pytest.raises(ConfigError, match=r"layer 1, which has 2 heads; expected which head is meant; give head="):
        query_key(model, 1)
    with pytest.raises(ConfigError, match="head 2 of 2; expected from 0 to 1"):
        value_output(model, 0, 2)
    with pytest.raises(ConfigError, match="layer 2 of a model of 2"):
        value_output(model, 2)


def test_a_model_of_another_task_is_refused_with_every_tensor():
    with pytest.raises(ConfigError) as caught:
        check_model(unknowing(PAPER), SMALL)
    message = str(caught.value)
    assert f"token_embedding [{PAPER.vocab_size}, 16], position_embedding [{PAPER.sequence_length}, 16]" in message
    assert f"expected token_embedding [{SMALL.vocab_size}, 16], position_embedding [{SMALL.sequence_length}, 16]" in message
    assert "unembedding" not in message


def test_a_longer_context_does_no_harm():
    longer = unknowing()
    positions = torch.nn.Parameter(torch.cat([longer.position_embedding.detach(), torch.ones(3, 16)]))
    longer.position_embedding = positions
    check_model(longer, SMALL, linear=True, one_head=True, mlp=True)


@pytest.mark.parametrize(
    ("fields", "needs", "message"),
    [
        ({"num_heads": (1, 2)}, {"one_head": True}, r"a model of \[1, 2\] heads; expected one head a layer"),
        ({"norm": "pre"}, {"linear": True}, "a model with norm 'pre'; expected neither norms nor biases"),
        ({"final_norm": True}, {"linear": True}, "a model with a final norm; expected"),
        ({"attention_bias": True}, {"linear": True}, r"query_key_value\.bias"),
        ({"unembedding_bias": True}, {"linear": True}, r"a model with unembedding\.bias"),
        ({"mlp_width": (8, 0)}, {"mlp": True}, "whose second layer has no MLP; expected an MLP there"),
    ],
)
def test_what_a_measure_needs_is_said(fields, needs, message):
    model = unknowing(**fields)
    check_model(model, SMALL)
    with pytest.raises(ConfigError, match=message):
        check_model(model, SMALL, **needs)


def test_biases_of_the_mlp_are_no_obstacle():
    check_model(unknowing(mlp_bias=True), SMALL, linear=True, mlp=True)


def test_two_layers_are_needed():
    from invariscope.models import Transformer, TransformerConfig

    config = TransformerConfig(
        vocab_size=SMALL.vocab_size, num_outputs=7, context_length=SMALL.sequence_length, width=8, num_heads=1, mlp_width=8
    )
    with pytest.raises(ConfigError, match="a model of 1 layers; expected two layers"):
        check_model(Transformer(config, generator=generator()), SMALL)


def test_the_hand_built_circuit_fits():
    check_model(circuit(), SMALL, one_head=True, linear=True, mlp=True)
