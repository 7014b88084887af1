"""Training: one model a seed, resumable, in parallel one-thread processes."""

from invariscope.training.checkpoints import list_checkpoints, load_model
from invariscope.training.config import TrainConfig, learning_rate_at, resolve_forward
from invariscope.training.events import read_events
from invariscope.training.seeds import Run, load_run, seed_folder, train
from invariscope.training.series import find_checkpoints
from invariscope.training.start import Start
from invariscope.training.train import initial_model

__all__ = [
    "Run",
    "Start",
    "TrainConfig",
    "find_checkpoints",
    "initial_model",
    "learning_rate_at",
    "list_checkpoints",
    "load_model",
    "load_run",
    "read_events",
    "resolve_forward",
    "seed_folder",
    "train",
]
