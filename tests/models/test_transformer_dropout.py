"""Dropout: where it drops, with which law, from whose randomness, and that evaluation knows nothing of it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from invariscope.errors import ConfigError
from invariscope.models import Dropout, Transformer, TransformerConfig, fingerprint


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def build(**choices: Any) -> Transformer:
    fields = {"vocab_size": 7, "context_length": 6, "width": 8, "num_heads": 2, "mlp_width": 12, "dropout": 0.25} | choices
    return Transformer(TransformerConfig(**fields), generator=seeded())


def tokens(rows: int = 3) -> Tensor:
    return torch.randint(0, 7, (rows, 6), generator=seeded(1))


def run(model: Transformer, seed: int, given: Tensor | None = None) -> Tensor:
    model.dropout.generator = seeded(seed)
    return model(tokens() if given is None else given).detach()


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_entries_are_dropped_with_probability_p_and_the_others_scaled(p: float) -> None:
    dropout, num = Dropout(p), 100_000
    dropout.generator = seeded()
    out = dropout(torch.full((num,), 2.0))
    assert set(out.tolist()) == {0.0, float(torch.tensor(2.0) * (torch.tensor(1.0) / (1 - p)))}
    error = math.sqrt(p * (1 - p) / num)
    assert float((out == 0).double().mean()) == pytest.approx(p, abs=4 * error)
    assert float(out.double().mean()) == pytest.approx(2, abs=4 * 2 * error / (1 - p))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_the_type_stays_and_gradients_pass_where_entries_are_kept(dtype: torch.dtype) -> None:
    dropout = Dropout(0.5)
    dropout.generator = seeded()
    x = torch.ones(64, dtype=dtype, requires_grad=True)
    out = dropout(x)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert out.dtype == dtype
    assert torch.equal(gradient, out.detach())
    assert set(gradient.tolist()) == {0.0, 2.0}


def test_evaluation_and_probability_zero_leave_the_very_tensor() -> None:
    x = torch.ones(3)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_in_evaluation_a_model_with_dropout_is_the_one_without() -> None:
    with_dropout, without = build(norm="post").eval(), build(norm="post", dropout=0.0)
    assert fingerprint(with_dropout) == fingerprint(without)
    assert torch.equal(with_dropout(tokens()), without(tokens()))
    assert torch.equal(with_dropout.last_logits(tokens()), without.last_logits(tokens()))


@pytest.mark.parametrize("fast", [False, True])
def test_training_without_a_generator_says_what_to_do(fast: bool) -> None:
    model = build()
    with pytest.raises(ConfigError) as caught:
        model.last_logits(tokens()) if fast else model(tokens())
    assert caught.value.given == "a forward in training mode with dropout = 0.25 and no generator of masks"
    assert caught.value.expected == "a torch.Generator: the global one is never read"
    assert "call model.eval() to measure" in caught.value.do
    assert "model.dropout.generator" in caught.value.do


def test_masks_are_a_function_of_the_generator_and_the_global_one_is_not_read() -> None:
    model = build(num_layers=2, norm="post")
    before = torch.get_rng_state()
    first = run(model, 5)
    assert torch.equal(run(model, 5), first)
    assert not torch.equal(run(model, 6), first)
    assert not torch.equal(model(tokens()), run(model, 6)), "a second forward draws other masks"
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("norm", ["none", "pre", "post"])
def test_it_drops_where_pytorchs_encoder_layer_drops(norm: str) -> None:
    model = build(norm=norm, attention_bias=True, mlp_bias=True)
    block = model.get_submodule("blocks.0")
    seen: dict[str, Tensor] = {}
    dropped: list[tuple[Tensor, Tensor]] = []
    for name, module in block.named_modules():
        if name and name != "dropout":
            module.register_forward_hook(lambda m, i, out, name=name: seen.update({name: out}))
    model.dropout.register_forward_hook(lambda m, given, out: dropped.append((given[0], out)))
    run(model, 3)
    # Attention weights, attention's output, hidden units, the MLP's output; and nothing before the blocks.
    pattern, attended, hidden, written = dropped
    assert torch.equal(pattern[0], seen["attn_pattern"])
    assert torch.equal(attended[0], seen["attention.output"])
    assert torch.equal(hidden[0], seen["mlp_post"])
    assert torch.equal(written[0], seen["mlp_output"])
    # Downstream reads what was dropped; sites on the residual stream show what is added.
    values = block.get_submodule("attention.query_key_value")(seen.get("attention_norm", seen["resid_pre"]))
    assert torch.equal(attended[1], seen["attn_out"])
    assert torch.equal(written[1], seen["mlp_out"])
    assert torch.equal(block.get_submodule("mlp_output")(hidden[1]), written[0])
    if norm != "post":
        heads = (pattern[1] @ values.view(3, 6, 3, 2, 4)[:, :, 2].transpose(1, 2)).transpose(1, 2)
        torch.testing.assert_close(heads, seen["attn_heads"])
    for before, after in dropped:
        share = float(((after == 0) & (before != 0)).double().sum() / (before != 0).double().sum())
        assert 0.1 < share < 0.45
    torch.testing.assert_close(seen["attn_pattern"].sum(-1), torch.ones(3, 2, 6))


def test_over_many_masks_an_attention_only_model_means_what_it_says_in_evaluation() -> None:
    # Nothing that follows the pattern is nonlinear, and the masks are independent: the mean is exact.
    model, num = build(mlp_width=0).double(), 20_000
    rows = run(model, 4, tokens()[:1].expand(num, -1))
    expected = model.eval()(tokens()[:1])[0].detach()
    error = rows.std(0) / math.sqrt(num)
    assert float(error.max()) < 0.02
    assert float(((rows.mean(0) - expected).abs() / error).max()) < 4.5
    assert float((rows.std(0) > 0).double().min()) == 1


def test_one_dropout_serves_the_whole_model_and_has_no_weights() -> None:
    model = build(num_layers=3)
    assert {id(module) for module in model.modules() if isinstance(module, Dropout | nn.Dropout)} == {id(model.dropout)}
    assert not [name for name in model.state_dict() if "dropout" in name]
