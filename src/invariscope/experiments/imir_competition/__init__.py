"""The study ``imir-competition``: memory in the weights against recall from the context (arXiv:2607.11875, Theorems 2 and 3)."""

from invariscope.experiments.imir_competition.config import PRESETS, Config
from invariscope.experiments.imir_competition.run import run

__all__ = ["PRESETS", "Config", "run"]
