"""Placements: which position label each token of a block list carries.

A position is a label that is drawn, not an index, so that the law can be symmetric in positions too (arXiv:2607.11875):

* ``slots``: every block lies in a slot of its own, one of S; token j of slot s has the label s k + j. Slots can be exchanged.
* ``offsets``: on a ring of P labels every block has an offset of its own: o + j. The ring can be turned.
* ``ring``: on a ring of P labels the whole sequence has one offset: o + t. The ring can be turned.
* ``fixed``: token t has the label t, which batches do not say. Nothing can be exchanged, and any transformer that embeds the
  places of its tokens can be trained.

>>> place = Placement(kind="slots", lengths=(2, 1), block_size=2, size=4)
>>> [positions.tolist() for positions, weight in place.every()]
[[0, 1, 2], [2, 3, 0]]
>>> place.generators()
[(2, 3, 0, 1)]
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Int
from torch import Tensor

from invariscope.errors import ConfigError, NotEnumerableError, unknown_name

__all__ = ["Placement", "PlacementKind"]

PlacementKind = Literal["slots", "offsets", "ring", "fixed"]
MAX_PATTERNS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where the blocks of one task stand.

    Args:
        kind: see above. lengths: tokens of each block, in order. block_size: k, the most that a block has.
        size: P, how many labels there are.

    Raises:
        ConfigError: where the labels do not suffice. UnknownNameError: for another kind.
    """

    kind: PlacementKind
    lengths: tuple[int, ...]
    block_size: int
    size: int

    def __post_init__(self) -> None:
        if self.kind not in get_args(PlacementKind):
            raise unknown_name("placement", str(self.kind), get_args(PlacementKind))
        k, num = self.block_size, len(self.lengths)
        least = {"slots": k * num, "offsets": k, "ring": sum(self.lengths), "fixed": sum(self.lengths)}[self.kind]
        if self.size < least or (self.kind == "slots" and self.size % k):
            what = f"{least // k} slots or more" if self.kind == "slots" else f"{least} labels or more"
            raise ConfigError(
                f"{self.size} position labels for {num} blocks of up to {k} tokens, placed by {self.kind}",
                expected=what,
                do="raise num_slots" if self.kind == "slots" else "raise num_positions",
            )

    @property
    def num_slots(self) -> int:
        """S, where blocks lie in slots."""
        return self.size // self.block_size

    def inputs(self, tokens: Int[Tensor, "B T"], positions: Int[Tensor, "B T"]) -> dict[str, Tensor]:
        """What a model is given: labels too, where they are not fixed."""
        return {"tokens": tokens} if self.kind == "fixed" else {"tokens": tokens, "positions": positions}

    def draw(self, num: int, generator: torch.Generator) -> Int[Tensor, "num T"]:
        """Labels of ``num`` sequences."""
        blocks = len(self.lengths)
        if self.kind == "slots":
            starts = torch.rand(num, self.num_slots, generator=generator).argsort(1)[:, :blocks]
        elif self.kind == "offsets":
            starts = torch.randint(self.size, (num, blocks), generator=generator)
        else:
            starts = torch.randint(self.size if self.kind == "ring" else 1, (num, 1), generator=generator).expand(-1, blocks)
        return self._labels(starts)

    def every(self) -> Iterator[tuple[Int[Tensor, "T"], float]]:
        """Every way to place the blocks, with its probability."""
        ways = self._ways()
        for start in ways:
            yield self._labels(torch.tensor([start]))[0], 1 / len(ways)

    def representatives(self) -> Iterator[tuple[Int[Tensor, "T"], float]]:
        """One way of each orbit of the generated group, with the orbit's probability.

        Raises:
            NotEnumerableError: for more than :data:`MAX_PATTERNS`.
        """
        if self.kind != "offsets":
            first = tuple(range(len(self.lengths))) if self.kind == "slots" else (0,) * len(self.lengths)
            yield self._labels(torch.tensor([first]))[0], 1.0
            return
        num = self.size ** (len(self.lengths) - 1)
        if num > MAX_PATTERNS:
            raise NotEnumerableError(
                f"{num:.3g} ways to place {len(self.lengths)} blocks on a ring of {self.size} labels",
                expected=f"at most {MAX_PATTERNS}",
                do="use placement='slots', a smaller ring, or sample()",
            )
        # The first block stands at 0: the ring can be turned.
        for rest in itertools.product(range(self.size), repeat=len(self.lengths) - 1):
            yield self._labels(torch.tensor([(0, *rest)]))[0], 1 / num

    def num_ways(self) -> int:
        """How many :meth:`every` lists."""
        blocks = len(self.lengths)
        return {
            "slots": math.perm(self.num_slots, blocks),
            "offsets": self.size**blocks,
            "ring": self.size,
            "fixed": 1,
        }[self.kind]

    def generators(self) -> list[tuple[int, ...]]:
        """Permutations of the labels that keep the law."""
        if self.kind == "fixed" or self.size == 1:
            return []
        if self.kind != "slots":
            return [tuple((label + 1) % self.size for label in range(self.size))]
        num, k = self.num_slots, self.block_size
        slots = list(range(num))
        moves = [[1, 0, *slots[2:]]] if num > 1 else []
        moves += [[*slots[1:], 0]] if num > 2 else []
        return [tuple(slot * k + j for slot in moved for j in range(k)) for moved in moves]

    def _ways(self) -> list[tuple[int, ...]]:
        blocks = len(self.lengths)
        if self.kind == "slots":
            return list(itertools.permutations(range(self.num_slots), blocks))
        if self.kind == "offsets":
            return list(itertools.product(range(self.size), repeat=blocks))
        return [(offset,) * blocks for offset in range(self.size if self.kind == "ring" else 1)]

    def _labels(self, starts: Int[Tensor, "n blocks"]) -> Int[Tensor, "n T"]:
        block = torch.tensor([index for index, length in enumerate(self.lengths) for _ in range(length)])
        within = torch.tensor([j for length in self.lengths for j in range(length)])
        if self.kind == "slots":
            return starts[:, block] * self.block_size + within
        if self.kind == "offsets":
            return (starts[:, block] + within) % self.size
        return (starts[:, block] + torch.arange(len(block))) % self.size
