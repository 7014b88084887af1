"""Which sums and which places of variables a pool of Assign and Add holds.

A pool is a corner of the task: how many operands are variables, whether the numbers added were seen in training, and how many
variables stand on a side where training never has them. What leaks is a choice of the split: where *ordered* pairs are held out,
as in arXiv:2605.31497, most held-out sums have their mirror b + a in training, and addition commutes. An *unordered* split
holds both out together.

>>> seen = split_operands(59, 2, split="unordered", heldout_share=0.3, seed=0)
>>> bool((seen == seen.T).all()), int(seen.triu().sum()), 59 * 60 // 2
(True, 1239, 1770)
>>> [pool.name for pool in list_pools(num_operands=2, most_bad=2, split="unordered")][:5]
['0var-seen', '0var-held', '1var-seen', '1var-held', '1var-seen-bad1']
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from invariscope.tasks.task import derive_seed

__all__ = ["Pool", "Split", "Sums", "list_pools", "operand_tuples", "query_kinds", "select_tuples", "split_operands"]

Split = Literal["unordered", "ordered"]
Sums = Literal["seen", "held", "held-swapped", "held-unseen"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One corner of the task.

    Args:
        num_variables: operands that are variables.
        sums: whether training has the numbers added: ``seen``, ``held``; of an ordered split also ``held-swapped``, in another
            order only, and ``held-unseen``, in none.
        num_bad: variables that stand where training never has them.
    """

    num_variables: int
    sums: Sums
    num_bad: int = 0

    @property
    def name(self) -> str:
        """As the task's pools name it."""
        kind, _, rest = self.sums.partition("-")
        return "-".join(
            [f"{self.num_variables}var", kind, *([f"bad{self.num_bad}"] if self.num_bad else []), *([rest] * bool(rest))]
        )


def list_pools(*, num_operands: int, most_bad: int, split: Split) -> tuple[Pool, ...]:
    """All pools of a task whose queries break at most ``most_bad`` rules at once."""
    pools = []
    for num in range(num_operands + 1):
        for bad in range(min(num, most_bad) + 1):
            pools += [Pool(num_variables=num, sums=sums, num_bad=bad) for sums in ("seen", "held")]
    if split == "ordered":
        leaks: tuple[Sums, ...] = ("held-swapped", "held-unseen")
        pools += [Pool(num_variables=num, sums=sums) for num in range(num_operands + 1) for sums in leaks]
    return tuple(pools)


def split_operands(modulus: int, num_operands: int, *, split: Split, heldout_share: float, seed: int) -> Bool[Tensor, "*N"]:
    """Which tuples of numbers training may add: True at [a, b, ...].

    Args:
        modulus: N.
        num_operands: k; the result has k axes of length N.
        split: ``unordered``: a tuple is held out in every order; ``ordered``: each order for itself.
        heldout_share: share of the tuples (of the multisets, where unordered) that is held out, rounded up.
        seed: of the split.
    """
    tuples = operand_tuples(modulus, num_operands)
    keys = tuples.sort(1).values if split == "unordered" else tuples
    classes, which = keys.unique(dim=0, return_inverse=True)
    # A share of .7 of 3481 is 2436.7 pairs, of which 2436 are whole (the paper's count).
    num_seen = math.floor((1 - heldout_share) * len(classes) + 1e-9)
    generator = torch.Generator().manual_seed(derive_seed(seed, "split"))
    seen = torch.zeros(len(classes), dtype=torch.bool)
    seen[torch.randperm(len(classes), generator=generator)[:num_seen]] = True
    return seen[which].view([modulus] * num_operands)


def operand_tuples(modulus: int, num_operands: int) -> Int[Tensor, "n k"]:
    """Every tuple of ``num_operands`` numbers below ``modulus``, in the order of a row-major table."""
    return torch.cartesian_prod(*[torch.arange(modulus)] * num_operands).view(-1, num_operands)


def select_tuples(seen: Bool[Tensor, "*N"], sums: Sums) -> Int[Tensor, "n k"]:
    """The operand tuples of a pool."""
    if sums == "seen":
        return seen.nonzero()
    if sums == "held":
        return (~seen).nonzero()
    swapped = torch.zeros_like(seen)
    for order in itertools.permutations(range(seen.ndim)):
        swapped |= seen.permute(order)
    return (~seen & (swapped if sums == "held-swapped" else ~swapped)).nonzero()


def query_kinds(
    num_variables: int, num_operands: int, forbidden: tuple[tuple[int, int], ...]
) -> tuple[Int[Tensor, "c k"], Int[Tensor, "c"]]:
    """Every way to fill the places of a query: the index of a variable, distinct ones, or -1 for a number.

    Args:
        num_variables: variables that there are.
        num_operands: k, the places.
        forbidden: (variable, place) that training never has.

    Returns:
        The ways, and how many rules each breaks.
    """
    ways = [
        way
        for way in itertools.product(range(-1, num_variables), repeat=num_operands)
        if len({v for v in way if v >= 0}) == sum(v >= 0 for v in way)
    ]
    rules = set(forbidden)
    broken = [sum((variable, place) in rules for place, variable in enumerate(way)) for way in ways]
    return torch.tensor(ways).view(-1, num_operands), torch.tensor(broken)
