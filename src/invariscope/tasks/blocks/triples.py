"""Longer blocks: n-grams of a context, and labels that an item has under a condition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from invariscope.errors import ConfigError
from invariscope.tasks.blocks.scenes import Block
from invariscope.tasks.blocks.task import BlockTask

__all__ = ["ConditionalRetrieval", "Ngram"]


@dataclass(frozen=True, kw_only=True)
class _Shared(BlockTask):
    """Blocks whose last token needs all the others: each distractor shares one of them with the block that is asked for.

    Args:
        shared: whether distractors do (among rare tokens).
    """

    shared: bool = True

    def _questions(self, unit: Block) -> Iterable[tuple[float, tuple[Block, ...], int]]:
        yield 1.0, (unit[:-1],), len(unit) - 1

    def _rare_contexts(self, num: int) -> Iterable[tuple[float, tuple[Block, ...]]]:
        units = [self._rare_unit(number) for number in range(num)]
        if self.shared:
            prefix = self.unit_width - 1
            for number in range(1, num):
                kept = (number - 1) % prefix
                units[number] = (*units[number][:kept], units[0][kept], *units[number][kept + 1 :])
        yield 1.0, tuple(units)


@dataclass(frozen=True, kw_only=True)
class Ngram(_Shared):
    """Blocks of ``order`` tokens, and all but the last of one of them: the last follows.

    Args:
        order: n, at least 2.

    >>> task = Ngram(order=3, num_blocks=2)
    >>> task.text(task.representatives(causal=False).tokens[0])
    '(t0 t1 t2) (t0 t3 t4) (t0 t1 ?)'
    """

    order: int = 3

    def __post_init__(self) -> None:
        if self.order < 2:
            raise ConfigError(f"order = {self.order}", expected="2 or more", do="raise order")
        BlockTask.__post_init__(self)

    @property
    def name(self) -> str:
        """Such as ``3-gram``."""
        return f"{self.order}-gram"

    @property
    def unit_width(self) -> int:
        """n."""
        return self.order

    @property
    def block_size(self) -> int:
        """n."""
        return self.order

    @property
    def relation_sides(self) -> tuple[tuple[int, int], ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Its neighbour determines the last token."""
        return ((self.order - 2, self.order - 1),)


@dataclass(frozen=True, kw_only=True)
class ConditionalRetrieval(_Shared):
    """Triples (item, condition, label) of three classes of tokens; asked for an item under a condition, its label follows.

    >>> task = ConditionalRetrieval(num_blocks=3, num_rare=3)
    >>> task.text(task.representatives(causal=False).tokens[0])
    '(i0 c0 l0) (i0 c1 l1) (i1 c0 l2) (i0 c0 ?)'
    """

    classes: ClassVar[tuple[str, ...]] = ("item", "condition", "label")
    relation_sides: ClassVar[tuple[tuple[int, int], ...]] = ((0, 2),)

    @property
    def name(self) -> str:
        """``conditional-retrieval``."""
        return "conditional-retrieval"

    @property
    def unit_width(self) -> int:
        """Item, condition, label."""
        return 3

    @property
    def block_size(self) -> int:
        """3."""
        return 3
