"""Induction coordinates of ordinary transformers: over training on recall, and head by head in a language model."""

from invariscope.experiments.imir_transformers.config import PRESETS, Config
from invariscope.experiments.imir_transformers.run import run

__all__ = ["PRESETS", "Config", "run"]
