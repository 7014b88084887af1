"""Blocks with norms compute what PyTorch's TransformerEncoderLayer does with the same weights, sites and gradients included."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from invariscope.models import Transformer, TransformerConfig

WIDTH, HEADS, HIDDEN, LENGTH = 16, 4, 24, 7
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pair(norm: Any, activation: Any, dtype: torch.dtype) -> tuple[Transformer, list[nn.TransformerEncoderLayer]]:
    """Our transformer and PyTorch's layers, of the same random weights (none at its special initial value)."""
    config = TransformerConfig(
        **{"vocab_size": 5, "context_length": LENGTH, "width": WIDTH, "num_heads": HEADS, "mlp_width": HIDDEN},
        **{"num_layers": 2, "norm": norm, "activation": activation, "attention_bias": True, "mlp_bias": True, "dropout": 0.3},
    )
    model = Transformer(config, generator=seeded(0)).to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=seeded(parameter.numel()), dtype=dtype)
    layers = []
    for index in range(2):
        # On the meta device nothing is drawn from the global generator; load_state_dict brings every weight.
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, HIDDEN, 0.3, activation, batch_first=True, norm_first=norm == "pre", device="meta", dtype=dtype
        )
        own = model.get_submodule(f"blocks.{index}").state_dict()
        names = {
            "attention.query_key_value": "self_attn.in_proj_",
            "attention.output": "self_attn.out_proj.",
            "mlp_input": "linear1.",
            "mlp_output": "linear2.",
            "attention_norm": "norm1.",
            "mlp_norm": "norm2.",
        }
        weights = {theirs + kind: own[f"{ours}.{kind}"] for ours, theirs in names.items() for kind in ("weight", "bias")}
        layer.load_state_dict(weights, assign=True)
        layers.append(layer.eval())
    return model, layers


def stream(model: nn.Module, name: str, seen: dict[str, Tensor], *, inputs: bool = False) -> None:
    def hook(module: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> None:
        seen[name] = given[0] if inputs else out

    model.register_forward_hook(hook)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_outputs_sites_and_gradients_are_pytorchs(norm: str, activation: str, dtype: torch.dtype) -> None:
    model, layers = pair(norm, activation, dtype)
    x = torch.randn(3, LENGTH, WIDTH, generator=seeded(2), dtype=dtype)
    up = torch.randn(3, LENGTH, WIDTH, generator=seeded(3), dtype=dtype)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    mask = nn.Transformer.generate_square_subsequent_mask(LENGTH, dtype=dtype)
    found: dict[str, Tensor] = {}
    expected: dict[str, Tensor] = {}
    h, g = ours, theirs
    for index, layer in enumerate(layers):
        block = model.get_submodule(f"blocks.{index}")
        for site in ("resid_mid", "mlp_pre", "mlp_post", "mlp_out", "resid_post"):
            stream(block.get_submodule(site), f"{index}.{site}", found)
        # After the first norm where it stands behind the addition, before the second where norms stand first.
        stream(layer.norm1 if norm == "post" else layer.norm2, f"{index}.resid_mid", expected, inputs=norm == "pre")
        stream(layer.linear1, f"{index}.mlp_pre", expected)
        stream(layer.linear2, f"{index}.mlp_post", expected, inputs=True)
        stream(layer.dropout2, f"{index}.mlp_out", expected)
        h, g = block(h), layer(g, src_mask=mask, is_causal=True)
        expected[f"{index}.resid_post"] = g
    assert found.keys() == expected.keys()
    (found["gradient"],) = torch.autograd.grad((h * up).sum(), ours)
    (expected["gradient"],) = torch.autograd.grad((g * up).sum(), theirs)
    for name, tensor in expected.items():
        tolerance = TOLERANCE[dtype] * max(1.0, float(tensor.detach().abs().max()))
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_last_logits_end_with_pytorchs_last_token(norm: str) -> None:
    model, layers = pair(norm, "relu", torch.float64)
    tokens = torch.randint(5, (3, LENGTH), generator=seeded(4))
    mask = nn.Transformer.generate_square_subsequent_mask(LENGTH, dtype=torch.float64)
    h = model.token_embedding[tokens] + model.position_embedding
    for layer in layers:
        h = layer(h, src_mask=mask, is_causal=True)
    expected = h[:, -1:] @ model.unembedding.weight.T
    torch.testing.assert_close(model.last_logits(tokens), expected, rtol=0, atol=1e-12)
