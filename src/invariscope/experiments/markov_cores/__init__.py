"""The study ``markov-cores``: transformers trained on Markov chains share one small core (arXiv:2602.22600)."""

from invariscope.experiments.markov_cores.config import PRESETS, ArmConfig, Config
from invariscope.experiments.markov_cores.run import run

__all__ = ["PRESETS", "ArmConfig", "Config", "run"]
