"""How a scene becomes sequences, many at once: units are drawn, blocks are put into an order, symbols become tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from jaxtyping import Int
from torch import Tensor

from invariscope.tasks.blocks.scenes import Block, Scene

if TYPE_CHECKING:
    from invariscope.tasks.blocks.task import BlockTask

__all__ = ["draw_units", "write_scene"]


def draw_units(task: BlockTask, index: int, num: int, generator: torch.Generator) -> Int[Tensor, "num U w"]:
    """Units of a family in the order in which a sequence uses them, as tokens, for ``num`` sequences.

    Args:
        task: whose. index: of the family.
    """
    family = task.families[index]
    keys = torch.rand(num, family.num, generator=generator, dtype=torch.float64)
    if task.zipf:
        # Exponential clocks: the order of a draw without replacement in proportion to the rates.
        keys = -torch.log1p(-keys) * (torch.arange(family.num) + 1.0) ** task.zipf
    units = keys.argsort(1)[:, :, None] * family.width + task.vocabulary.start(index)
    sides = torch.arange(family.width).expand(num, family.num, -1)
    if family.swap:
        sides = (sides + torch.randint(2, (num, family.num, 1), generator=generator)) % 2
    return units + sides


def write_scene(scene: Scene, units: Sequence[Int[Tensor, "n U w"]], order: Int[Tensor, "n m"]) -> Int[Tensor, "n T+1"]:
    """The tokens of sequences of one scene, and behind them the answer.

    Args:
        units: of each family, as :func:`draw_units` gives them. order: which block of the scene stands where.
    """

    def tokens(block: Block) -> Tensor:
        return torch.stack([units[family][:, unit, side] for family, unit, side in block], 1)

    blocks = torch.stack([tokens(block) for block in scene.blocks], 1)
    blocks = blocks.gather(1, order[:, :, None].expand(-1, -1, blocks.shape[2]))
    return torch.cat([blocks.flatten(1), *map(tokens, scene.tail), tokens((scene.target,))], 1)
