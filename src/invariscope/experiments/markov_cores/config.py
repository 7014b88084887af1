"""What the study ``markov-cores`` runs: three chains, their seeds, the model, and how much data each measurement stands on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from invariscope.errors import ConfigError
from invariscope.models import TransformerConfig
from invariscope.tasks import MarkovChain
from invariscope.training import TrainConfig

__all__ = ["PRESETS", "ArmConfig", "Config"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmConfig:
    """One chain and the seeds trained on it.

    Args:
        chain: name of the chain, such as four_real or spread_12.
        seeds: one model each; at least two, so that they can be compared.

    Raises:
        ConfigError: for fewer than two different seeds.
    """

    chain: str
    seeds: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.seeds) < 2 or len(set(self.seeds)) < len(self.seeds):
            raise ConfigError(
                f"seeds {list(self.seeds)} of {self.chain}", expected="two or more different seeds", do="name more seeds"
            )


LEAST = {
    "sequence_length": 2,
    "extract_sequences": 32,
    "evaluate_sequences": 32,
    "operator_sequences": 32,
    "control_sequences": 32,
    "num_random": 1,
}
"""Below these a split has too few sequences on one side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The study's numbers.

    Args:
        real: a 4-state chain with a real spectrum.
        twelve: a 12-state chain whose log has rank 3, so that three dimensions are no matter of counting states.
        rank_two: a 4-state chain in which two states share a row: the control whose core must have rank 2.
        sequence_length: tokens a sequence.
        width: of the residual stream.
        num_layers: blocks of the transformer, which has no norm, no biases and GELU.
        num_heads: attention heads a block.
        mlp_width: hidden units of the MLP.
        train: how each model is trained.
        extract_sequences: sequences behind each core.
        evaluate_sequences: held-out sequences behind each effect, similarity and transplant.
        operator_sequences: sequences behind each operator; at length 16, 20 000 of them are 300 000 transitions.
        control_sequences: sequences behind the operators of controls, whose errors are a hundred times larger.
        num_random: random subspaces behind each random control.

    Raises:
        ConfigError, UnknownNameError: for a number out of range, a model that cannot be, a chain that does not exist or fit.
    """

    real: ArmConfig = field(default_factory=lambda: ArmConfig(chain="four_real", seeds=(0, 1, 2)))
    twelve: ArmConfig = field(default_factory=lambda: ArmConfig(chain="spread_12", seeds=(0, 1)))
    rank_two: ArmConfig = field(default_factory=lambda: ArmConfig(chain="four_rank_two", seeds=(0, 1)))
    sequence_length: int = 16
    width: int = 64
    num_layers: int = 1
    num_heads: int = 4
    mlp_width: int = 256
    train: TrainConfig = field(default_factory=TrainConfig)
    extract_sequences: int = 1024
    evaluate_sequences: int = 1024
    operator_sequences: int = 20_000
    control_sequences: int = 4_000
    num_random: int = 8

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            if getattr(self, name) < least:
                raise ConfigError(f"{name} = {getattr(self, name)}", expected=f"at least {least}", do=f"raise {name}")
        # What the arms name has to exist, and to fit, before anything is written.
        for arm in self.arms():
            self.model(arm)
            if self.task(arm).law_log_rank is None:
                raise ConfigError(
                    f"the chain {self.task(arm).name!r}, which has impossible transitions",
                    expected="a chain whose log-transition matrix is finite, so that its rank is known",
                    do="choose another chain",
                )

    def arms(self) -> dict[str, ArmConfig]:
        """The three arms by name."""
        return {"real": self.real, "twelve": self.twelve, "rank_two": self.rank_two}

    def all_seeds(self) -> tuple[int, ...]:
        """Every seed, each once."""
        return tuple(dict.fromkeys(seed for arm in self.arms().values() for seed in arm.seeds))

    def with_first_seed(self, seed: int) -> Config:
        """The same study with each arm's seeds replaced by as many, counted from ``seed``."""
        arms = {
            name: dataclasses.replace(arm, seeds=tuple(range(seed, seed + len(arm.seeds)))) for name, arm in self.arms().items()
        }
        return dataclasses.replace(self, **arms)

    def task(self, arm: str) -> MarkovChain:
        """The task of an arm."""
        return MarkovChain.named(self.arms()[arm].chain, sequence_length=self.sequence_length)

    def model(self, arm: str) -> TransformerConfig:
        """The model's configuration in an arm."""
        return TransformerConfig(
            vocab_size=self.task(arm).vocab_size,
            context_length=self.sequence_length,
            num_layers=self.num_layers,
            width=self.width,
            num_heads=self.num_heads,
            mlp_width=self.mlp_width,
        )


PRESETS: Mapping[str, Config] = {"quick": Config()}
