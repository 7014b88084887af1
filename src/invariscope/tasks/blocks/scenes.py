"""Scenes: what a sequence of a block-list task is before tokens are chosen, and the orders that its blocks can have.

A scene names its tokens by *symbols*, a family, one of the units that the sequence needs of it, and a side. All sequences that
differ only in which tokens are meant are one scene in one order; so the orbits of a task's law under renaming are few, whatever
the size of the vocabulary. That is what makes exact expectations cheap (arXiv:2607.11875).

>>> block = lambda unit: ((0, unit, 0), (0, unit, 1))
>>> scene = Scene(blocks=(block(0), block(1)), tail=(((0, 0, 0),),), target=(0, 0, 1), weight=1.0, label=0)
>>> [(order.blocks[0][0], order.tail[0][0], order.weight) for order in arrangements(scene)]
[((0, 0, 0), (0, 0, 0), 0.5), ((0, 0, 0), (0, 1, 0), 0.5)]
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from invariscope.errors import NotEnumerableError

__all__ = ["Block", "Scene", "Symbol", "arrangements", "num_arrangements"]

Symbol = tuple[int, int, int]
"""Family, unit of the sequence, side."""
Block = tuple[Symbol, ...]
MAX_ARRANGEMENTS = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One kind of sequence.

    Args:
        blocks: of the context, in any order. tail: blocks behind them in this order, the last of them partial.
        target: what follows. weight: its probability.
        label: 0 for a question about rare tokens, 1 about common ones, 2 about a common one with a fresh partner.
    """

    blocks: tuple[Block, ...]
    tail: tuple[Block, ...]
    target: Symbol
    weight: float
    label: int

    def symbols(self) -> Iterator[Symbol]:
        """Every symbol in order, the target last."""
        for block in (*self.blocks, *self.tail):
            yield from block
        yield self.target

    def num_units(self, family: int) -> int:
        """Units that it needs of a family."""
        return 1 + max((unit for index, unit, _ in self.symbols() if index == family), default=-1)

    def renamed(self) -> Scene:
        """The same with units numbered as they appear."""
        names: dict[tuple[int, int], int] = {}
        counts: Counter[int] = Counter()
        for family, unit, _ in self.symbols():
            if (family, unit) not in names:
                names[family, unit] = counts[family]
                counts[family] += 1

        def named(block: Block) -> Block:
            return tuple((family, names[family, unit], side) for family, unit, side in block)

        return dataclasses.replace(
            self,
            blocks=tuple(map(named, self.blocks)),
            tail=tuple(map(named, self.tail)),
            target=named((self.target,))[0],
        )


def num_arrangements(scene: Scene) -> int:
    """Orders of the blocks that can be told apart."""
    total = math.factorial(len(scene.blocks))
    for count in Counter(_kinds(scene)).values():
        total //= math.factorial(count)
    return total


def arrangements(scene: Scene) -> list[Scene]:
    """Every order of the blocks, with its probability; orders that are the same up to naming are one.

    Raises:
        NotEnumerableError: for more than :data:`MAX_ARRANGEMENTS`.
    """
    total = num_arrangements(scene)
    if total > MAX_ARRANGEMENTS:
        raise NotEnumerableError(
            f"{total:.3g} orders of {len(scene.blocks)} blocks",
            expected=f"at most {MAX_ARRANGEMENTS}",
            do="use fewer blocks, sample(), or a model that does not look at the order: representatives(causal=False)",
        )
    kinds = _kinds(scene)
    stock: dict[object, list[Block]] = {}
    for kind, block in zip(kinds, scene.blocks, strict=True):
        stock.setdefault(kind, []).append(block)
    found: dict[Scene, float] = {}
    for order in _orders(Counter(kinds), len(kinds)):
        taken: Counter[object] = Counter()
        blocks = []
        for kind in order:
            blocks.append(stock[kind][taken[kind]])
            taken[kind] += 1
        one = dataclasses.replace(scene, blocks=tuple(blocks), weight=0.0).renamed()
        found[one] = found.get(one, 0.0) + scene.weight / total
    return [dataclasses.replace(one, weight=weight) for one, weight in found.items()]


def _kinds(scene: Scene) -> list[object]:
    """Blocks that can be exchanged have equal kinds: copies, and those that share nothing with the rest and have one form."""
    counts: Counter[tuple[int, int]] = Counter()
    for block in (*scene.blocks, *scene.tail, (scene.target,)):
        counts.update({(family, unit) for family, unit, _ in block})

    def kind(block: Block) -> object:
        if any(counts[family, unit] > 1 for family, unit, _ in block):
            return block
        units = list(dict.fromkeys((family, unit) for family, unit, _ in block))
        return tuple((family, units.index((family, unit)), side) for family, unit, side in block), "alone"

    return [kind(block) for block in scene.blocks]


def _orders(counts: Counter[object], length: int) -> Iterator[Sequence[object]]:
    if length == 0:
        yield ()
        return
    for kind in [kind for kind, count in counts.items() if count]:
        counts[kind] -= 1
        for rest in _orders(counts, length - 1):
            yield (kind, *rest)
        counts[kind] += 1
