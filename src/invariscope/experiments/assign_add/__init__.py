"""The study ``assign-add``: how a small transformer composes variable binding with modular addition (arXiv:2605.31497)."""

from invariscope.experiments.assign_add.config import PRESETS, Config
from invariscope.experiments.assign_add.run import run

__all__ = ["PRESETS", "Config", "run"]
