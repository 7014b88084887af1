"""What the study ``markov-cores`` runs: its chains, their seeds, the model, and how much data each measurement stands on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from invariscope.errors import ConfigError
from invariscope.models import TransformerConfig
from invariscope.tasks import HiddenMarkovChain, MarkovChain
from invariscope.training import TrainConfig

__all__ = ["FOUR_STATES", "PRESETS", "TWELVE_STATES", "ArmConfig", "Config", "HiddenConfig", "PaperConfig"]

FOUR_STATES = ("real", "complex_pair")
"""Arms whose core must have the chain's three directions, all that four states allow."""
TWELVE_STATES = ("twelve", "clustered")
"""Arms whose core must have three directions of the eleven that twelve states allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmConfig:
    """One chain and the seeds trained on it.

    Args:
        chain: name of the chain, such as four_real or spread_12.
        seeds: one model each; at least two, so that they can be compared, or none: the arm is left out.

    Raises:
        ConfigError: for one seed, or the same one twice.
    """

    chain: str
    seeds: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.seeds) == 1 or len(set(self.seeds)) < len(self.seeds):
            raise ConfigError(
                f"seeds {list(self.seeds)} of {self.chain}",
                expected="two or more different seeds, or none",
                do="name more seeds, or none to leave the arm out",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenConfig:
    """Hidden chains, whose best predictor carries a belief; one layer does not reach it.

    Args:
        chains: names of hidden chains, such as six_tokens or mess3_blurred; none: this part is left out.
        seeds: one model each and chain.
        num_layers: blocks of the transformer.
        width: of the residual stream; the MLP is four times as wide.
        num_heads: attention heads a block.
        train: how each model is trained.
    """

    chains: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0, 1, 2)
    num_layers: int = 2
    width: int = 32
    num_heads: int = 4
    train: TrainConfig = field(default_factory=lambda: TrainConfig(steps=3000, eval_every=250))

    def __post_init__(self) -> None:
        if self.chains and (not self.seeds or len(set(self.seeds)) < len(self.seeds)):
            raise ConfigError(f"hidden.seeds {list(self.seeds)}", expected="one or more different seeds", do="name each once")


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperConfig:
    """The paper's own setting (arXiv:2602.22600 and its public code): post-norm, ReLU, biases, dropout, a fixed training set.

    Args:
        seeds: one model each; none: this part is left out.
        sequence_length: tokens a sequence.
        dropout: probability, in training.
        train: how each model is trained; 40 epochs of 3000 sequences in batches of 64 are 1880 steps.
    """

    seeds: tuple[int, ...] = ()
    sequence_length: int = 32
    dropout: float = 0.1
    train: TrainConfig = field(
        default_factory=lambda: TrainConfig(
            steps=1880,
            num_sequences=3000,
            batch_size=64,
            learning_rate=1e-4,
            weight_decay=0.01,
            warmup_steps=0,
            schedule="constant",
            eval_every=188,
        )
    )

    def __post_init__(self) -> None:
        if len(self.seeds) == 1 or len(set(self.seeds)) < len(self.seeds):
            raise ConfigError(
                f"paper.seeds {list(self.seeds)}", expected="two or more different seeds, or none", do="name more seeds"
            )


ARMS = ("real", "complex_pair", "twelve", "clustered", "overlapping", "rank_two")
CARRYING = ("real", "twelve", "rank_two")
"""Arms without which claims have nothing to stand on."""
FOLLOWED_ARM = "twelve"
"""The arm whose first seed is followed over its training."""

LEAST = {
    "sequence_length": 2,
    "extract_sequences": 32,
    "evaluate_sequences": 32,
    "operator_sequences": 32,
    "control_sequences": 32,
    "num_random": 1,
    "follow_every": 0,
    "follow_sequences": 32,
    "das_steps": 0,
    "probe_tokens": 256,
}
"""Below these a split has too few sequences on one side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The study's numbers.

    Args:
        real: a 4-state chain with a real spectrum.
        complex_pair: a 4-state chain with a complex pair of eigenvalues.
        twelve: a 12-state chain whose log has rank 3, so that three dimensions are no matter of counting states.
        clustered: another one, easier: its groups of states alone explain much of the core.
        overlapping: a 12-state chain whose log has full rank, where energy rules and the causal rule part.
        rank_two: a 4-state chain in which two states share a row: the control whose core must have rank 2.
        sequence_length: tokens a sequence.
        width: of the residual stream.
        num_layers: blocks of the transformer, which has no norm, no biases and GELU.
        num_heads: attention heads a block.
        mlp_width: hidden units of the MLP.
        sizes: further models on the 12-state chain, as width, heads and layers of each; their MLP is four times as wide.
        hidden: the part with hidden chains.
        paper: the part in the paper's own setting.
        train: how each model is trained.
        extract_sequences: sequences behind each core.
        evaluate_sequences: held-out sequences behind each effect, similarity and transplant.
        operator_sequences: sequences behind each operator; at length 16, 20 000 of them are 300 000 transitions.
        control_sequences: sequences behind the operators of controls, whose errors are a hundred times larger.
        num_random: random subspaces behind each random control.
        follow_every: steps between checkpoints of the first seed of ``twelve``, whose core is followed over its training; 0: it
            is not.
        follow_sequences: sequences behind the core, and held-out ones behind its ranks, at each of them.
        das_steps: steps of the alignment search that stands beside the first core of each arm; 0: neither it nor the probe.
        probe_tokens: tokens that the linear probe beside them is fitted and scored on.

    Raises:
        ConfigError, UnknownNameError: for a number out of range, a model that cannot be, a chain that does not exist or fit.
    """

    real: ArmConfig = field(default_factory=lambda: ArmConfig(chain="four_real", seeds=(0, 1, 2)))
    complex_pair: ArmConfig = field(default_factory=lambda: ArmConfig(chain="four_complex"))
    twelve: ArmConfig = field(default_factory=lambda: ArmConfig(chain="spread_12", seeds=(0, 1)))
    clustered: ArmConfig = field(default_factory=lambda: ArmConfig(chain="clustered_12"))
    overlapping: ArmConfig = field(default_factory=lambda: ArmConfig(chain="overlapping_12"))
    rank_two: ArmConfig = field(default_factory=lambda: ArmConfig(chain="four_rank_two", seeds=(0, 1)))
    sequence_length: int = 16
    width: int = 64
    num_layers: int = 1
    num_heads: int = 4
    mlp_width: int = 256
    sizes: tuple[tuple[int, int, int], ...] = ()
    hidden: HiddenConfig = field(default_factory=HiddenConfig)
    paper: PaperConfig = field(default_factory=PaperConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    extract_sequences: int = 1024
    evaluate_sequences: int = 1024
    operator_sequences: int = 20_000
    control_sequences: int = 4_000
    num_random: int = 8
    follow_every: int = 10
    follow_sequences: int = 256
    das_steps: int = 150
    probe_tokens: int = 4096

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            if getattr(self, name) < least:
                raise ConfigError(f"{name} = {getattr(self, name)}", expected=f"at least {least}", do=f"raise {name}")
        if len(set(self.sizes)) < len(self.sizes):
            raise ConfigError(f"sizes {list(self.sizes)}", expected="each size once", do="leave the repeated ones out")
        if (self.sizes or self.hidden.chains) and not self.arms():
            raise ConfigError(
                "sizes or hidden chains without the arms that carry the claims",
                expected="real, twelve and rank_two",
                do="name seeds",
            )
        for size in self.sizes:
            self.sized_model("twelve", *size)
        for chain in self.hidden.chains:
            self.hidden_model(chain)
        if self.paper.seeds:
            self.paper_model()
        missing = [name for name in CARRYING if not getattr(self, name).seeds]
        if (missing and self.arms()) or not (self.arms() or self.paper.seeds):
            raise ConfigError(
                f"no seeds in {', '.join(missing)}",
                expected="the arms that carry the claims",
                do="name two seeds or more in each",
            )
        # What the arms name has to exist, and to fit, before anything is written.
        for arm in self.arms():
            self.model(arm)
            if arm in TWELVE_STATES and self.task(arm).groups is None:
                raise ConfigError(
                    f"{arm}.chain = {self.arms()[arm].chain}, whose states have no groups",
                    expected="a chain whose states fall into groups, within which coordinates are compared",
                    do="choose spread_12, clustered_12 or overlapping_12",
                )

    def arms(self) -> dict[str, ArmConfig]:
        """The arms that have seeds, by name."""
        return {name: arm for name in ARMS if (arm := getattr(self, name)).seeds}

    def all_seeds(self) -> tuple[int, ...]:
        """Every seed, each once."""
        arms = [seed for arm in self.arms().values() for seed in arm.seeds]
        return tuple(dict.fromkeys([*arms, *(self.hidden.seeds if self.hidden.chains else ()), *self.paper.seeds]))

    def with_first_seed(self, seed: int) -> Config:
        """The same study with each arm's seeds replaced by as many, counted from ``seed``."""
        parts = {**self.arms(), **({"hidden": self.hidden} if self.hidden.chains else {}), "paper": self.paper}
        moved = {
            name: dataclasses.replace(part, seeds=tuple(range(seed, seed + len(part.seeds)))) for name, part in parts.items()
        }
        return dataclasses.replace(self, **moved)

    def followed_seed(self) -> int | None:
        """The seed that is followed over its training; None where none is."""
        seeds = getattr(self, FOLLOWED_ARM).seeds
        return seeds[0] if seeds and self.follow_every else None

    def followed_steps(self) -> tuple[int, ...]:
        """Steps at which the core is followed: close together at first, when most happens, then ever farther apart.

        >>> Config().followed_steps()
        (10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 400)
        """
        ladder = sorted({1, *(factor * 2**power for power in range(1, 32) for factor in (1, 1.5))})
        steps = [int(rung * self.follow_every) for rung in ladder if 0 < rung * self.follow_every < self.train.steps]
        return (*steps, self.train.steps)

    def training(self, arm: str, seed: int) -> TrainConfig:
        """How a model of an arm is trained: one like the other, but the followed one leaves checkpoints on its way."""
        if arm == FOLLOWED_ARM and seed == self.followed_seed():
            return dataclasses.replace(self.train, checkpoint_every=self.follow_every)
        return self.train

    def paper_task(self) -> MarkovChain:
        """T = .75 I + .25 (cyclic shift) on four states."""
        return MarkovChain.named("four_paper", sequence_length=self.paper.sequence_length)

    def paper_model(self) -> TransformerConfig:
        """One post-norm encoder layer as PyTorch builds it."""
        return TransformerConfig(
            vocab_size=self.paper_task().vocab_size,
            context_length=self.paper.sequence_length,
            width=64,
            num_heads=4,
            mlp_width=256,
            activation="relu",
            norm="post",
            attention_bias=True,
            mlp_bias=True,
            unembedding_bias=True,
            dropout=self.paper.dropout,
        )

    def hidden_task(self, chain: str) -> HiddenMarkovChain:
        """A hidden chain by name."""
        return HiddenMarkovChain.named(chain, sequence_length=self.sequence_length)

    def hidden_model(self, chain: str) -> TransformerConfig:
        """The model's configuration on a hidden chain."""
        return TransformerConfig(
            vocab_size=self.hidden_task(chain).vocab_size,
            context_length=self.sequence_length,
            num_layers=self.hidden.num_layers,
            width=self.hidden.width,
            num_heads=self.hidden.num_heads,
            mlp_width=4 * self.hidden.width,
        )

    def task(self, arm: str) -> MarkovChain:
        """The task of an arm."""
        return MarkovChain.named(self.arms()[arm].chain, sequence_length=self.sequence_length)

    def sized_model(self, arm: str, width: int, num_heads: int, num_layers: int) -> TransformerConfig:
        """The model's configuration in an arm at another size."""
        return dataclasses.replace(self.model(arm), width=width, num_heads=num_heads, num_layers=num_layers, mlp_width=4 * width)

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


