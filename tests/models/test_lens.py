"""State dicts of TransformerLens: the same logits as their own forward pass, there and back, and what does not fit."""

from __future__ import annotations

import re

import pytest
import torch

from invariscope.errors import CheckpointError, ConfigError, UnknownNameError
from invariscope.models import Transformer, TransformerConfig, from_lens, to_lens
from models.lens_reference import hooked_logits, random_hooked

TOKENS = torch.tensor([[0, 3, 6, 1], [5, 5, 2, 4]])
NOTHING = ("mlp.W_in", "mlp.W_out", "mlp.b_out")


def build(**changes: object) -> Transformer:
    shape = {"vocab_size": 7, "context_length": 6, "width": 8, "num_heads": 2, "mlp_width": 12, "activation": "relu"}
    config = TransformerConfig(**(shape | {"num_layers": 2} | changes))
    model = Transformer(config, generator=torch.Generator().manual_seed(0)).eval()
    with torch.no_grad():
        for index, parameter in enumerate(model.parameters()):
            if parameter.ndim == 1:  # so that no bias is zero and no gain is one
                parameter += 0.1 * (1 + index) * torch.arange(1, len(parameter) + 1) / len(parameter)
    return model


def assert_same(a: Transformer, b: Transformer) -> None:
    assert a.state_dict().keys() == b.state_dict().keys()
    for key, value in a.state_dict().items():
        assert torch.equal(value, b.state_dict()[key]), key
    assert torch.equal(a(TOKENS), b(TOKENS))


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("biases", [False, True])
def test_a_state_dict_has_the_logits_of_its_own_forward_pass(norm: bool, biases: bool):
    tensors = random_hooked(norm=norm, biases=biases, head_width=3)
    model = from_lens(tensors)
    assert torch.allclose(model(TOKENS), hooked_logits(tensors, TOKENS), atol=1e-5)
    config = model.config
    assert (config.num_heads, config.head_width, config.mlp_width, config.num_outputs) == (2, 3, 12, 5)
    assert (config.norm, config.final_norm) == (("pre", True) if norm else ("none", False))
    assert (config.attention_bias, config.mlp_bias, config.unembedding_bias) == (biases,) * 3
    assert not model.training


@pytest.mark.parametrize("layout", ["hooked", "native"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"num_outputs": 5, "mlp_width": (0, 12)},
        {"mlp_width": 0, "num_layers": 1},
        {"head_width": 3, "num_heads": 1},
        {"norm": "pre", "final_norm": True, "attention_bias": True, "mlp_bias": True, "unembedding_bias": True},
        {"norm": "pre", "final_norm": True, "mlp_width": (12, 0), "attention_bias": (True, False)},
    ],
)
def test_there_and_back_changes_nothing(layout: str, changes: dict[str, object]):
    model = build(**changes)
    tensors = to_lens(model, layout=layout)
    heads = {"num_heads": model.config.num_heads} if layout == "native" else {}
    back = from_lens(tensors, **heads)
    assert back.config == model.config
    assert_same(model, back)
    assert_same(model, from_lens(tensors, config=model.config))
    assert all(tensor.is_contiguous() for tensor in tensors.values())


def test_what_is_written_is_complete_and_no_view():
    model = build(num_outputs=5, mlp_width=(0, 12))
    tensors = to_lens(model)
    assert {key: value.shape for key, value in tensors.items()} == {
        key: value.shape for key, value in random_hooked().items() if not key.endswith((".mask", ".IGNORE"))
    }
    assert tensors["blocks.0.mlp.W_in"].abs().max() == 0
    assert torch.allclose(hooked_logits(tensors, TOKENS), model(TOKENS), atol=1e-5)
    before = model(TOKENS)
    for tensor in tensors.values():
        tensor.zero_()
    assert torch.equal(model(TOKENS), before)


def test_position_embeddings_that_are_missing_are_zeros():
    model = build(positions="none")
    tensors = to_lens(model)
    assert tensors["pos_embed.W_pos"].shape == (6, 8)
    assert torch.equal(from_lens(tensors)(TOKENS), model(TOKENS))
    assert_same(model, from_lens(tensors, config=model.config))


