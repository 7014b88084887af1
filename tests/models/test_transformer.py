"""Transformer: its configuration, its initial weights, its sites, and what it computes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from invariscope.errors import ConfigError, ShapeError, UnknownNameError
from invariscope.models import Transformer, TransformerConfig
from models.numpy_transformer import forward

SMALL: dict[str, Any] = {"vocab_size": 7, "context_length": 6, "width": 8, "num_heads": 2, "mlp_width": 12}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def build(seed: int = 0, **choices: Any) -> Transformer:
    return Transformer(TransformerConfig(**(SMALL | choices)), generator=seeded(seed))


def scramble(model: Transformer, seed: int = 9) -> Transformer:
    """Every parameter away from its special initial value: gains from one, biases from zero."""
    generator = seeded(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
    return model


def tokens(rows: int = 3, length: int = 6, seed: int = 1) -> Tensor:
    return torch.randint(0, 7, (rows, length), generator=seeded(seed))


# --- configuration


@pytest.mark.parametrize(
    ("choices", "given", "expected"),
    [
        ({"vocab_size": 0}, "vocab_size = 0", "at least 1"),
        ({"context_length": 0}, "context_length = 0", "at least 1"),
        ({"num_layers": 0}, "num_layers = 0", "at least 1"),
        ({"width": -8}, "width = -8", "at least 1"),
        ({"num_outputs": 0}, "num_outputs = 0", "at least 1"),
        ({"num_heads": 0}, "num_heads = 0", "at least 1"),
        ({"head_width": 0}, "head_width = 0", "at least 1"),
        ({"mlp_width": -1}, "mlp_width = -1", "at least 0"),
        ({"num_heads": 3}, "width 8 with 3 heads", "a width that the heads divide"),
        ({"num_layers": 2, "num_heads": (2, 5)}, "width 8 with 5 heads", "a width that the heads divide"),
        ({"num_heads": (1, 2)}, "num_heads as a tuple of 2 values for 1 layers", "a tuple of one a layer"),
        ({"num_layers": 2, "norm": ["pre", "none"]}, "norm as a list of 2 values for 2 layers", "a tuple of one a layer"),
        ({"dropout": -0.1}, "dropout = -0.1", "a probability from 0 to below 1"),
        ({"dropout": 1.0}, "dropout = 1.0", "a probability from 0 to below 1"),
        ({"dropout": math.nan}, "dropout = nan", "a probability from 0 to below 1"),
        ({"initial_scale": -1.0}, "initial_scale = -1.0", "a finite number, at least 0"),
        ({"initial_scale": math.nan}, "initial_scale = nan", "a finite number, at least 0"),
    ],
    ids=str,
)
def test_a_choice_that_cannot_be_carried_out_is_refused_by_name(choices: dict[str, Any], given: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TransformerConfig(**(SMALL | choices))
    assert caught.value.given == given
    assert expected in caught.value.expected
    assert caught.value.do


@pytest.mark.parametrize(
    ("choices", "given", "nearest"),
    [
        ({"activation": "relo"}, "unknown activation 'relo'", "nearest: relu"),
        ({"num_layers": 2, "activation": ("gelu", "silu")}, "unknown activation 'silu'", "relu"),
        ({"norm": "pro"}, "unknown norm 'pro'", "nearest: pre"),
        ({"norm": "pots"}, "unknown norm 'pots'", "nearest: post"),
        ({"positions": "rotary"}, "unknown positions 'rotary'", "learned"),
        ({"initial_std": "fan"}, "unknown initial_std 'fan'", "nearest: fan_in"),
    ],
    ids=str,
)
def test_a_choice_that_does_not_exist_is_answered_with_those_that_do(choices: dict[str, Any], given: str, nearest: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        TransformerConfig(**(SMALL | choices))
    assert caught.value.given == given
    assert nearest in caught.value.do


def test_a_field_per_layer_takes_one_value_or_one_a_layer() -> None:
    config = TransformerConfig(**(SMALL | {"num_layers": 2, "num_heads": (1, 4), "mlp_width": (0, 5), "norm": ("pre", "none")}))
    assert [config.layer("num_heads", index) for index in (0, 1)] == [1, 4]
    assert [config.layer("activation", index) for index in (0, 1)] == ["gelu", "gelu"]
    model = Transformer(config, generator=seeded())
    assert [block.attention.num_heads for block in model.blocks] == [1, 4]
    assert [block.attention.head_width for block in model.blocks] == [8, 2]
    names = set(dict(model.named_parameters()))
    assert "blocks.0.attention_norm.weight" in names
    assert "blocks.1.attention_norm.weight" not in names
    assert "blocks.0.mlp_input.weight" not in names
    assert model.get_parameter("blocks.1.mlp_input.weight").shape == (5, 8)


# --- weights


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"num_layers": 3, "attention_bias": True, "mlp_bias": True, "unembedding_bias": True, "final_norm": True, "norm": "pre"},
        {"positions": "none", "num_outputs": 3, "head_width": 5, "mlp_width": 0},
        {"num_layers": 2, "norm": "post", "dropout": 0.5},
    ],
    ids=str,
)
def test_the_number_of_parameters_is_that_of_the_formula(choices: dict[str, Any]) -> None:
    c = SMALL | {"num_layers": 1, "num_outputs": 7, "head_width": 4} | choices
    D, M, V, inner = c["width"], c["mlp_width"], c["num_outputs"], c["num_heads"] * c["head_width"]
    block = 4 * D * inner + 2 * D * M
    block += (3 * inner + D) * ("attention_bias" in choices) + (M + D) * ("mlp_bias" in choices) + 4 * D * ("norm" in choices)
    total = c["vocab_size"] * D + c["num_layers"] * block + D * V
    total += c["context_length"] * D * (choices.get("positions") != "none")
    total += V * ("unembedding_bias" in choices) + 2 * D * ("final_norm" in choices)
    assert sum(parameter.numel() for parameter in build(**choices).parameters()) == total


WIDE: dict[str, Any] = {
    **{"vocab_size": 64, "context_length": 64, "width": 64, "num_heads": 4, "mlp_width": 256, "head_width": 32},
    **{"norm": "pre", "final_norm": True, "attention_bias": True, "mlp_bias": True, "unembedding_bias": True},
}


@pytest.mark.parametrize(("rule", "scale"), [("width", 1.0), ("fan_in", 1.0), ("fan_in", 0.5)])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_initial_matrices_have_their_standard_deviation_biases_are_zero_and_gains_one(norm: str, rule: str, scale: float) -> None:
    model = build(**(WIDE | {"norm": norm}), initial_std=rule, initial_scale=scale)
    assert {"blocks.0.attention_norm.weight", "blocks.0.mlp_norm.bias"} < set(model.state_dict())
    inputs = {"blocks.0.attention.output.weight": 128, "blocks.0.mlp_output.weight": 256} if rule == "fan_in" else {}
    for name, parameter in model.state_dict().items():
        if parameter.ndim == 1:
            assert torch.equal(parameter, torch.full_like(parameter, 1.0 if name.endswith("norm.weight") else 0.0)), name
            continue
        expected = scale / math.sqrt(inputs.get(name, 64))
        # 4096 entries or more: the standard error of a standard deviation is 1.1 % at most.
        assert float(parameter.std()) == pytest.approx(expected, rel=0.05), name
        assert abs(float(parameter.mean())) < 5 * expected / math.sqrt(parameter.numel()), name


def test_equal_generators_give_equal_weights_others_others_and_the_global_one_is_not_read() -> None:
    before = torch.get_rng_state()
    a, b, c = build(3), build(3), build(4)
    assert torch.equal(torch.get_rng_state(), before)
    for name, parameter in a.named_parameters():
        assert torch.equal(parameter, b.get_parameter(name)), name
        assert not torch.equal(parameter, c.get_parameter(name)), name


# --- what it computes

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "attention only": {"mlp_width": 0},
    "no positions": {"positions": "none"},
    "relu with biases": {"activation": "relu", "attention_bias": True, "mlp_bias": True, "unembedding_bias": True},
    "pre norm": {"norm": "pre", "final_norm": True, "attention_bias": True},
    "post norm": {"norm": "post", "num_layers": 2, "activation": "relu", "attention_bias": True, "mlp_bias": True},
    "post norm, attention only": {"norm": "post", "mlp_width": 0, "final_norm": True},
    "head width": {"head_width": 5, "num_heads": 3, "num_outputs": 4},
    "not causal": {"causal": False, "num_layers": 2},
    "per layer": {
        **{"num_layers": 3, "num_heads": (2, 1, 4), "mlp_width": (12, 0, 5), "activation": ("gelu", "gelu", "relu")},
        **{"norm": ("none", "pre", "post"), "attention_bias": (False, True, False), "mlp_bias": (True, False, False)},
    },
}


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("length", [1, 4, 6])
def test_it_computes_what_the_equations_say(name: str, length: int) -> None:
    model = scramble(build(**VARIANTS[name])).double()
    weights = {key: value.numpy() for key, value in model.state_dict().items()}
    with torch.no_grad():
        found = model(tokens(length=length)).numpy()
    expected = forward(weights, model.config, tokens(length=length).numpy())
    assert found.shape == (3, length, model.config.num_outputs or 7)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_row_does_not_depend_on_the_others(name: str) -> None:
    model = scramble(build(**VARIANTS[name])).double()
    whole = model(tokens())
    for row in range(3):
        torch.testing.assert_close(model(tokens()[row : row + 1]), whole[row : row + 1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("causal", [True, False])
def test_later_tokens_change_earlier_logits_only_where_attention_is_not_causal(causal: bool) -> None:
    model = scramble(build(num_layers=2, causal=causal)).double()
    for t in range(1, 6):
        changed = tokens().clone()
        changed[:, t] = (changed[:, t] + 1) % 7
        difference = (model(changed) - model(tokens())).abs().amax((0, 2))
        assert bool((difference[t:] > 1e-6).all()), "a token does not reach the tokens after it"
        assert bool((difference[:t] == 0).all()) if causal else bool((difference[:t] > 1e-6).all())


@pytest.mark.parametrize("given", [torch.zeros(2, 7, dtype=torch.long), torch.zeros(6, dtype=torch.long)])
def test_tokens_that_do_not_fit_the_context_are_refused(given: Tensor) -> None:
    with pytest.raises(ShapeError) as caught:
        build()(given)
    assert caught.value.given == f"tokens of shape {list(given.shape)}"
    assert caught.value.expected == "[B, T] with T at most the context length 6"
    assert "context_length" in caught.value.do


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_low_precision_works_on_the_cpu_and_stays_close(dtype: torch.dtype) -> None:
    model = build(num_layers=2, norm=("pre", "post"), final_norm=True)
    exact = model(tokens()).detach()
    low = model.to(dtype)
    for found in (low(tokens()), low.last_logits(tokens(), 6)):
        assert found.dtype == dtype
        assert float((found.detach().float() - exact).abs().max()) < 0.1
        assert bool(torch.isfinite(found).all())


# --- sites


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("mlp_width", [12, (12, 0)])
def test_every_site_is_a_submodule_of_its_name_and_fires_once_in_the_order_of_the_names(mlp_width: Any, norm: str) -> None:
    model = build(num_layers=2, mlp_width=mlp_width, norm=norm)
    fired: list[str] = []
    for name in model.site_names():
        model.get_submodule(name).register_forward_hook(lambda *_, name=name: fired.append(name))
    model(tokens())
    assert tuple(fired) == model.site_names()
    assert ("blocks.1.mlp_out" in fired) == (mlp_width == 12)
    assert len(fired) == 3 + 9 + (9 if mlp_width == 12 else 6)


def test_sites_show_what_their_names_say() -> None:
    model = scramble(build(num_layers=2, norm="pre", final_norm=True)).double()
    seen: dict[str, Tensor] = {}
    for name in model.site_names():
        model.get_submodule(name).register_forward_hook(lambda m, i, out, name=name: seen.update({name: out.detach()}))
    logits = model(tokens())

    def close(a: Tensor, b: Tensor) -> None:
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)

    close(seen["embed"], model.token_embedding[tokens()].detach() + model.position_embedding.detach())
    close(seen["blocks.0.resid_pre"], seen["embed"])
    for layer in ("blocks.0", "blocks.1"):
        close(seen[f"{layer}.resid_mid"], seen[f"{layer}.resid_pre"] + seen[f"{layer}.attn_out"])
        close(seen[f"{layer}.resid_post"], seen[f"{layer}.resid_mid"] + seen[f"{layer}.mlp_out"])
        close(seen[f"{layer}.mlp_post"], torch.nn.functional.gelu(seen[f"{layer}.mlp_pre"]))
        pattern, heads = seen[f"{layer}.attn_pattern"], seen[f"{layer}.attn_heads"]
        assert pattern.shape == (3, 2, 6, 6)
        assert heads.shape == (3, 6, 2, 4)
        close(pattern.sum(-1), torch.ones(3, 2, 6, dtype=torch.float64))
        close(pattern, pattern.tril())
        close(heads.flatten(2) @ model.get_parameter(f"{layer}.attention.output.weight").T.detach(), seen[f"{layer}.attn_out"])
    close(seen["blocks.1.resid_pre"], seen["blocks.0.resid_post"])
    close(seen["final_norm"] @ model.unembedding.weight.T.detach(), seen["logits"])
    close(seen["logits"], logits.detach())
