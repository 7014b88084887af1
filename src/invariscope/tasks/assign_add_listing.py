"""Every sequence of a small Assign and Add with its probability: what samples are held against."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from invariscope.batch import Batch
from invariscope.errors import ConfigError, NotEnumerableError
from invariscope.tasks.assign_add_rows import write_rows
from invariscope.tasks.sequences import MAX_ENUMERATED

if TYPE_CHECKING:
    from invariscope.tasks.assign_add import AssignAdd

__all__ = ["check_listing", "list_rows"]


def check_listing(task: AssignAdd, pool: str, batch_size: int) -> None:
    """Refuse a batch size below 1, and a pool with more than 2^20 sequences.

    Raises:
        ConfigError, NotEnumerableError, UnknownNameError: as said.
    """
    if batch_size < 1:
        raise ConfigError(f"enumerate with batch_size={batch_size}", expected="1 or more", do="raise batch_size")
    total = 0
    for _, corner in task.parts(pool):
        contexts = 0
        for count in _counts(task, corner.num_variables):
            gaps = math.comb(_pads(task, count) + count, count)
            others = count - corner.num_variables
            contexts += (
                math.comb(task.num_variables - corner.num_variables, others) * math.factorial(count) * gaps * task.modulus**others
            )
        total += len(task.ways_of(corner)) * len(task.pairs(pool)) * contexts
    if total > MAX_ENUMERATED:
        raise NotEnumerableError(
            f"the pool {pool!r} of {task.name!r}, which has {total:.3g} sequences",
            expected=f"at most {MAX_ENUMERATED}",
            do=f"use task.batches(num, batch_size=..., seed=..., pool={pool!r}), or pairs(pool) with compose",
        )


def list_rows(task: AssignAdd, pool: str, batch_size: int) -> Iterator[Batch]:
    """Every sequence of ``pool``, weighted by its probability, at most ``batch_size`` a batch."""
    rows = _decided(task, pool)
    while chunk := list(itertools.islice(rows, batch_size)):
        count, variables, numbers, gaps, named, operands, weights = zip(*chunk, strict=True)
        tokens = write_rows(
            task,
            count=torch.tensor(count),
            variables=_padded(variables, task.max_assignments, 0),
            numbers=_padded(numbers, task.max_assignments, 0),
            gaps=_padded(gaps, _pads(task, task.min_assignments), task.max_assignments),
            named=torch.tensor(named),
            operands=torch.tensor(operands),
        )
        yield task.known(
            tokens, torch.tensor(operands), (torch.tensor(named) >= 0).sum(1), weights=torch.tensor(weights, dtype=torch.float64)
        )


def _counts(task: AssignAdd, num_variables: int) -> range:
    return range(max(task.min_assignments, num_variables), task.max_assignments + 1)


def _pads(task: AssignAdd, count: int) -> int:
    return task.prefix_length - task.assignment_length * count


def _padded(rows: tuple[tuple[int, ...], ...], width: int, value: int) -> Tensor:
    return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows], dtype=torch.long).view(len(rows), width)


def _decided(task: AssignAdd, pool: str) -> Iterator[tuple]:
    tuples = task.pairs(pool).tolist()
    for share, corner in task.parts(pool):
        ways, counts = task.ways_of(corner).tolist(), _counts(task, corner.num_variables)
        for way, operands, count in itertools.product(ways, tuples, counts):
            needed = {variable: number for variable, number in zip(way, operands, strict=True) if variable >= 0}
            weight = share / (len(ways) * len(tuples) * len(counts))
            for variables, chance in _orders(task, needed, count):
                for gaps, thrown in _throws(count + 1, _pads(task, count)):
                    for numbers in itertools.product(*([needed[v]] if v in needed else range(task.modulus) for v in variables)):
                        uniform = task.modulus ** -(count - len(needed))
                        yield count, variables, numbers, gaps, way, operands, weight * chance * thrown * uniform


def _orders(task: AssignAdd, needed: dict[int, int], count: int) -> list[tuple[tuple[int, ...], float]]:
    orders = [order for order in itertools.permutations(range(task.num_variables), count) if needed.keys() <= set(order)]
    return [(order, 1 / len(orders)) for order in orders]


def _throws(gaps: int, pads: int) -> Iterator[tuple[tuple[int, ...], float]]:
    for throw in itertools.combinations_with_replacement(range(gaps), pads):
        ways = math.factorial(pads)
        for gap in range(gaps):
            ways //= math.factorial(throw.count(gap))
        yield throw, ways / gaps**pads
