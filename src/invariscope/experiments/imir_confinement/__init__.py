"""The study ``imir-confinement``: when does gradient descent stay on the invariant manifold (arXiv:2607.11875)?"""

from invariscope.experiments.imir_confinement.config import PRESETS, Config
from invariscope.experiments.imir_confinement.run import run

__all__ = ["PRESETS", "Config", "run"]
