"""Transformer.last_logits: the last rows of the plain forward, and a refusal where a hook would see only part of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from invariscope.errors import HookedSiteError, ShapeError
from invariscope.models import Transformer, TransformerConfig


def build(**choices: Any) -> Transformer:
    fields = {"vocab_size": 7, "context_length": 6, "width": 8, "num_heads": 2, "mlp_width": 12, "num_layers": 2} | choices
    model = Transformer(TransformerConfig(**fields), generator=torch.Generator().manual_seed(0)).double()
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return model


def tokens(length: int = 6) -> Tensor:
    return torch.randint(0, 7, (3, length), generator=torch.Generator().manual_seed(1))


# What is computed at every token, so that a hook on it misses nothing.
WHOLE = (
    *("embed", "blocks.0", "blocks.0.attention", "blocks.0.mlp_input", "blocks.1.resid_pre", "blocks.1.attention_norm"),
    *("blocks.1.attention.query_key_value", "blocks.0.attn_pattern", "blocks.0.resid_post"),
)
PART = (
    *("blocks.1.attn_pattern", "blocks.1.attn_heads", "blocks.1.attn_out", "blocks.1.resid_mid", "blocks.1.mlp_pre"),
    *("blocks.1.mlp_post", "blocks.1.mlp_out", "blocks.1.resid_post", "final_norm", "logits"),
    *("blocks.1", "blocks.1.attention", "blocks.1.attention.output", "blocks.1.mlp_norm", "blocks.1.mlp_input", "unembedding"),
)


@pytest.mark.parametrize(
    "choices", [{}, {"num_layers": 1, "mlp_width": 0}, {"norm": "pre", "final_norm": True}, {"norm": "post"}, {"causal": False}]
)
@pytest.mark.parametrize(("length", "num_rows"), [(6, 1), (6, 2), (6, 6), (4, 3), (1, 1)])
def test_it_gives_the_last_rows_of_the_plain_forward(choices: dict[str, Any], length: int, num_rows: int) -> None:
    model = build(**choices)
    found = model.last_logits(tokens(length), num_rows)
    assert found.shape == (3, num_rows, 7)
    torch.testing.assert_close(found, model(tokens(length))[:, -num_rows:], rtol=0, atol=1e-12)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_gradients_of_the_weights_are_those_of_the_plain_forward(norm: str) -> None:
    model = build(norm=norm)
    fast = torch.autograd.grad(model.last_logits(tokens()).square().sum(), list(model.parameters()))
    plain = torch.autograd.grad(model(tokens())[:, -1:].square().sum(), list(model.parameters()))
    for (name, _), a, b in zip(model.named_parameters(), fast, plain, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10, msg=name)


@pytest.mark.parametrize("num_rows", [0, -1, 7])
def test_a_number_of_rows_that_the_sequence_does_not_have_is_refused(num_rows: int) -> None:
    with pytest.raises(ShapeError) as caught:
        build().last_logits(tokens(), num_rows)
    assert caught.value.given == f"num_rows = {num_rows} with tokens of shape [3, 6]"
    assert caught.value.expected == "from 1 to the 6 tokens of a sequence"
    assert caught.value.do


@pytest.mark.parametrize("name", PART)
@pytest.mark.parametrize("pre", [False, True])
def test_a_hook_that_would_see_only_part_is_refused_by_name(name: str, pre: bool) -> None:
    model = build(norm="pre", final_norm=True)
    module = model.get_submodule(name)
    handle = module.register_forward_pre_hook(lambda *_: None) if pre else module.register_forward_hook(lambda *_: None)
    with pytest.raises(HookedSiteError) as caught:
        model.last_logits(tokens())
    assert caught.value.given == f"a hook on {name!r} during last_logits"
    assert caught.value.expected == "no hook where only the last rows are computed"
    assert "model(tokens)" in caught.value.do
    handle.remove()
    assert model.last_logits(tokens()).shape == (3, 1, 7)


def test_a_norm_after_the_addition_sees_only_part_and_its_hook_is_refused() -> None:
    model = build(norm=("pre", "post"))
    for name in ("blocks.1.attention_norm", "blocks.1.mlp_norm", "blocks.1.dropout"):
        handle = model.get_submodule(name).register_forward_hook(lambda *_: None)
        with pytest.raises(HookedSiteError, match=f"a hook on '{name}' during last_logits"):
            model.last_logits(tokens())
        handle.remove()
    seen: list[Tensor] = []
    model.get_submodule("blocks.0.attention_norm").register_forward_hook(lambda m, i, out: seen.append(out))
    model.last_logits(tokens())
    assert seen[0].shape == (3, 6, 8)


@pytest.mark.parametrize("name", WHOLE)
def test_a_hook_that_sees_every_token_is_welcome_and_sees_what_the_plain_forward_shows(name: str) -> None:
    model = build(norm="pre")
    seen: list[Tensor] = []
    model.get_submodule(name).register_forward_hook(lambda m, i, out: seen.append(out.detach()))
    model.last_logits(tokens())
    model(tokens())
    torch.testing.assert_close(seen[0], seen[1], rtol=0, atol=1e-12)


def test_both_lists_together_hold_every_site() -> None:
    model = build()
    partial = {name for name in model.site_names() if name.startswith("blocks.1.") and name != "blocks.1.resid_pre"}
    assert partial | {"final_norm", "logits"} == set(PART) & set(model.site_names())
