"""The base of all block-list tasks: how scenes become sequences, drawn, listed, or one of each orbit.

A sequence is a list of blocks, the last one partial; the answer is the token that follows. What belongs together is *common*, a
relation that every sequence keeps and a model can memorise, or *rare*, fresh in every sequence, so that only the context tells
(arXiv:2607.11875). Two streams enter a model: tokens, and position labels (:mod:`invariscope.tasks.blocks.placements`).

The law is a mixture of scenes; in each, units of every family are drawn without replacement, blocks are put into random order,
and labels are drawn. So it is symmetric by construction, and expectations over it are sums over few representatives.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from invariscope.batch import Batch
from invariscope.errors import ConfigError, NotEnumerableError
from invariscope.positions import Positions
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.tasks.blocks.checks import check_numbers, check_units
from invariscope.tasks.blocks.drawing import draw_units, write_scene
from invariscope.tasks.blocks.families import Family, Vocabulary
from invariscope.tasks.blocks.listing import (
    Representatives,
    list_representatives,
    list_sequences,
    num_choices,
    unit_law,
)
from invariscope.tasks.blocks.placements import Placement, PlacementKind
from invariscope.tasks.blocks.scenes import Block, Scene, Symbol, arrangements
from invariscope.tasks.describe import factory_name
from invariscope.tasks.sequences import MAX_ENUMERATED, check_sample_size
from invariscope.tasks.task import CandidateMap, Chance, LazyBatches, SampledBatches, Symmetry, check_pool

__all__ = ["BlockTask"]

RARE, COMMON, FRESH = 0, 1, 2
"""Labels of sequences: a question about rare tokens, about common ones, about a common one with a fresh partner."""


@dataclass(frozen=True, kw_only=True)
class BlockTask(ABC):
    """What all block-list tasks have. Use one of its subclasses.

    Args:
        num_blocks: n, whole blocks of the context, copies included.
        num_rare: rare tokens (of each class, where tokens have classes).
        num_common: units of the common relation.
        rare_share: f_r, probability that the question is about rare tokens.
        fresh_share: f_v, probability that a question about a common unit finds a fresh partner in its context instead of its own.
        contexts: ``homogeneous``: all of a context is rare, or all common, as the question; ``mixed``: each block for itself.
            In mixed contexts "attend to rare tokens" is a shortcut, and no induction need form.
        burstiness: B, copies in the context.
        burst: copies of the ``relevant`` unit alone, or of ``all`` units.
        zipf: exponent; unit r of a family is drawn in proportion to (r + 1)^-zipf. Anything but 0 breaks the symmetry.
        placement: of blocks on position labels.
        num_slots: for ``slots``; None: as many as blocks, the partial ones included.
        num_positions: for ``offsets`` and ``ring``; None: as many as tokens.
        symmetric: whether the common relation holds both ways, so that its sides can be exchanged.

    Raises:
        ConfigError: where the numbers do not fit each other. UnknownNameError: for an unknown choice.
    """

    num_blocks: int = 3
    num_rare: int = 8
    num_common: int = 0
    rare_share: float = 1.0
    fresh_share: float = 0.0
    contexts: Literal["homogeneous", "mixed"] = "homogeneous"
    burstiness: int = 1
    burst: Literal["relevant", "all"] = "relevant"
    zipf: float = 0.0
    placement: PlacementKind = "slots"
    num_slots: int | None = None
    num_positions: int | None = None
    symmetric: bool = False

    classes: ClassVar[tuple[str, ...]] = ("token",)
    """Classes of rare tokens."""
    blocks_a_unit: ClassVar[int] = 1
    relation_sides: ClassVar[tuple[tuple[int, int], ...]] = ((0, 1),)
    """Of a common unit: which side determines which."""

    def __post_init__(self) -> None:
        check_numbers(self)
        check_units(self)
        self._placement  # noqa: B018  # refuses labels that do not suffice

    @property
    @abstractmethod
    def name(self) -> str:
        """Of the task, as in results."""

    @property
    def unit_width(self) -> int:
        """Tokens that belong together."""
        return 2

    @property
    def block_size(self) -> int:
        """k, the most tokens of a block."""
        return 2

    @property
    def num_units(self) -> int:
        """Different units of a context."""
        if self.burst == "all":
            return self.num_blocks // (self.blocks_a_unit * self.burstiness)
        return self.num_blocks // self.blocks_a_unit - self.burstiness + 1

    def _blocks_of(self, unit: Block) -> tuple[Block, ...]:
        """The blocks that tell of a unit."""
        return (unit,)

    def _questions(self, unit: Block) -> Iterable[tuple[float, tuple[Block, ...], int]]:
        """Ways to ask for a unit: probability, blocks behind the context, and the side of the unit that follows."""
        yield 1.0, ((unit[0],),), 1

    def _rare_contexts(self, num: int) -> Iterable[tuple[float, tuple[Block, ...]]]:
        """Ways for ``num`` rare units to be, the one that is asked for first."""
        yield 1.0, tuple(self._rare_unit(number) for number in range(num))

    @property
    def _extra_families(self) -> tuple[Family, ...]:
        return ()

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """Common units first, then rare tokens by class, then what a task has besides."""
        common = (
            Family(name="common", num=self.num_common, width=self.unit_width, swap=self.symmetric) if self.num_common else None
        )
        needs_rare = self.rare_share > 0 or self.fresh_share > 0
        rare = tuple(Family(name=name, num=self.num_rare) for name in self.classes) if needs_rare else ()
        return (*((common,) if common else ()), *rare, *self._extra_families)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Of all families."""
        return Vocabulary(self.families)

    def _family(self, name: str) -> int:
        return [family.name for family in self.families].index(name)

    def _rare_unit(self, number: int) -> Block:
        width = self.unit_width
        names = list(self.classes)
        if len(names) > 1:
            return tuple((self._family(names[side]), number, 0) for side in range(width))
        return tuple((self._family(names[0]), number * width + side, 0) for side in range(width))

    def _common_unit(self, number: int) -> Block:
        return tuple((self._family("common"), number, side) for side in range(self.unit_width))

    @property
    def vocab_size(self) -> int:
        """Tokens."""
        return self.vocabulary.size

    @property
    def num_outputs(self) -> int:
        """Every token can be an answer."""
        return self.vocabulary.size

    @property
    def relation(self) -> Int[Tensor, "m 2"] | None:
        """(token, its partner) of every common unit, both ways where that is symmetric: the matrix C; None without any."""
        if not self.num_common:
            return None
        sides = [*self.relation_sides, *(((b, a) for a, b in self.relation_sides) if self.symmetric else ())]
        family = self._family("common")
        pairs = [
            [self.vocabulary.token(family, unit, a), self.vocabulary.token(family, unit, b)]
            for a, b in dict.fromkeys(sides)
            for unit in range(self.num_common)
        ]
        return torch.tensor(pairs)

    @cached_property
    def scenes(self) -> tuple[Scene, ...]:
        """Every kind of sequence, with its probability."""
        rare, fresh = self.rare_share, self.fresh_share
        kinds = {RARE: rare, COMMON: (1 - rare) * (1 - fresh), FRESH: (1 - rare) * fresh}
        return tuple(
            scene
            for label, weight in kinds.items()
            if weight > 0
            for share, units in self._contexts(label)
            for scene in self._asked(label, weight * share, units)
        )

    def _contexts(self, label: int) -> Iterator[tuple[float, tuple[Block, ...]]]:
        num = self.num_units
        if self.contexts == "homogeneous" or num == 1 or self.rare_share == 1:
            if label == RARE:
                yield from self._rare_contexts(num)
            else:
                yield 1.0, tuple(self._common_unit(number) for number in range(num))
            return
        for rare in range(num):
            share = math.comb(num - 1, rare) * self.rare_share**rare * (1 - self.rare_share) ** (num - 1 - rare)
            first = (self._rare_unit(0),) if label == RARE else (self._common_unit(0),)
            used = 1 if label == RARE else 0
            others = [self._rare_unit(used + number) for number in range(rare)]
            others += [self._common_unit(1 - used + number) for number in range(num - 1 - rare)]
            if share > 0:
                yield share, (*first, *others)

    def _asked(self, label: int, weight: float, units: tuple[Block, ...]) -> Iterator[Scene]:
        for share, tail, side in self._questions(units[0]):
            told = units[0]
            if label == FRESH:
                told = (*told[:side], self._fresh(units, side), *told[side + 1 :])
                [(_, tail, _)] = [one for one in self._questions(told) if one[2] == side]
            blocks = [block for unit in (told, *units[1:]) for block in self._blocks_of(unit)]
            if self.burst == "all":
                blocks *= self.burstiness
            else:
                blocks += list(self._blocks_of(told)) * (self.burstiness - 1)
            scene = Scene(blocks=tuple(blocks), tail=tail, target=told[side], weight=weight * share, label=label)
            yield scene.renamed()

    def _fresh(self, units: tuple[Block, ...], side: int) -> Symbol:
        family = self._family(self.classes[side if len(self.classes) > 1 else 0])
        return family, 1 + max((unit for block in units for index, unit, _ in block if index == family), default=-1), 0

    @cached_property
    def _lengths(self) -> tuple[int, ...]:
        return tuple(map(len, (*self.scenes[0].blocks, *self.scenes[0].tail)))

    @cached_property
    def _placement(self) -> Placement:
        blocks, k = len(self._lengths), self.block_size
        size = self.sequence_length if self.num_positions is None or self.placement == "fixed" else self.num_positions
        if self.placement == "slots":
            size = k * (blocks if self.num_slots is None else self.num_slots)
        return Placement(kind=self.placement, lengths=self._lengths, block_size=k, size=size)

    @property
    def sequence_length(self) -> int:
        """T."""
        return sum(self._lengths)

    @property
    def num_labels(self) -> int:
        """P, position labels that there are."""
        return self._placement.size

    @property
    def loss_positions(self) -> Positions:
        """The last token, behind which the answer is due."""
        return "last"

    @property
    def pools(self) -> tuple[str, ...]:
        """Two streams of one law."""
        return ("train", "heldout")

    @property
    def candidate_maps(self) -> tuple[CandidateMap, ...]:
        """None."""
        return ()

    @property
    def symmetry(self) -> Symmetry | None:
        """Renamings of tokens, and permutations of position *labels*, that keep the law."""
        return self._symmetry

    @cached_property
    def _symmetry(self) -> Symmetry | None:
        tokens = [] if self.zipf else self.vocabulary.generators()
        labels = self._placement.generators()
        same = tuple(range(self.vocab_size)), tuple(range(self.num_labels))
        generators = [(one, same[1]) for one in tokens] + [(same[0], one) for one in labels]
        return Symmetry(generators=tuple(generators)) if generators else None

    def sample(self, num: int, *, generator: torch.Generator, pool: str = "train") -> Batch:
        """``num`` sequences.

        Returns:
            Batch with tokens and, where the placement is not fixed, positions [num, T], targets [num, 1], labels [num] (0 rare, 1
            common, 2 common with a fresh partner) and groups [num] (the scene).

        Raises:
            ConfigError: where ``num`` is below 1. UnknownNameError: where there is no such pool.
        """
        check_sample_size(num)
        check_pool(self, pool)
        weights = torch.tensor([scene.weight for scene in self.scenes], dtype=torch.float64)
        scene = torch.multinomial(weights, num, replacement=True, generator=generator)
        units = [draw_units(self, index, num, generator) for index in range(len(self.families))]
        shuffled = torch.rand(num, self.num_blocks, generator=generator).argsort(1)
        tokens = torch.empty(num, self.sequence_length + 1, dtype=torch.long)
        for index in scene.unique().tolist():
            rows = scene == index
            tokens[rows] = write_scene(self.scenes[index], [one[rows] for one in units], shuffled[rows])
        labels = torch.tensor([one.label for one in self.scenes])
        return Batch(
            inputs=self._placement.inputs(tokens[:, :-1].contiguous(), self._placement.draw(num, generator)),
            targets=tokens[:, -1:].clone(),
            labels=labels[scene],
            groups=scene,
        )

    def enumerate(self, pool: str, batch_size: int) -> Iterable[Batch]:
        """Every sequence with its probability.

        Raises:
            ConfigError, UnknownNameError: for a batch size below 1, or no such pool.
            NotEnumerableError: for more than 2^20 sequences.
        """
        check_pool(self, pool)
        if batch_size < 1:
            raise ConfigError(f"enumerate with batch_size={batch_size}", expected="1 or more", do="raise batch_size")
        orders = self._orders
        total = sum(num_choices(self, one) for one in orders) * self._placement.num_ways()
        if total > MAX_ENUMERATED:
            raise NotEnumerableError(
                f"{self.name}, which has about 10^{math.log10(total):.0f} sequences",
                expected=f"at most {MAX_ENUMERATED}",
                do="use representatives(), which knows the law by its symmetries, or batches(...)",
            )
        return LazyBatches(lambda: list_sequences(self, orders, self._placement, batch_size))

    @cached_property
    def _orders(self) -> list[Scene]:
        return [one for scene in self.scenes for one in arrangements(scene)]

    def representatives(self, *, causal: bool = True) -> Representatives:
        """One sequence of each orbit of :attr:`symmetry`, with the orbit's probability; no sum over the vocabulary is left.

        Args:
            causal: for models that see earlier tokens only; otherwise the order of blocks does not matter, where labels do not
                tell it, and one order stands for all.

        Raises:
            NotEnumerableError: where there are too many, or ``zipf`` is not 0: then there are no such orbits.
        """
        if self.zipf:
            raise NotEnumerableError(
                f"{self.name} with zipf = {self.zipf}, whose tokens are not alike",
                expected="zipf = 0, for which orbits are known",
                do="use enumerate() where the law is small, or sample()",
            )
        free = not causal and self.placement in ("slots", "offsets")
        orders = [scene.renamed() for scene in self.scenes] if free else self._orders
        return list_representatives(self, orders, self._placement)

    def batches(self, num: int, *, batch_size: int, seed: int, pool: str = "train") -> Iterable[Batch]:
        """``num`` sequences in batches, re-iterable and the same every time."""
        return SampledBatches(self, num, batch_size=batch_size, seed=seed, pool=pool)

    def chance(self) -> Chance:
        """The best constant answer."""
        law = torch.zeros(self.vocab_size, dtype=torch.float64)
        for scene in self.scenes:
            family, unit, side = scene.target
            for tokens, share in unit_law(self, family, unit):
                law[tokens[side]] += scene.weight * share
        return Chance(accuracy=float(law.max()), cross_entropy=float(-torch.xlogy(law, law).sum()))

    def optimum(self) -> Chance | None:
        """The context always tells the answer."""
        return Chance(accuracy=1.0, cross_entropy=0.0)

    def text(self, tokens: Int[Tensor, "T"]) -> str:
        """A sequence as a person reads it: blocks in brackets, the last one open.

        Args:
            tokens: of one sequence.
        """
        words, parts, start = [self.vocabulary.word(int(token)) for token in tokens], [], 0
        for length in self._lengths:
            parts.append(" ".join(words[start : start + length]))
            start += length
        return " ".join([*(f"({part})" for part in parts[:-1]), f"({parts[-1]} ?)"])

    def describe(self) -> dict[str, Any]:
        """As JSON; see :func:`invariscope.tasks.describe_task`."""
        return {"factory": factory_name(type(self)), "arguments": to_json_record(self)}

    @classmethod
    def from_json(cls, **arguments: Any) -> BlockTask:
        """The task of :meth:`describe`."""
        return from_json_record(cls, arguments)
