"""Induction over several hops: chains of pairs, whose links are shuffled, and the head of one: its end follows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from invariscope.errors import ConfigError
from invariscope.tasks.blocks.scenes import Block
from invariscope.tasks.blocks.task import BlockTask

__all__ = ["KHop"]


@dataclass(frozen=True, kw_only=True)
class KHop(BlockTask):
    """Chains x0 → x1 → ... → xh, each told in h pairs (x0 x1), (x1 x2), ...; asked for x0, xh follows.

    Args:
        num_hops: h. num_blocks: pairs in all, a multiple of h.

    >>> task = KHop(num_hops=2, num_blocks=4, num_rare=6)
    >>> task.text(task.representatives().tokens[0])
    '(t0 t1) (t1 t2) (t3 t4) (t4 t5) (t0 ?)'
    """

    num_hops: int = 2
    num_blocks: int = 4

    def __post_init__(self) -> None:
        if self.num_hops < 1:
            raise ConfigError(f"num_hops = {self.num_hops}", expected="1 or more", do="raise num_hops")
        BlockTask.__post_init__(self)

    @property
    def name(self) -> str:
        """Such as ``2-hop``."""
        return f"{self.num_hops}-hop"

    @property
    def blocks_a_unit(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # it depends on the hops
        """A pair a hop."""
        return self.num_hops

    @property
    def relation_sides(self) -> tuple[tuple[int, int], ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The head determines the end."""
        return ((0, self.num_hops),)

    @property
    def unit_width(self) -> int:
        """A token more than hops."""
        return self.num_hops + 1

    def _blocks_of(self, unit: Block) -> tuple[Block, ...]:
        return tuple(itertools.pairwise(unit))

    def _questions(self, unit: Block) -> Iterable[tuple[float, tuple[Block, ...], int]]:
        yield 1.0, ((unit[0],),), self.num_hops
