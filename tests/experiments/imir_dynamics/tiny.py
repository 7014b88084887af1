"""A study of seconds, and its findings."""

from __future__ import annotations

import functools

from invariscope.experiments.imir_dynamics.config import Config
from invariscope.experiments.imir_dynamics.measure import Findings, measure

TINY = Config(seeds=(0, 1), num_blocks=2, vocabulary=8, steps=40, kept=4, lengths=(2, 4, 8), grid=3)


@functools.cache
def findings() -> Findings:
    """Measured once a process."""
    return measure(TINY)
