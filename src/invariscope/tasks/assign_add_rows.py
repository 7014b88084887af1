"""How sequences of Assign and Add are drawn and written, many at once.

A row is decided in four independent draws: how many assignments, which variables beside those of the sum and in which order,
which numbers, and into which gap each padding falls. Nothing loops over rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Int
from torch import Tensor

if TYPE_CHECKING:
    from invariscope.tasks.assign_add import AssignAdd

__all__ = ["draw_rows", "write_rows"]


def draw_rows(
    task: AssignAdd,
    operands: Int[Tensor, "B k"],
    assigned: Int[Tensor, "B k"],
    named: Int[Tensor, "B k"],
    generator: torch.Generator,
) -> Int[Tensor, "B T"]:
    """Sequences with given sums in random contexts.

    Args:
        task: whose sequences.
        operands: the numbers added.
        assigned: the index of the variable that is assigned each operand, -1 for none.
        named: the index of the variable that the query says in each place, -1 where it says the number.
        generator: of all that is random.
    """
    num, variables, most = len(operands), task.num_variables, task.max_assignments
    least = (assigned >= 0).sum(1).clamp_min(task.min_assignments)
    count = least + (torch.rand(num, generator=generator, dtype=torch.float64) * (most + 1 - least)).long()
    row, column = torch.arange(num)[:, None], assigned.where(assigned >= 0, variables)
    # Variables of the sum come first, the others in random order behind them; then those that are there are mixed.
    rank = torch.rand(num, variables + 1, generator=generator)
    rank[row, column] = -1.0
    chosen = rank[:, :variables].argsort(1)[:, :most]
    there = torch.arange(most) < count[:, None]
    chosen = chosen.gather(1, torch.rand(num, most, generator=generator).where(there, 2.0).argsort(1))
    numbers = torch.randint(task.modulus, (num, variables + 1), generator=generator)
    numbers[row, column] = operands
    pads = task.prefix_length - task.assignment_length * count
    widest = task.prefix_length - task.assignment_length * task.min_assignments
    gaps = (torch.rand(num, widest, generator=generator, dtype=torch.float64) * (count[:, None] + 1)).long()
    gaps = gaps.where(torch.arange(widest) < pads[:, None], most)
    return write_rows(
        task, count=count, variables=chosen, numbers=numbers.gather(1, chosen), gaps=gaps, named=named, operands=operands
    )


def write_rows(
    task: AssignAdd,
    *,
    count: Int[Tensor, "B"],
    variables: Int[Tensor, "B A"],
    numbers: Int[Tensor, "B A"],
    gaps: Int[Tensor, "B pads"],
    named: Int[Tensor, "B k"],
    operands: Int[Tensor, "B k"],
) -> Int[Tensor, "B T"]:
    """The tokens of sequences that are decided.

    Args:
        task: whose sequences.
        count: assignments of each row; columns of ``variables`` and ``numbers`` beyond are not read.
        variables, numbers: index of the variable and the number of each assignment, in order.
        gaps: the gap that each padding stands in, from 0 (before the first assignment) to ``count`` (behind the last);
            ``max_assignments`` and above move nothing.
        named, operands: as for :func:`draw_rows`.
    """
    length, size = task.sequence_length, task.assignment_length
    index = torch.arange(task.max_assignments)
    starts = size * index + (gaps[:, None, :] <= index[:, None]).sum(2)
    # An assignment that is not there is written to a column of its own, which is cut off.
    tokens = torch.full((len(count), length + 1), task.pad)
    signs = {} if task.comma is None else {1: task.equals, 3: task.comma}
    words = {0: variables + task.first_variable, task.own_variable_offset: numbers}
    for offset in range(size):
        column = (starts + offset).where(index < count[:, None], length)
        tokens.scatter_(1, column, words[offset] if offset in words else torch.full_like(column, signs[offset]))
    tokens = tokens[:, :length].contiguous()
    tokens[:, task.prefix_length :] = task.plus
    tokens[:, list(task.operand_positions)] = torch.where(named >= 0, named + task.first_variable, operands)
    tokens[:, -1] = task.equals
    return tokens
