"""A transformer whose weights are the circuit of Assign and Add, and one that knows nothing.

The residual stream is cut into slots: which token, which position, which variable (written by layer 1), the numbers on three
circles (written by layer 2) and the answer (written by MLP2). Every matrix is then a table of who looks at whom, and what a
measure must find is known.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from invariscope.models import Transformer, TransformerConfig
from invariscope.tasks import AssignAdd

SMALL = AssignAdd(modulus=7, num_variables=4, num_pads=2)
PAPER = AssignAdd(modulus=7, num_variables=4, min_assignments=2, max_assignments=3, num_pads=1, layout="paper", split="ordered")
ANGLES = 10
"""Neurons of each frequency."""
SHARP = 40.0
"""Nats by which a head prefers what it looks for."""


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def unknowing(task: AssignAdd = SMALL, *, seed: int = 0, width: int = 16, mlp_width=(0, 24), **fields) -> Transformer:
    """Initial weights."""
    config = TransformerConfig(
        vocab_size=task.vocab_size,
        num_outputs=task.num_outputs,
        context_length=task.sequence_length,
        num_layers=2,
        width=width,
        num_heads=fields.pop("num_heads", 1),
        mlp_width=mlp_width,
        activation="relu",
        initial_std="width",
        **fields,
    )
    return Transformer(config, generator=generator(seed)).eval()


def circuit(task: AssignAdd = SMALL) -> Transformer:
    """The circuit itself: right on every sequence."""
    modulus, length, k = task.modulus, task.sequence_length, task.num_operands
    frequencies = range(1, modulus // 2 + 1)
    sizes = [task.vocab_size, length, task.num_variables, 2 * len(frequencies), modulus]
    token, position, variable, circle, answer = (slice(sum(sizes[:i]), sum(sizes[: i + 1])) for i in range(len(sizes)))
    width = sum(sizes)
    model = unknowing(task, width=width, head_width=width, mlp_width=(0, ANGLES * len(frequencies)))
    scale = math.sqrt(width)
    qk1, ov1, qk2, ov2 = (torch.zeros(width, width) for _ in range(4))
    for t in range(length - 1):
        # A number looks at its variable; the query's own tokens look at what holds none.
        own = t - task.own_variable_offset if t < task.prefix_length else task.prefix_length - 1
        qk1[position.start + t, position.start + max(own, 0)] = SHARP * scale
    for place in task.operand_positions:
        qk1[position.stop - 1, position.start + place] = SHARP * scale
        # Layer 2: numbers, in the query or assigned to the variables that '=' holds.
        qk2[position.stop - 1, position.start + place] = SHARP * scale
    numbers = slice(token.start, token.start + modulus)
    qk2[position.stop - 1, numbers] = SHARP * scale
    for v in range(task.num_variables):
        ov1[token.start + task.first_variable + v, variable.start + v] = 1.0
        qk2[variable.start + v, variable.start + v] = k * SHARP * scale
    turns = 2 * math.pi / modulus * torch.arange(modulus)[:, None] * torch.tensor(frequencies)
    ov2[numbers, circle] = torch.stack([turns.cos(), turns.sin()], dim=2).flatten(1)
    reads, writes = torch.zeros(ANGLES * len(frequencies), width), torch.zeros(width, ANGLES * len(frequencies))
    for index, frequency in enumerate(frequencies):
        for j in range(ANGLES):
            angle, unit = 2 * math.pi * j / ANGLES, index * ANGLES + j
            reads[unit, circle.start + 2 * index] = math.cos(angle)
            reads[unit, circle.start + 2 * index + 1] = -math.sin(angle)
            writes[answer, unit] = torch.cos(2 * math.pi * frequency / modulus * torch.arange(modulus) + 2 * angle)
    with torch.no_grad():
        model.token_embedding.zero_()[:, token] = torch.eye(task.vocab_size)
        model.position_embedding.zero_()[:, position] = torch.eye(length)
        for block, qk, ov in zip(model.blocks, (qk1, qk2), (ov1, ov2), strict=True):
            block.attention.query_key_value.weight.copy_(torch.cat([qk.T, torch.eye(width), ov.T]))
            block.attention.output.weight.copy_(torch.eye(width))
        model.blocks[1].mlp_input.weight.copy_(reads)
        model.blocks[1].mlp_output.weight.copy_(writes)
        model.unembedding.weight.zero_()[:, answer] = torch.eye(modulus)
    return model


def tokens_of(task: AssignAdd, pool: str, num: int = 64, seed: int = 0) -> Tensor:
    return task.sample(num, generator=generator(seed), pool=pool).inputs["tokens"]
