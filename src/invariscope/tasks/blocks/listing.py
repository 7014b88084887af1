"""Every sequence of a block-list task with its probability, and one of each orbit of its symmetries."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from invariscope.batch import Batch
from invariscope.tasks.blocks.placements import Placement
from invariscope.tasks.blocks.scenes import Scene

if TYPE_CHECKING:
    from invariscope.tasks.blocks.task import BlockTask

__all__ = ["Representatives", "list_representatives", "list_sequences", "num_choices", "unit_law"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Representatives:
    """One sequence of each orbit of a task's symmetries.

    Args:
        tokens, positions: [R, T]. targets: [R]. weights: probability of each orbit, [R] in float64; they sum to 1.
        labels: 0 rare, 1 common, 2 common with a fresh partner, [R].
    """

    tokens: Int[Tensor, "R T"]
    positions: Int[Tensor, "R T"]
    targets: Int[Tensor, "R"]
    weights: Float[Tensor, "R"]
    labels: Int[Tensor, "R"]


def num_choices(task: BlockTask, scene: Scene) -> int:
    """In how many ways the units of a scene become tokens."""
    needs = [scene.num_units(index) for index in range(len(task.families))]
    ways = [math.perm(family.num, need) * 2 ** (need * family.swap) for family, need in zip(task.families, needs, strict=True)]
    return math.prod(ways)


def list_sequences(task: BlockTask, orders: Sequence[Scene], placement: Placement, batch_size: int) -> Iterator[Batch]:
    """Every sequence, weighted by its probability.

    Args:
        task: whose. orders: its scenes, in every order of their blocks. placement: of its blocks. batch_size: sequences a batch.
    """
    places = list(placement.every())
    rows = (
        (tokens, positions, weight * share, label)
        for tokens, weight, label in _sequences(task, orders)
        for positions, share in places
    )
    while chunk := list(itertools.islice(rows, batch_size)):
        tokens, positions, weights, labels = zip(*chunk, strict=True)
        stacked = torch.tensor(tokens)
        yield Batch(
            inputs=placement.inputs(stacked[:, :-1].contiguous(), torch.stack(positions)),
            targets=stacked[:, -1:].clone(),
            labels=torch.tensor(labels),
            weights=torch.tensor(weights, dtype=torch.float64),
        )


def _sequences(task: BlockTask, orders: Sequence[Scene]) -> Iterator[tuple[list[int], float, int]]:
    for scene in orders:
        needs = [scene.num_units(index) for index in range(len(task.families))]
        choices = [_choices(task, index, need) for index, need in enumerate(needs)]
        for chosen in itertools.product(*choices):
            weight = scene.weight * math.prod(share for _, share in chosen)
            yield [chosen[family][0][unit][side] for family, unit, side in scene.symbols()], weight, scene.label


def _choices(task: BlockTask, index: int, need: int) -> list[tuple[list[list[int]], float]]:
    """Tokens of ``need`` units of a family, by side, with the probability of each choice."""
    family = task.families[index]
    rates = [(unit + 1.0) ** -task.zipf for unit in range(family.num)]
    found = []
    for units in itertools.permutations(range(family.num), need):
        share, left = 1.0, sum(rates)
        for unit in units:
            share *= rates[unit] / left
            left -= rates[unit]
        for turned in itertools.product((0, 1) if family.swap else (0,), repeat=need):
            tokens = [
                [task.vocabulary.token(index, unit, (side + turn) % family.width) for side in range(family.width)]
                for unit, turn in zip(units, turned, strict=True)
            ]
            found.append((tokens, share / (2**need if family.swap else 1)))
    return found


def unit_law(task: BlockTask, index: int, unit: int) -> Iterator[tuple[list[int], float]]:
    """Tokens by side of one unit of a sequence, with their probability."""
    family = task.families[index]
    if task.zipf:
        for tokens, share in _choices(task, index, unit + 1):
            yield tokens[unit], share
        return
    for number in range(family.num):
        tokens = [task.vocabulary.token(index, number, side) for side in range(family.width)]
        for turned in (tokens, tokens[::-1]) if family.swap else (tokens,):
            yield turned, 1 / (family.num * (2 if family.swap else 1))


def list_representatives(task: BlockTask, orders: Sequence[Scene], placement: Placement) -> Representatives:
    """One sequence an orbit: the first tokens of each family, in each of ``orders``."""
    rows = [(scene, positions, share) for scene in orders for positions, share in placement.representatives()]
    tokens = torch.tensor([[task.vocabulary.token(*symbol) for symbol in scene.symbols()] for scene, _, _ in rows])
    return Representatives(
        tokens=tokens[:, :-1].contiguous(),
        positions=torch.stack([positions for _, positions, _ in rows]),
        targets=tokens[:, -1].clone(),
        weights=torch.tensor([scene.weight * share for scene, _, share in rows], dtype=torch.float64),
        labels=torch.tensor([scene.label for scene, _, _ in rows]),
    )
