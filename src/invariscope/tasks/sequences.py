"""Sequences of chains: draw paths, list every sequence, read the chains that ship with the library.

What the visible and the hidden chains share. A path is drawn by inverting cumulative laws, one uniform number a step, so that
the same generator gives the same path on every machine.

>>> rows = cumulative_law(torch.tensor([[0.0, 1.0], [0.5, 0.5]], dtype=torch.float64))
>>> uniform = torch.tensor([[0.3], [0.9], [0.4]], dtype=torch.float64)
>>> draw_path(cumulative_law(torch.tensor([1.0, 0.0], dtype=torch.float64)), rows, uniform).tolist()
[[0, 1, 0]]
>>> [tokens.tolist() for tokens in list_sequences(2, 2, 3)]
[[[0, 0], [0, 1], [1, 0]], [[1, 1]]]
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from invariscope.errors import ConfigError, NotEnumerableError, unknown_name

__all__ = [
    "check_enumerable",
    "check_length",
    "check_sample_size",
    "cumulative_law",
    "draw_outcomes",
    "draw_path",
    "is_enumerable",
    "list_sequences",
    "shipped_chain",
]

# Enumerating more sequences takes longer than sampling to the same precision.
MAX_ENUMERATED = 2**20


def shipped_chain(part: str, name: str) -> dict[str, Any]:
    """The entry ``name`` of ``part`` (``observed`` or ``hidden``) of the file of chains.

    Raises:
        UnknownNameError: with the nearest three names of that part.
    """
    chains = json.loads(resources.files("invariscope.tasks").joinpath("chains.json").read_text("utf-8"))[part]
    if name not in chains:
        raise unknown_name("hidden chain" if part == "hidden" else "chain", name, chains)
    return chains[name]


def cumulative_law(law: Float[Tensor, "... V"]) -> Float[Tensor, "... V"]:
    """Cumulative sums of laws along the last axis.

    It ends at exactly 1 from the last possible outcome on, so that no draw below 1 falls on an impossible one.
    """
    total = law.cumsum(-1)
    return total / total[..., -1:]


def draw_outcomes(rows: Float[Tensor, "n V"], uniform: Float[Tensor, "n"]) -> Int[Tensor, "n"]:
    """One outcome a row of cumulative laws, by a uniform number each."""
    return torch.searchsorted(rows, uniform[:, None], right=True)[:, 0]


def draw_path(start: Float[Tensor, "S"], rows: Float[Tensor, "S S"], uniform: Float[Tensor, "L n"]) -> Int[Tensor, "n L"]:
    """States of a chain from its cumulative laws.

    Args:
        start: cumulative law of the first state. rows: of the next state, one row a state.
        uniform: in [0, 1), one number a step and path, float64: a float32 draw has 2^24 values, and would never reach an outcome
            rarer than that.
    """
    states = torch.empty(uniform.shape, dtype=torch.long)
    states[0] = torch.searchsorted(start, uniform[0], right=True)
    for t in range(1, len(uniform)):
        states[t] = draw_outcomes(rows[states[t - 1]], uniform[t])
    return states.T.contiguous()


def check_length(sequence_length: int) -> int:
    """Return ``sequence_length`` if a model can see so many tokens.

    Raises:
        ConfigError: where it is below 1.
    """
    if sequence_length < 1:
        raise ConfigError(f"sequence_length={sequence_length}", expected="1 token or more", do="raise sequence_length")
    return sequence_length


def check_sample_size(num: int) -> int:
    """Return ``num`` if so many sequences can be drawn.

    Raises:
        ConfigError: where it is below 1.
    """
    if num < 1:
        raise ConfigError(f"a sample of {num} sequences", expected="1 or more", do="raise num")
    return num


def is_enumerable(vocab_size: int, length: int) -> bool:
    """Whether there are at most 2^20 sequences."""
    return vocab_size**length <= MAX_ENUMERATED


def check_enumerable(name: str, vocab_size: int, length: int, batch_size: int) -> None:
    """Refuse batches of size 0 and more sequences than can be listed.

    Raises:
        ConfigError: where ``batch_size`` is below 1.
        NotEnumerableError: where there are more than 2^20 sequences; it says what to use instead.
    """
    if batch_size < 1:
        raise ConfigError(f"enumerate with batch_size={batch_size}", expected="1 or more", do="raise batch_size")
    if not is_enumerable(vocab_size, length):
        raise NotEnumerableError(
            f"the chain {name!r} with {vocab_size}^{length} sequences",
            expected=f"at most {MAX_ENUMERATED} to enumerate",
            do="use batches(num, batch_size=..., seed=..., pool=...), whose probabilities are exact, or a shorter "
            "sequence_length",
        )


def list_sequences(vocab_size: int, length: int, batch_size: int) -> Iterator[Int[Tensor, "B T"]]:
    """Every sequence of ``length`` tokens in lexicographic order, at most ``batch_size`` at a time."""
    total = vocab_size**length
    place = vocab_size ** torch.arange(length - 1, -1, -1)
    for start in range(0, total, batch_size):
        number = torch.arange(start, min(start + batch_size, total))
        yield number[:, None] // place % vocab_size