def test_an_mlp_that_adds_nothing_is_none_and_one_that_adds_a_constant_is_one():
    tensors = random_hooked(biases=True, norm=True)
    idle = tensors | {f"blocks.0.{part}": torch.zeros_like(tensors[f"blocks.0.{part}"]) for part in NOTHING}
    model = from_lens(idle)
    assert model.config.mlp_width == (0, 12)
    assert torch.allclose(model(TOKENS), hooked_logits(idle, TOKENS), atol=1e-5)
    constant = idle | {"blocks.0.mlp.b_out": torch.ones(8)}
    assert from_lens(constant).config.mlp_width == 12
    assert torch.allclose(from_lens(constant)(TOKENS), hooked_logits(constant, TOKENS), atol=1e-5)
    without = {key: value for key, value in idle.items() if not key.startswith(("blocks.0.mlp", "blocks.0.ln2"))}
    assert_same(model, from_lens(without))


def test_folded_norms_have_gains_of_one():
    tensors = random_hooked()
    folded = {f"blocks.{i}.ln{j}": 8 for i in (0, 1) for j in (1, 2)} | {"ln_final": 8}
    plain = tensors | {f"{n}.w": torch.ones(d) for n, d in folded.items()} | {f"{n}.b": torch.zeros(d) for n, d in folded.items()}
    assert torch.allclose(from_lens(tensors, folded_norm=True)(TOKENS), hooked_logits(plain, TOKENS), atol=1e-5)
    assert_same(from_lens(tensors, folded_norm=True), from_lens(plain))


def test_names_of_wrappers_and_of_the_native_model_are_understood():
    model = build(attention_bias=True)
    tensors = to_lens(model, layout="native")
    inner = {"embed": "tok_embed", "pos_embed": "pos", "blocks": "layers", "unembed": "head", "in": "fc_in", "out": "fc_out"}
    raw: dict[str, torch.Tensor] = {}
    for key, value in tensors.items():
        *path, kind = (inner.get(part, part) for part in key.split("."))
        raw[".".join([*path, "_original_component", kind])] = value
        raw["original_model." + "._original_component.".join([*path, kind])] = value.clone()
    assert_same(model, from_lens(raw, num_heads=2))
    assert_same(model, from_lens({f"module._orig_mod.{key}": value for key, value in to_lens(model).items()}))
    raw[next(key for key in raw if key.endswith("q._original_component.weight"))].add_(1)
    with pytest.raises(CheckpointError, match=r"two different tensors for blocks.0.attn.W_Q; expected one"):
        from_lens({**raw, "blocks.0.attn.q.weight": tensors["blocks.0.attn.q.weight"] + 2}, num_heads=2)


def test_the_type_of_the_numbers():
    tensors = random_hooked()
    double = from_lens({key: value.double() for key, value in tensors.items()})
    assert double.token_embedding.dtype == torch.float64
    half = from_lens({key: value.half() for key, value in tensors.items()})
    assert half.token_embedding.dtype == torch.float32
    assert torch.allclose(half(TOKENS), double(TOKENS).float(), atol=0.01)


def test_choices_that_the_tensors_do_not_say():
    tensors = random_hooked()
    both = from_lens(tensors, activation="gelu", causal=False)
    assert (both.config.activation, both.config.causal) == ("gelu", False)
    assert not torch.allclose(both(TOKENS), from_lens(tensors)(TOKENS), atol=1e-3)
    with pytest.raises(ConfigError, match=r"does not say how many heads share a matrix; expected num_heads; pass num_heads="):
        from_lens(to_lens(build(), layout="native"))
    with pytest.raises(CheckpointError, match=r"blocks.0.attn.W_Q of shape \[8, 8\] for 3 heads"):
        from_lens(to_lens(build(), layout="native"), num_heads=3)


