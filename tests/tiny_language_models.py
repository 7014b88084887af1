"""Tiny random causal language models of every family, three blocks of width 32: oracles of the table of sites."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["FAMILIES", "tiny_model"]

_SHAPE = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 50}
_SHARED = {**_SHAPE, "num_key_value_heads": 2}
# Two ends that a vocabulary of 50 does not hold would make transformers complain.
_ENDS = {"bos_token_id": 1, "eos_token_id": 2}

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2Config", {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64, "vocab_size": 50, **_ENDS}),
    "gpt_neox": ("GPTNeoXConfig", {**_SHAPE, "use_parallel_residual": True}),
    "gpt_neox-sequential": ("GPTNeoXConfig", {**_SHAPE, "use_parallel_residual": False}),
    "llama": ("LlamaConfig", {**_SHAPE, "num_key_value_heads": 4}),
    "llama-grouped": ("LlamaConfig", _SHARED),
    "llama-single": ("LlamaConfig", {**_SHAPE, "num_key_value_heads": 1}),
    "mistral": ("MistralConfig", {**_SHARED, "sliding_window": 4}),
    "qwen2": ("Qwen2Config", _SHARED),
    "qwen3": ("Qwen3Config", {**_SHARED, "head_dim": 8}),
    "gemma2": ("Gemma2Config", {**_SHARED, "head_dim": 8, "sliding_window": 4}),
    "gemma3": (
        "Gemma3TextConfig",
        {
            **_SHARED,
            "head_dim": 8,
            "sliding_window": 4,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        },
    ),
}
"""Name to transformers' configuration class and its arguments."""


def tiny_model(family: str, *, attention: str | None = None, seed: int = 0) -> Any:
    """A model of ``family`` in evaluation mode; its matrices are large enough that no two sites look alike."""
    import transformers

    kind, arguments = FAMILIES[family]
    config = getattr(transformers, kind)(**arguments)
    # Its constructor draws from the global generator.
    with torch.random.fork_rng(devices=[]):
        model = transformers.AutoModelForCausalLM.from_config(
            config, **({} if attention is None else {"attn_implementation": attention})
        )
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.3, generator=generator)
    return model.eval()


ALPHABET = " abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRST,"
"""A token a letter, from 1: what a vocabulary of 50 has room for."""


class TinyLanguageModel:
    """A tiny model with a tokeniser that reads letters, as a loaded language model looks to whoever uses one."""

    def __init__(self, family: str = "llama", *, seed: int = 0) -> None:
        self.model, self.name, self.context_length = tiny_model(family, seed=seed), f"tiny-{family}", 64

    def encode(self, text: str) -> list[int]:
        return [1 + ALPHABET.index(letter) if letter in ALPHABET else 1 for letter in text]

    def pieces(self, ids) -> list[str]:
        return [ALPHABET[token - 1] for token in ids]

    def single_token(self, text: str) -> int:
        return self.encode(text[-1])[0]


WORDS = [
    "the",
    "old",
    "new",
    "key",
    "keys",
    "lamp",
    "lamps",
    "door",
    "doors",
    "coin",
    "coins",
    "is",
    "are",
    "was",
    "were",
    "red",
    "blue",
    "The",
    "and",
    "of",
    "in",
]


def save_tiny_folder(folder, *, family: str = "llama", seed: int = 0):
    """Save a tiny model with a tokeniser of whole words into ``folder``, as save_pretrained does; return the folder."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast

    words = {word: number for number, word in enumerate(["<unk>", *WORDS])}
    tokenizer = Tokenizer(WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    tiny_model(family, seed=seed).save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>").save_pretrained(folder)
    return folder
