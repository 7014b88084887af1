"""Cores of language models: subject-verb agreement as a study, and the same measurements for a behaviour of one's own."""

from invariscope.experiments.language_cores.config import PRESETS, Config
from invariscope.experiments.language_cores.run import run

__all__ = ["PRESETS", "Config", "run"]
