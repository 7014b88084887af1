"""What the study ``imir-dynamics`` runs: descent in all coordinates, the law of context length, and a grid of beginnings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from invariscope.errors import ConfigError

__all__ = ["PRESETS", "Config"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The study's numbers.

    Args:
        seeds: beginnings of descent in all coordinates.
        num_blocks: pairs of recall there.
        vocabulary: tokens; only their number enters.
        learning_rate: of descent on the full weights, carried out in coordinates.
        steps: of it.
        kept: points of it that are kept.
        initial_std: of all coordinates at the beginning.
        lengths: n, pairs of a context, for the law of emergence.
        start: of both coordinates of the induction circuit there.
        grid: beginnings a side of the grid.

    Raises:
        ConfigError: for a number out of range.
    """

    seeds: tuple[int, ...] = (0, 1, 2)
    num_blocks: int = 4
    vocabulary: int = 32
    learning_rate: float = 4.0
    steps: int = 3000
    kept: int = 60
    initial_std: float = 0.05
    lengths: tuple[int, ...] = (2, 4, 8, 16, 32, 64)
    start: float = 0.01
    grid: int = 13

    def __post_init__(self) -> None:
        for name, least in {"num_blocks": 2, "steps": 2, "kept": 2, "grid": 2}.items():
            if getattr(self, name) < least:
                raise ConfigError(f"{name} = {getattr(self, name)}", expected=f"{least} or more", do=f"raise {name}")
        if not self.seeds or len(self.lengths) < 3 or sorted(set(self.lengths)) != list(self.lengths):
            raise ConfigError(
                f"seeds {list(self.seeds)}, lengths {list(self.lengths)}",
                expected="a seed, and three lengths or more from short to long",
                do="name some",
            )

    def all_seeds(self) -> tuple[int, ...]:
        """Every seed."""
        return self.seeds

    def with_first_seed(self, seed: int) -> Config:
        """The same study with as many seeds, counted from ``seed``."""
        return dataclasses.replace(self, seeds=tuple(range(seed, seed + len(self.seeds))))


PRESETS: Mapping[str, Config] = {
    "quick": Config(),
    "standard": Config(seeds=(0, 1, 2, 3, 4), steps=6000, lengths=(2, 4, 8, 16, 32, 64, 128), grid=25),
}