SIZES = (
    *((16, 4, 1), (32, 4, 1), (128, 4, 1), (256, 4, 1)),
    *((64, 1, 1), (64, 2, 1), (64, 8, 1)),
    *((16, 4, 2), (64, 4, 2), (128, 8, 2)),
)
"""Width, heads and layers of the preset standard's further models."""


def _standard() -> Config:
    seeds = (0, 1, 2, 3, 4)
    arms = {name: dataclasses.replace(getattr(Config(), name), seeds=seeds) for name in ARMS}
    return Config(
        **arms,
        train=TrainConfig(steps=1200, eval_every=100),
        follow_every=20,
        follow_sequences=1024,
        sizes=SIZES,
        hidden=HiddenConfig(chains=("six_tokens", "mess3_blurred")),
        extract_sequences=2048,
        evaluate_sequences=2048,
        das_steps=600,
        probe_tokens=16_384,
    )


def _paper() -> Config:
    none = {name: dataclasses.replace(getattr(Config(), name), seeds=()) for name in ARMS}
    return Config(**none, paper=PaperConfig(seeds=(0, 100, 200)), follow_every=0, extract_sequences=2048, evaluate_sequences=2048)


PRESETS: Mapping[str, Config] = {"quick": Config(), "standard": _standard(), "paper": _paper()}
