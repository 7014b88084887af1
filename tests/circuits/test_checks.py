"""Models that the measures do not describe are refused, and what is missing is said."""

import pytest
import torch

from circuits.hand_built import PAPER, SMALL, circuit, generator, unknowing
from invariscope.circuits import check_model
from invariscope.errors import ConfigError


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
