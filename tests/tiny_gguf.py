"""A tiny random language model as a GGUF file, as llama.cpp would write it: what dequantised copies are made from in tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np

from tiny_language_models import tiny_model

__all__ = ["PIECES", "write_tiny_gguf"]

LAYER = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
OUTSIDE = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
# Letters, and a space as byte-level tokenisers write it.
PIECES = ["<unk>", "<s>", "</s>", "\u0120", *"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQR", "ab", "\u0120a"]


def write_tiny_gguf(path: Path) -> Any:
    """Write a llama of three blocks with grouped keys to ``path``; return the model itself."""
    model = tiny_model("llama-grouped")
    config = model.config
    heads = {"q": config.num_attention_heads, "k": config.num_key_value_heads}
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(heads["q"])
    writer.add_head_count_kv(heads["k"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(PIECES)
    writer.add_token_types([gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.NORMAL] * (len(PIECES) - 3))
    writer.add_token_merges(["a b", "\u0120 a"])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for name, value in model.state_dict().items():
        weight = value.numpy()
        if name in OUTSIDE:
            writer.add_tensor(OUTSIDE[name], weight)
            continue
        _, _, block, rest = name.split(".", 3)
        part = rest.removesuffix(".weight")
        kind = part.removeprefix("self_attn.")[0]
        if part in ("self_attn.q_proj", "self_attn.k_proj"):
            # llama.cpp turns neighbours together where transformers turns halves.
            halves = weight.reshape(heads[kind], 2, weight.shape[0] // heads[kind] // 2, weight.shape[1])
            weight = np.ascontiguousarray(halves.swapaxes(1, 2).reshape(weight.shape))
        writer.add_tensor(f"blk.{block}.{LAYER[part]}.weight", weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model