def test_all_differing_tensors_are_listed():
    other = build(num_heads=1, mlp_width=12, num_outputs=3).config
    with pytest.raises(CheckpointError) as caught:
        from_lens(random_hooked(), config=other, name="step_501.pt")
    assert str(caught.value) == (
        "step_501.pt: blocks.0.attn.W_Q [2, 8, 4] for [1, 8, 8], blocks.0.attn.W_K [2, 8, 4] for [1, 8, 8], "
        "blocks.0.attn.W_V [2, 8, 4] for [1, 8, 8], blocks.0.attn.W_O [2, 4, 8] for [1, 8, 8], "
        "blocks.1.attn.W_Q [2, 8, 4] for [1, 8, 8], blocks.1.attn.W_K [2, 8, 4] for [1, 8, 8], "
        "blocks.1.attn.W_V [2, 8, 4] for [1, 8, 8], blocks.1.attn.W_O [2, 4, 8] for [1, 8, 8] and 1 more; "
        "expected exactly the weights of this model; give the checkpoint that belongs to this configuration, or no configuration"
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"blocks.1.attn.W_K": None}, "the state dict: blocks.1.attn.W_K missing"),
        ({"blocks.1.attn.W_K": torch.ones(1, 8, 4)}, "blocks.1.attn.W_K [1, 8, 4] for [2, 8, 4]"),
        ({"pos_embed.W_pos": None}, "the state dict: pos_embed.W_pos missing; expected 2 axes"),
        ({"blocks.0.attn.W_Q": torch.ones(8, 8)}, "blocks.0.attn.W_Q of shape [8, 8]; expected 3 axes"),
        ({"blocks.0.attn.rotary_sin": torch.ones(6, 4)}, "blocks.0.attn.rotary_sin; expected what TransformerLens calls"),
        ({"blocks.0.mlp.W_gate": torch.ones(8, 12)}, "blocks.0.mlp.W_gate; expected what TransformerLens calls"),
        ({"blocks.0.ln1.w": torch.ones(8)}, "blocks.0.ln1.b missing"),
        ({"blocks.0.ln2.w": torch.ones(8)}, "ln_final.w missing"),
    ],
)
def test_what_is_no_plain_transformer_is_refused(change: dict[str, torch.Tensor | None], says: str):
    tensors = {key: value for key, value in (random_hooked() | change).items() if value is not None}
    with pytest.raises(CheckpointError, match=re.escape(says)):
        from_lens(tensors)


@pytest.mark.parametrize(
    ("key", "config"),
    [
        ("blocks.0.attn.b_Q", {"attention_bias": False}),
        ("blocks.1.mlp.W_in", {"mlp_width": (12, 0)}),
        ("unembed.b_U", {"unembedding_bias": False}),
        ("blocks.0.ln1.w", {"norm": "none", "final_norm": False}),
        ("pos_embed.W_pos", {"positions": "none"}),
    ],
)
def test_what_the_configuration_lacks_must_do_nothing(key: str, config: dict[str, object]):
    tensors = random_hooked(norm=True, biases=True)
    has = {"norm": "pre", "final_norm": True, "attention_bias": True, "mlp_bias": True, "unembedding_bias": True}
    with pytest.raises(CheckpointError, match=rf"{key} .* surplus"):
        from_lens(tensors, config=build(num_outputs=5, **(has | config)).config)
    assert_same(from_lens(tensors), from_lens(tensors, config=build(num_outputs=5, **has).config))


def test_other_names_are_refused_with_what_they_are():
    with pytest.raises(
        CheckpointError, match=r"the state dict: token_embedding, position_embedding, .* and 8 more; expected what"
    ):
        from_lens(build(mlp_width=12, attention_bias=True, unembedding_bias=True).state_dict())
    with pytest.raises(CheckpointError, match="the state dict: no tensors"):
        from_lens({})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"num_heads": (1, 2)}, r"num_heads = \(1, 2\); expected the same in all layers"),
        ({"mlp_width": (4, 8)}, r"mlp_width = \(4, 8\); expected the same"),
        ({"activation": ("gelu", "relu")}, r"activation = \('gelu', 'relu'\)"),
        ({"norm": "post"}, "norm = 'post' with final_norm = False; expected 'none' without a final norm"),
        ({"norm": "pre"}, "norm = 'pre' with final_norm = False"),
        ({"norm": ("none", "pre"), "final_norm": True}, r"norm = \('none', 'pre'\)"),
    ],
)
def test_a_model_that_transformer_lens_does_not_have_is_refused(changes: dict[str, object], says: str):
    model = build(**changes)
    with pytest.raises(ConfigError, match=says):
        to_lens(model)
    with pytest.raises(ConfigError, match=says):
        from_lens(random_hooked(), config=model.config)
    with pytest.raises(UnknownNameError, match="nativ"):
        to_lens(build(), layout="nativ")
