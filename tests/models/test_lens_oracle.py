"""State dicts that TransformerLens itself writes and reads: `make oracle`."""

from __future__ import annotations

import pytest
import torch

from invariscope.circuits import measure_circuits
from invariscope.models import Transformer, TransformerConfig, from_lens, load_lens, to_lens
from invariscope.storage.records import to_json_record
from invariscope.tasks import AssignAdd

pytestmark = pytest.mark.oracle

TASK = AssignAdd(modulus=11, num_variables=4, num_pads=1)
WIDTH, HIDDEN = 16, 24


@pytest.fixture
def bridge():
    """A native model of TransformerLens with weights of its own; biases and the first layer's MLP are zero."""
    from transformer_lens.config import TransformerBridgeConfig
    from transformer_lens.model_bridge import TransformerBridge

    model = TransformerBridge.boot_native(
        TransformerBridgeConfig(
            n_layers=2,
            d_model=WIDTH,
            n_ctx=TASK.sequence_length,
            d_head=WIDTH,
            n_heads=1,
            d_mlp=HIDDEN,
            d_vocab=TASK.vocab_size,
            d_vocab_out=TASK.num_outputs,
            act_fn="relu",
            normalization_type=None,
            positional_embedding_type="standard",
            seed=0,
            device="cpu",
        )
    )
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            absent = name.endswith("bias") or native_name(name).startswith("blocks.0.mlp")
            parameter.copy_(torch.zeros_like(parameter) if absent else 0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def tokens_of(num: int = 64) -> torch.Tensor:
    return TASK.sample(num, generator=torch.Generator().manual_seed(1)).inputs["tokens"]


def measures(model: Transformer) -> dict:
    return to_json_record(measure_circuits(model, TASK, torch.Generator().manual_seed(2), num_sequences=64, num_pairs=32))


def test_what_it_writes_we_read_with_the_same_logits_and_measures(bridge, tmp_path):
    torch.save(bridge.state_dict(), tmp_path / "step_500.pt")
    read = load_lens(tmp_path / "step_500.pt", num_heads=1)
    assert read.config.mlp_width == (0, HIDDEN)
    assert not read.config.attention_bias
    with torch.no_grad():
        theirs = bridge(tokens_of())
    torch.testing.assert_close(read(tokens_of()), theirs, atol=1e-5, rtol=0)
    # A checkpoint of ours with the same weights gives the same measures, in both layouts.
    for layout in ("hooked", "native"):
        assert measures(from_lens(to_lens(read, layout=layout), num_heads=1)) == measures(read)


def test_what_we_write_it_reads(bridge):
    config = TransformerConfig(
        vocab_size=TASK.vocab_size,
        num_outputs=TASK.num_outputs,
        context_length=TASK.sequence_length,
        num_layers=2,
        width=WIDTH,
        num_heads=1,
        mlp_width=(0, HIDDEN),
        activation="relu",
    )
    ours = Transformer(config, generator=torch.Generator().manual_seed(9)).eval()
    written = to_lens(ours, layout="native")
    found = 0
    with torch.no_grad():
        for key, parameter in bridge.state_dict().items():
            name = native_name(key)
            parameter.copy_(written[name])
            found += 1
        theirs = bridge(tokens_of())
    assert found == len(written)
    torch.testing.assert_close(theirs, ours(tokens_of()), atol=1e-5, rtol=0)


def native_name(key: str) -> str:
    """The name in the layout native of a tensor of the bridge, whose components wrap the model's own."""
    inner = {"tok_embed": "embed", "pos": "pos_embed", "layers": "blocks", "head": "unembed", "fc_in": "in", "fc_out": "out"}
    parts = [part for part in key.split(".") if part not in ("_original_component", "original_model")]
    return ".".join(inner.get(part, part) for part in parts)
