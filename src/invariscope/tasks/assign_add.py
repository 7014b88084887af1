"""Assign and Add: sums of numbers, of variables that the sequence assigns, or of both, modulo N (arXiv:2605.31497).

A sequence assigns numbers to variables, in random order and with padding thrown between, and ends with a sum whose operands are
numbers or variables; the answer is due at the final ``=``. To add two variables a model has to look up what each stands for
and then to add modulo N, which are different circuits; the question is how they come together.

Two layouts write the same task. ``presentation`` writes ``c=1,b=17,a=42,b+19=``; ``paper`` writes ``c1 b17 a42 + b19 =`` as
single tokens, an assignment being two adjacent ones. In both, numbers are the tokens 0 ... N - 1.

Training never has some numbers together (held-out sums) and some variables in some places (``forbidden``). The pools are all
corners of that: ``1var-held`` adds held-out numbers of which one is assigned to a variable, ``2var-seen-bad1`` adds numbers of
training with one variable on a side where training never has it.

>>> task = AssignAdd(modulus=7, num_variables=3, min_assignments=2, max_assignments=2, num_pads=1)
>>> batch = task.sample(1, generator=torch.Generator().manual_seed(0), pool="2var-seen")
>>> task.text(batch.inputs["tokens"][0]), batch.targets.tolist()
('_a=6,c=2,c+a=', [[1]])
>>> places = task.places(batch.inputs["tokens"])
>>> places.operands.tolist(), places.values.tolist(), places.answers.tolist()
([[9, 11]], [[7, 3]], [[2, 6]])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from invariscope.batch import Batch
from invariscope.errors import ConfigError, ShapeError
from invariscope.positions import Positions
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.tasks.assign_add_checks import check_fields, check_pools
from invariscope.tasks.assign_add_listing import check_listing, list_rows
from invariscope.tasks.assign_add_places import Places, find_places, row_text
from invariscope.tasks.assign_add_pools import Pool, Split, Sums, list_pools, query_kinds, select_tuples, split_operands
from invariscope.tasks.assign_add_rows import draw_rows
from invariscope.tasks.describe import factory_name
from invariscope.tasks.sequences import check_sample_size
from invariscope.tasks.task import CandidateMap, Chance, LazyBatches, SampledBatches, Symmetry, check_pool

__all__ = ["AssignAdd", "Places"]

PAPER_SHARES = (6 / 21, 10 / 21, 5 / 21)
"""Shares of sums with 0, 1 and 2 variables where rows are drawn uniformly (arXiv:2605.31497)."""


@dataclass(frozen=True, kw_only=True)
class AssignAdd:
    """The task; every number of it is a field.

    Args:
        modulus: N; numbers are 0 ... N - 1.
        num_variables: variables that there are.
        min_assignments: fewest assignments of a sequence; there is at least one a variable of the sum.
        max_assignments: most of them; their number is uniform between the two.
        num_pads: paddings of the fullest sequences; those with fewer assignments have more, so that all are equally long.
        layout: ``presentation`` (``c=1,``, infix) or ``paper`` (variable and number, prefix).
        num_operands: k, numbers added.
        split: ``unordered`` holds out sums in every order; ``ordered``, as the paper, each order for itself.
        heldout_share: share of the sums that training never has, with whatever variables.
        forbidden: (variable, place) pairs that training never has.
        mixture: share of sums with 0, 1, ..., k variables in training; they need not sum to 1.
        two_var_ratio: the paper's r: sums of k variables for each sum of none; it replaces the last share. None: it stays.
        split_seed: of which sums are held out.

    Raises:
        ConfigError: where the numbers do not fit each other, or a pool would be empty (which is said).
    """

    modulus: int = 59
    num_variables: int = 6
    min_assignments: int = 3
    max_assignments: int = 3
    num_pads: int = 4
    layout: Literal["presentation", "paper"] = "presentation"
    num_operands: int = 2
    split: Split = "unordered"
    heldout_share: float = 0.3
    forbidden: tuple[tuple[int, int], ...] = ((0, 0), (1, 1))
    mixture: tuple[float, ...] = (0.25, 0.375, 0.375)
    two_var_ratio: float | None = None
    split_seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        check_pools(self)

    @classmethod
    def paper(cls, *, split: Split = "ordered", split_seed: int = 0) -> AssignAdd:
        """The paper's: 12 variables, 1 to 6 assignments, 16 tokens; a and b never on the right, k and l never on the left."""
        return cls(
            num_variables=12,
            min_assignments=1,
            max_assignments=6,
            num_pads=0,
            layout="paper",
            split=split,
            forbidden=((0, 1), (1, 1), (10, 0), (11, 0)),
            mixture=PAPER_SHARES,
            split_seed=split_seed,
        )

    @property
    def name(self) -> str:
        """``assign-add``."""
        return "assign-add"

    @property
    def plus(self) -> int:
        """The token ``+``."""
        return self.modulus

    @property
    def equals(self) -> int:
        """The token ``=``, at whose last occurrence the answer is due."""
        return self.modulus + 1

    @property
    def pad(self) -> int:
        """The token of padding, which models do see."""
        return self.modulus + 2

    @property
    def comma(self) -> int | None:
        """The token ``,``; None in the paper's layout."""
        return self.modulus + 3 if self.layout == "presentation" else None

    @property
    def first_variable(self) -> int:
        """The token of the first variable; the others follow."""
        return self.modulus + (4 if self.layout == "presentation" else 3)

    @property
    def variable_tokens(self) -> Int[Tensor, "v"]:
        """The tokens of the variables, [num_variables]."""
        return torch.arange(self.first_variable, self.vocab_size)

    @property
    def vocab_size(self) -> int:
        """Numbers, signs and variables."""
        return self.first_variable + self.num_variables

    @property
    def num_outputs(self) -> int:
        """N: answers are numbers."""
        return self.modulus

    @property
    def assignment_length(self) -> int:
        """Tokens of one assignment."""
        return 4 if self.layout == "presentation" else 2

    @property
    def own_variable_offset(self) -> int:
        """How far before an assigned number its variable stands."""
        return 2 if self.layout == "presentation" else 1

    @property
    def prefix_length(self) -> int:
        """Tokens before the query."""
        return self.assignment_length * self.max_assignments + self.num_pads

    @property
    def operand_positions(self) -> tuple[int, ...]:
        """Where the operands stand."""
        start, step = (0, 2) if self.layout == "presentation" else (1, 1)
        return tuple(self.prefix_length + start + step * place for place in range(self.num_operands))

    @property
    def sequence_length(self) -> int:
        """T; every sequence is as long."""
        return self.prefix_length + (2 * self.num_operands if self.layout == "presentation" else self.num_operands + 2)

    @property
    def loss_positions(self) -> Positions:
        """The final ``=``."""
        return "last"

    @property
    def candidate_maps(self) -> tuple[CandidateMap, ...]:
        """None: what moves here is a sum, not a state."""
        return ()

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """Shares of training's sums with 0, 1, ..., k variables, which sum to 1."""
        shares = list(self.mixture)
        if self.two_var_ratio is not None:
            shares[-1] = self.two_var_ratio * shares[0]
        return tuple(share / sum(shares) for share in shares)

    @cached_property
    def corners(self) -> dict[str, Pool]:
        """The pools that are corners of the task, by name."""
        most_bad = int(self._ways[1].max())
        pools = list_pools(num_operands=self.num_operands, most_bad=most_bad, split=self.split)
        return {pool.name: pool for pool in pools if len(self.ways_of(pool))}

    @property
    def pools(self) -> tuple[str, ...]:
        """``train``, its held-out sums, and every corner."""
        return ("train", "heldout", *self.corners)

    @cached_property
    def seen(self) -> Bool[Tensor, "*N"]:
        """True at the operands that training adds, k axes of length N."""
        return split_operands(
            self.modulus, self.num_operands, split=self.split, heldout_share=self.heldout_share, seed=self.split_seed
        )

    @property
    def symmetry(self) -> Symmetry | None:
        """Exchanges of two variables that are forbidden in the same places."""
        rules = [{place for variable, place in self.forbidden if variable == v} for v in range(self.num_variables)]
        swaps = []
        for one in range(self.num_variables):
            other = next((v for v in range(one + 1, self.num_variables) if rules[v] == rules[one]), None)
            if other is not None:
                tokens = list(range(self.vocab_size))
                a, b = self.first_variable + one, self.first_variable + other
                tokens[a], tokens[b] = b, a
                swaps.append((tuple(tokens), tuple(range(self.sequence_length))))
        return Symmetry(generators=tuple(swaps)) if swaps else None

    @cached_property
    def _ways(self) -> tuple[Int[Tensor, "c k"], Int[Tensor, "c"]]:
        return query_kinds(self.num_variables, self.num_operands, self.forbidden)

    def ways_of(self, pool: Pool) -> Int[Tensor, "c k"]:
        """Every way to fill the query of a corner: indices of variables, -1 for a number."""
        ways, broken = self._ways
        return ways[((ways >= 0).sum(1) == pool.num_variables) & (broken == pool.num_bad)]

    @cached_property
    def _tuples(self) -> dict[Sums, Int[Tensor, "n k"]]:
        kinds: set[Sums] = {pool.sums for pool in self.corners.values()}
        return {sums: select_tuples(self.seen, sums) for sums in kinds}

    def parts(self, pool: str) -> tuple[tuple[float, Pool], ...]:
        """The corners that a pool is mixed of, with their shares.

        Raises:
            UnknownNameError: where there is no such pool.
        """
        check_pool(self, pool)
        if pool in self.corners:
            return ((1.0, self.corners[pool]),)
        kind = "seen" if pool == "train" else "held"
        named = [(share, f"{num}var-{kind}") for num, share in enumerate(self.shares) if share > 0]
        return tuple((share, self.corners[name]) for share, name in named)

    def pairs(self, pool: str) -> Int[Tensor, "n k"]:
        """The operand tuples of a pool, each once.

        Raises:
            UnknownNameError: where there is no such pool.
        """
        return self._tuples[self.parts(pool)[0][1].sums]

    def sample(self, num: int, *, generator: torch.Generator, pool: str = "train") -> Batch:
        """``num`` sequences of a pool.

        Returns:
            Batch with tokens [num, T], targets [num, 1] (the sum), labels [num] (how many operands are variables) and groups
            [num] (the numbers added, in whatever order).

        Raises:
            ConfigError: where ``num`` is below 1. UnknownNameError: where there is no such pool.
        """
        check_sample_size(num)
        parts = self.parts(pool)
        ways, starts, sizes = _stacked([self.ways_of(part) for _, part in parts])
        tuples = self.pairs(pool)
        uniform = torch.rand(3, num, generator=generator, dtype=torch.float64)
        bounds = torch.tensor([share for share, _ in parts], dtype=torch.float64).cumsum(0)
        kind = torch.searchsorted(bounds[:-1].contiguous(), uniform[0], right=True)
        way = ways[starts[kind] + (uniform[1] * sizes[kind]).long()]
        operands = tuples[(uniform[2] * len(tuples)).long()]
        return self.known(draw_rows(self, operands, way, way, generator), operands, (way >= 0).sum(1))

    def compose(
        self, operands: Int[Tensor, "B k"], is_variable: Bool[Tensor, "B k"] | tuple[bool, ...], *, generator: torch.Generator
    ) -> Batch:
        """Sequences with chosen operands in random contexts that assign them, whether or not the query names the variables.

        With equal operands and equally seeded generators, two calls that differ in ``is_variable`` alone give pairs of sequences
        that differ in the query alone: the constant and the variable version of one sum.

        Args:
            operands: the numbers to add. is_variable: which of them the query names by a variable.
            generator: of the variables, the other assignments, their order and the padding.

        Raises:
            ShapeError: for operands that are not [B, k] numbers below N.
            ConfigError: where sequences hold fewer assignments than there are operands.
        """
        if operands.ndim != 2 or operands.shape[1] != self.num_operands or bool((operands % self.modulus != operands).any()):
            raise ShapeError(
                f"operands of shape {list(operands.shape)}, {operands.min()} ... {operands.max()}",
                expected=f"[B, {self.num_operands}] numbers from 0 to {self.modulus - 1}",
                do="give the numbers to add",
            )
        if self.max_assignments < self.num_operands:
            raise ConfigError(
                f"max_assignments = {self.max_assignments} for {self.num_operands} operands that are all assigned",
                expected=f"at least {self.num_operands}",
                do="raise max_assignments",
            )
        ways, broken = self._ways
        whole = ways[((ways >= 0).all(1)) & (broken == 0)]
        way = whole[(torch.rand(len(operands), generator=generator, dtype=torch.float64) * len(whole)).long()]
        named = torch.as_tensor(is_variable).expand(operands.shape)
        tokens = draw_rows(self, operands, way, torch.where(named, way, -1), generator)
        return self.known(tokens, operands, named.sum(1))

    def known(
        self,
        tokens: Int[Tensor, "B T"],
        operands: Int[Tensor, "B k"],
        num_variables: Int[Tensor, "B"],
        weights: Float[Tensor, "B"] | None = None,
    ) -> Batch:
        """A batch of sequences with what is known about them."""
        digits = self.modulus ** torch.arange(self.num_operands)
        return Batch(
            inputs={"tokens": tokens},
            targets=operands.sum(1, keepdim=True) % self.modulus,
            labels=num_variables,
            groups=(operands.sort(1).values * digits).sum(1),
            weights=weights,
        )

    def places(self, tokens: Int[Tensor, "B T"]) -> Places:
        """Where operands, values and variables stand in sequences of this task.

        Raises:
            ShapeError: for sequences of another length, or whose sum has a variable that they do not assign.
        """
        return find_places(self, tokens)

    def text(self, tokens: Int[Tensor, "T"]) -> str:
        """A sequence as a person reads it; ``_`` is padding."""
        return row_text(self, tokens)

    def batches(self, num: int, *, batch_size: int, seed: int, pool: str = "train") -> SampledBatches:
        """``num`` sequences in batches, the same at every loop; see :class:`SampledBatches`."""
        return SampledBatches(self, num, batch_size=batch_size, seed=seed, pool=pool)

    def enumerate(self, pool: str = "train", batch_size: int = 4096) -> Iterable[Batch]:
        """Every sequence of a pool, weighted by its probability, where there are at most 2^20.

        Raises:
            ConfigError, UnknownNameError: for a batch size below 1, and for no such pool.
            NotEnumerableError: where there are more; ``pairs(pool)`` with ``compose`` covers every sum of a pool once.
        """
        check_listing(self, pool, batch_size)

        def start() -> Iterator[Batch]:
            return list_rows(self, pool, batch_size)

        return LazyBatches(start)

    def chance(self) -> Chance:
        """The best constant answer to training's sums."""
        sums = self.pairs("train").sum(1) % self.modulus
        law = torch.bincount(sums, minlength=self.modulus).double() / len(sums)
        return Chance(accuracy=float(law.max()), cross_entropy=float(torch.special.entr(law).sum()))

    def optimum(self) -> Chance:
        """Every answer is certain."""
        return Chance(accuracy=1.0, cross_entropy=0.0)

    def describe(self) -> dict[str, Any]:
        """The task as JSON; see :func:`invariscope.tasks.build_task`."""
        return {"factory": factory_name(type(self)), "arguments": {"fields": to_json_record(self)}}

    @classmethod
    def from_json(cls, *, fields: dict[str, Any]) -> AssignAdd:
        """The task that :meth:`describe` describes."""
        return from_json_record(cls, fields)


def _stacked(parts: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    sizes = torch.tensor([len(part) for part in parts])
    return torch.cat(parts), sizes.cumsum(0) - sizes, sizes
