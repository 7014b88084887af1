"""The study ``imir-dynamics``: recall as it is learnt, in the manifold's coordinates (arXiv:2607.11875, arXiv:2511.01033)."""

from invariscope.experiments.imir_dynamics.config import PRESETS, Config
from invariscope.experiments.imir_dynamics.run import run

__all__ = ["PRESETS", "Config", "run"]
