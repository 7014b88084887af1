"""Two small trained runs for the commands that read runs."""

from __future__ import annotations

from pathlib import Path

from invariscope.models import TransformerConfig
from invariscope.tasks import MarkovChain
from invariscope.training import TrainConfig, train

SITE = "blocks.0.resid_mid"


def train_two(folder: Path, *, chain: str = "four_real", width: int = 16, steps: int = 150) -> list[Path]:
    """The folders of two seeds, with three checkpoints each."""
    task = MarkovChain.named(chain, 8)
    shape = TransformerConfig(vocab_size=task.num_states, context_length=8, width=width, num_heads=2, mlp_width=32)
    config = TrainConfig(steps=steps, batch_size=64, learning_rate=1e-2, eval_every=0, checkpoint_every=steps // 3)
    runs = train(task, shape, config, seeds=[0, 1], folder=folder, engine="inline", progress=False)
    return [run.folder for run in runs if run.folder is not None]
