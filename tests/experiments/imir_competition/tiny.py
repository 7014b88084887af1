"""A study of seconds, and its findings."""

from __future__ import annotations

import functools

from invariscope.experiments.imir_competition.config import Config
from invariscope.experiments.imir_competition.measure import Findings, measure

TINY = Config(
    rare_shares=(0.2,),
    fresh_shares=(0.0, 0.5),
    emergence_shares=(1.0, 0.5, 0.1),
    copies=(1, 2, 4),
    bursty_blocks=6,
    vocabulary=60,
)


@functools.cache
def findings() -> Findings:
    """Measured once a process."""
    return measure(TINY)
