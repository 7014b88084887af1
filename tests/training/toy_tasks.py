"""Tasks of somebody else's making: at the top of an importable module, without a description unless said."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from invariscope.batch import Batch
from invariscope.errors import NotEnumerableError
from invariscope.models import TransformerConfig
from invariscope.positions import Positions
from invariscope.storage.atomic import is_temporary
from invariscope.tasks import CandidateMap, Chance, MarkovChain, SampledBatches, Symmetry, factory_name

CHAIN = MarkovChain([[0.9, 0.1], [0.3, 0.7]], 6, name="two states")
TINY = TransformerConfig(vocab_size=2, context_length=6, width=8, num_heads=2, mlp_width=8)
POST = dataclasses.replace(TINY, norm="post", activation="relu", attention_bias=True, mlp_bias=True, dropout=0.1)
SMALL = TransformerConfig(vocab_size=3, context_length=4, width=8, num_heads=2, mlp_width=16)


class FirstPlusLast:
    """The answer to a sequence of three kinds of tokens is (first + ``factor`` last) mod 3; one answer a sequence."""

    name = "first plus last"
    vocab_size = num_outputs = 3
    sequence_length = 4
    loss_positions: Positions = "last"
    pools: tuple[str, ...] = ("train", "heldout")
    symmetry: Symmetry | None = None
    candidate_maps: tuple[CandidateMap, ...] = ()

    def __init__(self, factor: int = 1) -> None:
        self.factor = factor

    def sample(self, num: int, *, generator: torch.Generator, pool: str = "train") -> Batch:
        tokens = torch.randint(3, (num, self.sequence_length), generator=generator)
        return Batch(inputs={"tokens": tokens}, targets=self.answers(tokens))

    def answers(self, tokens: Tensor) -> Tensor:
        return ((tokens[:, 0] + self.factor * tokens[:, -1]) % 3)[:, None]

    def enumerate(self, pool: str, batch_size: int) -> Iterable[Batch]:
        raise NotEnumerableError(self.name, expected="nothing", do="use batches")

    def batches(self, num: int, *, batch_size: int, seed: int, pool: str) -> SampledBatches:
        return SampledBatches(self, num, batch_size=batch_size, seed=seed, pool=pool)

    def chance(self) -> Chance:
        return Chance(accuracy=1 / 3, cross_entropy=float(torch.tensor(3.0).log()))

    def optimum(self) -> Chance | None:
        return Chance(accuracy=1.0, cross_entropy=0.0)


class Described(FirstPlusLast):
    """The same task, which other processes can rebuild."""

    def describe(self) -> dict[str, Any]:
        return {"factory": factory_name(type(self)), "arguments": {"factor": self.factor}}

    @classmethod
    def from_json(cls, *, factor: int) -> Described:
        return cls(factor)


class Padded(FirstPlusLast):
    """The same task with padding after its first sequence's third token."""

    def sample(self, num: int, *, generator: torch.Generator, pool: str = "train") -> Batch:
        batch = super().sample(num, generator=generator, pool=pool)
        valid = torch.ones(num, self.sequence_length, dtype=torch.bool)
        valid[0, -1] = False
        return dataclasses.replace(batch, valid=valid)


class Silent(FirstPlusLast):
    """The same task, which does not tell the answers."""

    def sample(self, num: int, *, generator: torch.Generator, pool: str = "train") -> Batch:
        return dataclasses.replace(super().sample(num, generator=generator, pool=pool), targets=None)


def run_bytes(folder: Path) -> dict[str, bytes]:
    """Everything in a run's folder whose bytes must not depend on how often it was killed."""
    # What a killed writer left half-written is swept when the run's folder is opened the next time.
    checkpoints = [path for path in sorted((folder / "checkpoints").iterdir()) if not is_temporary(path.name)]
    paths = [folder / "metrics.jsonl", folder / "state.safetensors", *checkpoints]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
