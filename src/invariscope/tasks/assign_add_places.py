"""Where the parts of a sequence of Assign and Add stand, read off its tokens, and the sequence as a person reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from invariscope.errors import ShapeError

if TYPE_CHECKING:
    from invariscope.tasks.assign_add import AssignAdd

__all__ = ["Places", "find_places", "row_text"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Places:
    """Where in each sequence what stands, for sequences of one task.

    Args:
        operands: positions of the k operands in the query, [B, k].
        is_variable: whether each operand is a variable, [B, k].
        values: position of the number that each operand stands for: its own, or that of the assigned number, [B, k].
        answers: the numbers that are added, [B, k].
        numbers: True on the assigned numbers before the query, [B, T].
        variables: True on the variables before the query, [B, T].
    """

    operands: Int[Tensor, "B k"]
    is_variable: Bool[Tensor, "B k"]
    values: Int[Tensor, "B k"]
    answers: Int[Tensor, "B k"]
    numbers: Bool[Tensor, "B T"]
    variables: Bool[Tensor, "B T"]


def find_places(task: AssignAdd, tokens: Int[Tensor, "B T"]) -> Places:
    """Where operands, values and variables stand in sequences of this task.

    Raises:
        ShapeError: for sequences of another length, or whose sum has a variable that they do not assign.
    """
    if tokens.ndim != 2 or tokens.shape[1] != task.sequence_length:
        raise ShapeError(
            f"tokens of shape {list(tokens.shape)}", expected=f"[B, {task.sequence_length}]", do="give whole sequences"
        )
    operands = torch.tensor(task.operand_positions, device=tokens.device).expand(len(tokens), -1)
    named = tokens.gather(1, operands)
    is_variable = named >= task.first_variable
    prefix = tokens[:, : task.prefix_length]
    found = prefix[:, None, :] == named[:, :, None]
    if not bool((found.any(2) | ~is_variable).all()):
        row = int((~(found.any(2) | ~is_variable)).any(1).nonzero()[0])
        raise ShapeError(
            f"sequence {row}, {row_text(task, tokens[row])!r}, whose sum has a variable that it does not assign",
            expected="sequences of this task",
            do="check the layout and the number of variables",
        )
    values = torch.where(is_variable, found.long().argmax(2) + task.own_variable_offset, operands)
    before = torch.arange(task.sequence_length, device=tokens.device) < task.prefix_length
    return Places(
        operands=operands,
        is_variable=is_variable,
        values=values,
        answers=tokens.gather(1, values),
        numbers=(tokens < task.modulus) & before,
        variables=(tokens >= task.first_variable) & before,
    )


def row_text(task: AssignAdd, tokens: Int[Tensor, "T"]) -> str:
    """A sequence as a person reads it; ``_`` is padding."""
    signs = {task.plus: "+", task.equals: "=", task.pad: "_", task.comma: ","}
    words = [signs.get(token) or _word(task, token) for token in tokens.tolist()]
    return "".join(words) if task.layout == "presentation" else " ".join(words)


def _word(task: AssignAdd, token: int) -> str:
    if token < task.modulus:
        return str(token)
    index = token - task.first_variable
    return chr(ord("a") + index) if task.num_variables <= 26 else f"v{index}"
