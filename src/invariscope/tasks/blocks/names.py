"""Indirect objects: two names meet, one of them gives; the other one gets.

The shape of "When Ada and Ben went out, Ada gave it to", with all else left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from invariscope.tasks.blocks.families import Family
from invariscope.tasks.blocks.scenes import Block
from invariscope.tasks.blocks.task import BlockTask

__all__ = ["IndirectObject"]


@dataclass(frozen=True, kw_only=True)
class IndirectObject(BlockTask):
    """Pairs of names; one name of a pair gives, and who gets follows.

    >>> task = IndirectObject(num_blocks=2)
    >>> task.text(task.representatives(causal=False).tokens[0])
    '(t0 t1) (t2 t3) (t0 give) (to ?)'
    """

    num_blocks: int = 2
    relation_sides: ClassVar[tuple[tuple[int, int], ...]] = ((0, 1), (1, 0))

    @property
    def name(self) -> str:
        """``indirect-object``."""
        return "indirect-object"

    @property
    def _extra_families(self) -> tuple[Family, ...]:
        return (Family(name="give", num=1), Family(name="to", num=1))

    def _questions(self, unit: Block) -> Iterable[tuple[float, tuple[Block, ...], int]]:
        give, to = ((self._family(name), 0, 0) for name in ("give", "to"))
        for giver in (0, 1):
            yield 0.5, ((unit[giver], give), (to,)), 1 - giver
