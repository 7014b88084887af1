"""Associative recall and the inversion of a permutation: pairs, and the partner of a token that is asked for.

>>> import torch
>>> AssociativeRecall(num_blocks=2).text(torch.tensor([0, 1, 2, 3, 0]))
'(t0 t1) (t2 t3) (t0 ?)'
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from invariscope.tasks.blocks.scenes import Block
from invariscope.tasks.blocks.task import BlockTask

__all__ = ["AssociativeRecall", "PermutationInversion"]


@dataclass(frozen=True, kw_only=True)
class AssociativeRecall(BlockTask):
    """Pairs (item, label) and an item: its label follows.

    >>> AssociativeRecall(num_blocks=3, num_rare=8).representatives(causal=False).tokens.tolist()
    [[0, 1, 2, 3, 4, 5, 0]]
    """

    @property
    def name(self) -> str:
        """``recall``."""
        return "recall"


@dataclass(frozen=True, kw_only=True)
class PermutationInversion(BlockTask):
    """Pairs (x, π(x)) of a permutation of some tokens, and one of its values: where it comes from follows.

    In a context of rare tokens π is a uniformly random permutation of as many tokens as there are pairs; common pairs are a fixed
    relation.

    >>> task = PermutationInversion(num_blocks=3, num_rare=3)
    >>> task.text(task.representatives(causal=False).tokens[-1])
    '(t0 t1) (t1 t2) (t2 t0) (t1 ?)'
    """

    relation_sides: ClassVar[tuple[tuple[int, int], ...]] = ((1, 0),)

    @property
    def name(self) -> str:
        """``permutation-inversion``."""
        return "permutation-inversion"

    def _questions(self, unit: Block) -> Iterable[tuple[float, tuple[Block, ...], int]]:
        yield 1.0, ((unit[1],),), 0

    def _rare_contexts(self, num: int) -> Iterable[tuple[float, tuple[Block, ...]]]:
        # The pair that is asked for lies in a cycle of any length with equal probability; the rest is a random permutation.
        family = self._family("token")
        for first in range(1, num + 1):
            for rest, share in _cycle_types(num - first):
                pairs, start = [], 0
                for length in (first, *rest):
                    pairs += [((family, start + i, 0), (family, start + (i + 1) % length, 0)) for i in range(length)]
                    start += length
                yield share / num, tuple(pairs)


def _cycle_types(num: int, longest: int | None = None) -> Iterator[tuple[tuple[int, ...], float]]:
    """Cycle lengths of a uniformly random permutation of ``num`` elements, longest first, with their probability."""

    def partitions(left: int, most: int) -> Iterator[tuple[int, ...]]:
        if left == 0:
            yield ()
        for length in range(min(left, most), 0, -1):
            for others in partitions(left - length, length):
                yield (length, *others)

    for lengths in partitions(num, num if longest is None else longest):
        ways = math.prod(length ** lengths.count(length) * math.factorial(lengths.count(length)) for length in set(lengths))
        yield lengths, 1 / ways
