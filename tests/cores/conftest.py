"""One small trained model for all tests of cores: a second of training, no mock."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from invariscope.models import Transformer, TransformerConfig
from invariscope.tasks import MarkovChain
from invariscope.training import TrainConfig, train

SITE = "blocks.0.resid_mid"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trained:
    """A model and the chain that it has learnt."""

    model: Transformer
    task: MarkovChain


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    task = MarkovChain.named("four_real", 8)
    shape = TransformerConfig(vocab_size=4, context_length=8, width=16, num_heads=2, mlp_width=32)
    config = TrainConfig(steps=250, batch_size=64, learning_rate=1e-2, eval_every=0)
    folder: Path = tmp_path_factory.mktemp("trained")
    (run,) = train(task, shape, config, seeds=[0], folder=folder, engine="inline", progress=False)
    return Trained(model=run.model, task=task)
