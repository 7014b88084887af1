"""A behaviour that ships with the library: pairs to extract a core from, pairs to test it on, and verbs outside the objective.

>>> from invariscope.tasks.pairs import Pair
>>> many = Pair(prompt="The keys", answers=" are", foils=" is", label="many")
>>> one = Pair(prompt="The key", answers=" is", foils=" are", label="one")
>>> pairs = PairSet([one, many])
>>> behaviour = Behaviour(name="number", summary="are or is", train=pairs, heldout=pairs, transfers={"have": (" have", " has")})
>>> behaviour.heldout.with_answers(" has", " have").pairs[1].answers
(' have',)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import torch

from invariscope.errors import ConfigError
from invariscope.tasks.pairs import PairSet

__all__ = ["Behaviour", "draw", "quarters"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """Two sets of pairs without a content word in common.

    Args:
        name: under which :func:`invariscope.tasks.builtin_pairs` finds it.
        summary: one line.
        train: to extract from. heldout: to test on; both with two classes in the same order.
        transfers: by name, a text of class 1 and one of class 0 that the pairs do not use, for transfer rows:
            ``heldout.with_answers(negative, positive)``.
    """

    name: str
    summary: str
    train: PairSet
    heldout: PairSet
    transfers: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def draw(items: Iterable[T], num: int, generator: torch.Generator) -> list[T]:
    """``num`` of ``items`` in random order; all of them once before any of them again.

    >>> sorted(draw("abc", 3, torch.Generator().manual_seed(0))), len(draw("abc", 7, torch.Generator().manual_seed(0)))
    (['a', 'b', 'c'], 7)
    """
    known = list(items)
    rounds = itertools.repeat(None, -(-num // len(known)))
    order = [i for _ in rounds for i in torch.randperm(len(known), generator=generator).tolist()]
    return [known[i] for i in order[:num]]


def quarters(num: int, parts: int, what: str) -> list[int]:
    """``num`` prompts on ``parts`` kinds, as evenly as multiples of four allow, so that two crossed numbers are balanced.

    Raises:
        ConfigError: where ``num`` is no multiple of four, or too small for every kind.

    >>> quarters(512, 3, "held-out prompts")
    [172, 172, 168]
    """
    if isinstance(num, bool) or not isinstance(num, int) or num % 4 or num < 4 * parts:
        raise ConfigError(
            f"{num!r} {what}",
            expected=f"a multiple of 4, at least {4 * parts}: {parts} kinds of prompts with both numbers crossed",
            do="round it",
        )
    return [4 * (num // 4 // parts + (part < num // 4 % parts)) for part in range(parts)]
