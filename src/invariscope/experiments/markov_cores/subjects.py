"""The study's subjects: a trained model or its untrained twin, its data, and the cores that are extracted from it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import torch

from invariscope.cores import Core, Moments, collect_moments
from invariscope.experiments.markov_cores.config import Config
from invariscope.models import Transformer, untrained
from invariscope.tasks import MarkovChain
from invariscope.tasks.task import SampledBatches, derive_seed
from invariscope.training import load_run, seed_folder

__all__ = ["BATCH", "FINAL_NORM", "Subject", "core_path", "draw_control"]

FINAL_NORM = "final_norm"
BATCH = 512


def core_path(folder: Path, arm: str, seed: int, trained: bool, site: str, projection: str) -> Path:
    """Where a core of the run in ``folder`` stands."""
    name = f"seed-{seed:04d}{'' if trained else '-untrained'}-{site}-{projection}.safetensors"
    return folder / "cores" / arm / name


def draw_control(moments: Moments, name: str, rank: int, generator: torch.Generator) -> Core:
    """One control of equal rank."""
    return moments.controls(rank, [name], num_random=1, generator=generator)[name][0]


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """One model of the study, read from the run's folder."""

    config: Config
    folder: Path
    arm: str
    seed: int
    trained: bool

    @functools.cached_property
    def task(self) -> MarkovChain:
        """Its chain."""
        return self.config.task(self.arm)

    @functools.cached_property
    def model(self) -> Transformer:
        """The trained model, or the twin of equal shape with fresh weights."""
        model = load_run(seed_folder(self.folder / "runs" / self.arm, self.seed)).model
        return model if self.trained else untrained(model, self.generator("untrained"))

    @property
    def rank(self) -> int:
        """Dimensions in which the chain moves: its eigenvalues that are neither the 1 nor 0."""
        return int((self.task.eigenvalues.abs() > 1e-6).sum())

    def generator(self, purpose: str) -> torch.Generator:
        """A generator that depends on arm, seed and purpose alone."""
        return torch.Generator().manual_seed(derive_seed(self.arm, self.seed, purpose))

    def extraction(self, batch_size: int = BATCH) -> SampledBatches:
        """Sequences that cores are extracted from: the same for every seed of an arm, so that means compare."""
        return self._batches(self.config.extract_sequences, "extraction", "train", batch_size)

    def heldout(self) -> SampledBatches:
        """Held-out sequences, the same for every seed of an arm."""
        return self._batches(self.config.evaluate_sequences, "heldout", "heldout")

    def transitions(self, num: int) -> SampledBatches:
        """``num`` held-out sequences for operators, the same for every seed of an arm."""
        return self._batches(num, "transitions", "heldout")

    def _batches(self, num: int, purpose: str, pool: str, batch_size: int = BATCH) -> SampledBatches:
        return SampledBatches(self.task, num, batch_size=batch_size, seed=derive_seed(self.arm, purpose), pool=pool)

    @functools.cached_property
    def moments(self) -> dict[str, Moments]:
        """Moments at both sites."""
        sites = [self.resid_mid, FINAL_NORM]
        return collect_moments(self.model, self.extraction(), sites=sites, positions="all")

    @property
    def resid_mid(self) -> str:
        """The residual stream after the last block's attention."""
        return f"blocks.{self.config.num_layers - 1}.resid_mid"

    def core(self, projection: str, rank: int | None = None) -> Core:
        """The core at resid_mid; of the chain's rank where none is given."""
        return self.moments[self.resid_mid].core(self.rank if rank is None else rank, projection)

    def control(self, name: str, rank: int) -> Core:
        """One control of equal rank at resid_mid."""
        return draw_control(self.moments[self.resid_mid], name, rank, self.generator(f"control {name}"))
