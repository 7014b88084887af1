"""What the study ``agreement`` runs: its models, their layers, its prompts, and what stands beside each core."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from invariscope.errors import ConfigError

__all__ = ["PRESETS", "Config", "ModelConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """One language model.

    Args:
        name: as for ``load_language_model``: a shipped name, a hub id, a folder or a GGUF file.
        layers: that are swept, from 0; none: all.
        judged: the layers that claims are judged at; none: the chosen layer and those after it.
        transfer: the layer that transfer is judged at; None: the first that is judged.
        dtype: of the weights.
    """

    name: str
    layers: tuple[int, ...] = ()
    judged: tuple[int, ...] = ()
    transfer: int | None = None
    dtype: str = "float32"

    def __post_init__(self) -> None:
        wanted = {*self.judged, *(() if self.transfer is None else (self.transfer,))}
        missing = sorted(wanted - set(self.layers)) if self.layers else []
        if missing or min((*self.layers, *wanted), default=0) < 0:
            raise ConfigError(
                f"{self.name}: layers {list(self.layers)} with claims at {sorted(wanted)}",
                expected="claims at layers that are swept, counted from 0",
                do="add them to layers, or leave layers empty for all",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The study's numbers.

    Args:
        models: each is swept.
        prompts: the set of prompts, ``agreement`` (balanced) or ``agreement-paper``.
        num_extraction: prompts that cores come from.
        num_heldout: prompts that they are tested on.
        projections: of the cores; the first is judged.
        num_random: random subspaces behind the control.
        num_arbitrary: how many of the arbitrary margins get cores of their own, at most two.
        batch_size: prompts at a time.
        prompt_seed: of prompts, random subspaces and bootstraps; --seed sets it.

    Raises:
        ConfigError: for a number out of range, or no model.
    """

    models: tuple[ModelConfig, ...]
    prompts: str = "agreement"
    num_extraction: int = 512
    num_heldout: int = 192
    projections: tuple[str, ...] = ("oblique", "adjoint", "activation")
    num_random: int = 4
    num_arbitrary: int = 2
    batch_size: int = 64
    prompt_seed: int = 0

    def __post_init__(self) -> None:
        if not self.models or len({model.name for model in self.models}) < len(self.models):
            raise ConfigError(
                f"models {[model.name for model in self.models]}", expected="at least one, each once", do="name each model once"
            )
        for name, least in (
            ("num_extraction", 32),
            ("num_heldout", 32),
            ("num_random", 1),
            ("batch_size", 1),
            ("prompt_seed", 0),
        ):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} = {getattr(self, name)}", expected=f"at least {least}", do=f"raise {name}")
        if not 0 <= self.num_arbitrary <= 2 or not self.projections:
            raise ConfigError(
                f"num_arbitrary = {self.num_arbitrary} and projections {list(self.projections)}",
                expected="0, 1 or 2 arbitrary margins, and at least one projection",
                do="correct them",
            )

    def all_seeds(self) -> tuple[int, ...]:
        """The one seed."""
        return (self.prompt_seed,)

    def with_first_seed(self, seed: int) -> Config:
        """The same study with another seed."""
        return dataclasses.replace(self, prompt_seed=seed)


SMOLLM2, GEMMA3 = "smollm2-135m", "gemma3-270m"
# Layers that the claims name; the sheet's numbers are at these.
SMOLLM2_LATE, GEMMA3_LATE = (27, 28, 29), (16, 17)

PRESETS: Mapping[str, Config] = {
    "quick": Config(
        models=(
            ModelConfig(name=SMOLLM2, layers=(20, *SMOLLM2_LATE), judged=SMOLLM2_LATE, transfer=27),
            ModelConfig(name=GEMMA3, layers=(12, *GEMMA3_LATE), judged=GEMMA3_LATE),
        ),
        projections=("oblique", "adjoint", "activation"),
    ),
    "standard": Config(
        models=(
            ModelConfig(name=SMOLLM2, judged=SMOLLM2_LATE, transfer=27),
            ModelConfig(name=GEMMA3, judged=GEMMA3_LATE),
        ),
        num_random=8,
    ),
    "paper": Config(
        models=(
            ModelConfig(name="openai-community/gpt2"),
            ModelConfig(name="openai-community/gpt2-medium"),
            ModelConfig(name="openai-community/gpt2-large"),
            ModelConfig(name="meta-llama/Llama-3.1-8B", dtype="bfloat16"),
            ModelConfig(name="google/gemma-2-9b", dtype="bfloat16"),
            ModelConfig(name="Qwen/Qwen2.5-32B", dtype="bfloat16"),
        ),
        prompts="agreement-paper",
    ),
}
