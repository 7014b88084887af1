"""The untrained twin: one architecture, fresh weights, and the given model left alone."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from invariscope.errors import ConfigError
from invariscope.models import Disentangled, DisentangledConfig, Transformer, TransformerConfig, fingerprint, untrained

CONFIG = TransformerConfig(vocab_size=5, context_length=4, width=8, num_heads=2, mlp_width=8, num_layers=2, norm="pre")


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_twin_is_what_the_config_gives_with_this_generator() -> None:
    model = Transformer(CONFIG, generator=seeded(0))
    twin = untrained(model, seeded(7))
    assert isinstance(twin, Transformer)
    assert twin.config is CONFIG
    assert fingerprint(twin) == fingerprint(Transformer(CONFIG, generator=seeded(7)))
    assert fingerprint(twin) == fingerprint(untrained(model, seeded(7))) != fingerprint(untrained(model, seeded(8)))


def test_a_disentangled_model_has_a_twin_too() -> None:
    model = Disentangled(DisentangledConfig(vocab_size=4, num_labels=4), generator=seeded(0)).double()
    twin = untrained(model, seeded(7))
    assert twin.config == model.config
    assert twin.readout is not None
    assert twin.readout.dtype == torch.float64
    assert fingerprint(twin) != fingerprint(model)


def test_the_given_model_and_the_global_generator_stay_as_they_were() -> None:
    model = Transformer(CONFIG, generator=seeded(0))
    before, rng = fingerprint(model), torch.get_rng_state()
    twin = untrained(model, seeded(7))
    with torch.no_grad():
        twin.token_embedding.zero_()
    assert fingerprint(model) == before
    assert torch.equal(torch.get_rng_state(), rng)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("training", [True, False])
def test_the_twin_has_the_type_and_the_mode_of_the_model(dtype: torch.dtype, training: bool) -> None:
    twin = untrained(Transformer(CONFIG, generator=seeded(0)).to(dtype).train(training), seeded(1))
    assert {parameter.dtype for parameter in twin.parameters()} == {dtype}
    assert {module.training for module in twin.modules()} == {training}


def test_the_twin_of_a_post_norm_model_has_gains_of_one_and_no_generator_of_masks() -> None:
    config = dataclasses.replace(CONFIG, norm="post", dropout=0.5)
    model = Transformer(config, generator=seeded(0)).eval()
    model.dropout.generator = seeded(2)
    with torch.no_grad():
        model.get_parameter("blocks.0.attention_norm.weight").fill_(3.0)
    twin = untrained(model, seeded(1))
    assert twin.config == config
    assert twin.dropout.generator is None
    assert torch.equal(twin.get_parameter("blocks.0.attention_norm.weight").detach(), torch.ones(8))
    tokens = torch.tensor([[0, 1, 2, 3]])
    assert torch.equal(twin(tokens), untrained(model, seeded(1))(tokens))


def test_a_subclass_stays_one() -> None:
    class Own(Transformer):
        pass

    assert type(untrained(Own(CONFIG, generator=seeded(0)), seeded(1))) is Own


def test_a_model_that_no_config_rebuilds_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        untrained(nn.Identity(), seeded(0))
    assert caught.value.given == "a model of class Identity"
    assert "configuration" in caught.value.expected
    assert "build the untrained model yourself" in caught.value.do
