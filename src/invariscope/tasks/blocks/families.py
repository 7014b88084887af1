"""Families of interchangeable tokens: the vocabulary of a block-list task, and what may be renamed without changing its law.

A family is a number of *units* that the task does not tell apart; a unit is one token, or some that belong together, such as an
item and its label. Families lie one after the other in the vocabulary, and so do the sides of a unit. The law of a task that
draws units uniformly stays as it is when units of a family change places, and where a relation is symmetric also when the two
sides of a unit do (arXiv:2607.11875: relabelings of tokens that preserve the relation).

>>> words = Vocabulary((Family(name="common", num=2, width=2), Family(name="rare", num=3)))
>>> words.size, words.token(0, 1, 1), words.token(1, 2, 0)
(7, 3, 6)
>>> [list(generator) for generator in words.generators()]
[[2, 3, 0, 1, 4, 5, 6], [0, 1, 2, 3, 5, 4, 6], [0, 1, 2, 3, 5, 6, 4]]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from invariscope.errors import ConfigError

__all__ = ["Family", "Vocabulary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Units that are not told apart.

    Args:
        name: in texts. num: of its units, at least 1. width: tokens of a unit.
        swap: whether the two sides of a unit may be exchanged, each unit for itself.

    Raises:
        ConfigError: for no unit, no token, or sides that cannot be exchanged because there are not two.
    """

    name: str
    num: int
    width: int = 1
    swap: bool = False

    def __post_init__(self) -> None:
        if self.num < 1 or self.width < 1 or (self.swap and self.width != 2):
            raise ConfigError(
                f"family {self.name!r} of {self.num} units of {self.width} tokens" + (", exchangeable" if self.swap else ""),
                expected="a unit and a token, two tokens where they can be exchanged",
                do="raise the number of tokens, or leave the family out",
            )

    @property
    def size(self) -> int:
        """Its tokens."""
        return self.num * self.width


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Families one after the other.

    Args:
        families: in their order.
    """

    families: tuple[Family, ...]

    @property
    def size(self) -> int:
        """All tokens."""
        return sum(family.size for family in self.families)

    def start(self, family: int) -> int:
        """The first token of a family."""
        return sum(one.size for one in self.families[:family])

    def token(self, family: int, unit: int, side: int) -> int:
        """One token."""
        return self.start(family) + unit * self.families[family].width + side

    def family_of(self, token: int) -> tuple[int, int, int]:
        """Family, unit and side of a token."""
        family = max(index for index in range(len(self.families)) if self.start(index) <= token)
        return family, *divmod(token - self.start(family), self.families[family].width)

    def word(self, token: int) -> str:
        """A token as a person reads it: the initial of its family and a number; of larger units a letter for the side."""
        index, unit, side = self.family_of(token)
        family = self.families[index]
        if family.width > 1:
            return f"{'ABCDEFGH'[side]}{unit}"
        return f"{family.name[0]}{unit}" if family.num > 1 else family.name

    def generators(self) -> list[tuple[int, ...]]:
        """Permutations of all tokens that generate every renaming: of each family an exchange and a cycle of its units, and an
        exchange of the sides of its first unit where these can be exchanged."""
        found = []
        for index, family in enumerate(self.families):
            last = family.num - 1
            if last > 0:
                found.append(self._moved(index, lambda unit, side: ({0: 1, 1: 0}.get(unit, unit), side)))
            if last > 1:
                found.append(self._moved(index, lambda unit, side, last=last: (0 if unit == last else unit + 1, side)))
            if family.swap:
                found.append(self._moved(index, lambda unit, side: (unit, 1 - side if unit == 0 else side)))
        return found

    def _moved(self, family: int, move: Callable[[int, int], tuple[int, int]]) -> tuple[int, ...]:
        tokens = []
        for token in range(self.size):
            where, unit, side = self.family_of(token)
            tokens.append(self.token(family, *move(unit, side)) if where == family else token)
        return tuple(tokens)
