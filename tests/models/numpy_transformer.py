"""The forward pass once more, written from the equations in NumPy and float64, with loops over rows and heads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import erf

from invariscope.models import TransformerConfig

__all__ = ["forward"]

Array = np.ndarray[Any, np.dtype[np.float64]]


def _norm(weights: dict[str, Array], name: str, x: Array) -> Array:
    if f"{name}.weight" not in weights:
        return x
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _linear(weights: dict[str, Array], name: str, x: Array) -> Array:
    return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0.0)


def _attention(weights: dict[str, Array], name: str, x: Array, num_heads: int, causal: bool) -> Array:
    length = len(x)
    q, k, v = np.split(_linear(weights, f"{name}.query_key_value", x), 3, axis=1)
    heads = []
    for q_h, k_h, v_h in zip(*(np.split(part, num_heads, axis=1) for part in (q, k, v)), strict=True):
        out = np.zeros_like(q_h)
        for t in range(length):
            seen = slice(0, t + 1) if causal else slice(0, length)
            scores = k_h[seen] @ q_h[t] / math.sqrt(q_h.shape[1])
            odds = np.exp(scores - scores.max())
            out[t] = (odds / odds.sum()) @ v_h[seen]
        heads.append(out)
    return _linear(weights, f"{name}.output", np.concatenate(heads, axis=1))


def forward(weights: dict[str, Array], config: TransformerConfig, tokens: np.ndarray[Any, Any]) -> Array:
    """Logits [B, T, V] of the transformer with these weights."""
    rows = []
    for row in tokens:
        x = weights["token_embedding"][row]
        if config.positions == "learned":
            x = x + weights["position_embedding"][: len(row)]
        for layer in range(config.num_layers):
            name = f"blocks.{layer}"
            post = config.layer("norm", layer) == "post"
            normed = x if post else _norm(weights, f"{name}.attention_norm", x)
            x = x + _attention(weights, f"{name}.attention", normed, config.layer("num_heads", layer), config.causal)
            x = _norm(weights, f"{name}.attention_norm", x) if post else x
            if config.layer("mlp_width", layer):
                hidden = _linear(weights, f"{name}.mlp_input", x if post else _norm(weights, f"{name}.mlp_norm", x))
                gelu = hidden * 0.5 * (1 + erf(hidden / math.sqrt(2)))
                hidden = gelu if config.layer("activation", layer) == "gelu" else np.maximum(hidden, 0)
                x = x + _linear(weights, f"{name}.mlp_output", hidden)
                x = _norm(weights, f"{name}.mlp_norm", x) if post else x
        rows.append(_linear(weights, "unembedding", _norm(weights, "final_norm", x)))
    return np.stack(rows)
