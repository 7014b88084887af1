"""What the study ``imir-competition`` runs: shares of rare and fresh questions, copies, and where circuits stand."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from invariscope.errors import ConfigError
from invariscope.tasks.blocks import AssociativeRecall

__all__ = ["PRESETS", "Config"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The study's numbers. Everything is exact, so there is no seed; ``seeds`` is there for the command line alone.

    Args:
        seeds: not used.
        rare_shares: f_r of the grid of gradients.
        fresh_shares: f_v of that grid.
        value: of α, β, γ at which gradients are taken.
        memory: of δ, once it is trained.
        emergence_shares: f_r for times until recall.
        surrogate: δ of the surrogate there.
        copies: B, for gradients and times; 1 first.
        bursty_blocks: pairs of their contexts.
        vocabulary: rare tokens of the bursty tasks.
        start: of α and β for times.

    Raises:
        ConfigError: for a share out of range, or copies that do not begin with one.
    """

    seeds: tuple[int, ...] = (0,)
    rare_shares: tuple[float, ...] = (0.05, 0.2, 0.5)
    fresh_shares: tuple[float, ...] = (0.0, 0.1, 0.3, 0.6)
    value: float = 0.5
    memory: float = 12.0
    emergence_shares: tuple[float, ...] = (1.0, 0.3, 0.1, 0.03, 0.01)
    surrogate: float = 8.0
    copies: tuple[int, ...] = (1, 2, 3, 4, 6)
    bursty_blocks: int = 12
    vocabulary: int = 300
    start: float = 0.1

    def __post_init__(self) -> None:
        for share in (*self.rare_shares, *self.fresh_shares, *self.emergence_shares):
            if not 0 <= share <= 1:
                raise ConfigError(f"a share of {share}", expected="from 0 to 1", do="give shares")
        if len(self.emergence_shares) < 3:
            raise ConfigError(
                f"emergence_shares {list(self.emergence_shares)}",
                expected="three or more, through which a law goes",
                do="add some",
            )
        if len(self.copies) < 2 or self.copies[0] != 1 or max(self.copies) > self.bursty_blocks:
            raise ConfigError(
                f"copies {list(self.copies)} of {self.bursty_blocks} blocks",
                expected="1, and more up to the number of blocks",
                do="begin with 1",
            )

    def all_seeds(self) -> tuple[int, ...]:
        """Every seed."""
        return self.seeds

    def with_first_seed(self, seed: int) -> Config:
        """The same study: nothing is drawn."""
        return dataclasses.replace(self, seeds=(seed,))

    def task(self, rare_share: float, fresh_share: float = 0.0) -> AssociativeRecall:
        """Recall of four pairs, common or rare."""
        return AssociativeRecall(
            num_blocks=4, num_rare=64, num_common=16, rare_share=rare_share, fresh_share=fresh_share, num_slots=5
        )

    def bursty(self, copies: int, blocks: int | None = None) -> AssociativeRecall:
        """Recall of rare pairs, the one that is asked for told several times; ``blocks``: None for the study's."""
        num = self.bursty_blocks if blocks is None else blocks
        return AssociativeRecall(num_blocks=num, num_rare=self.vocabulary, burstiness=copies, num_slots=num + 1)


PRESETS: Mapping[str, Config] = {
    "quick": Config(),
    "standard": Config(
        rare_shares=(0.02, 0.05, 0.1, 0.2, 0.5),
        fresh_shares=(0.0, 0.05, 0.1, 0.3, 0.6, 0.9),
        emergence_shares=(1.0, 0.3, 0.1, 0.03, 0.01, 0.003),
    ),
}
