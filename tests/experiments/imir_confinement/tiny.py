"""A study of seconds on two tasks, and its findings."""

from __future__ import annotations

import functools
from unittest import mock

from invariscope.experiments.imir_confinement import measure as module
from invariscope.experiments.imir_confinement.config import CONTROLS, MODELS, TASKS, Config
from invariscope.experiments.imir_confinement.measure import Findings

TINY = Config(seeds=(0, 1), batches=(4096, 16384, 65536), draws=2, steps=20)
FEW = {name: TASKS[name] for name in ("recall", "recall, symmetric memory")}


@functools.cache
def findings() -> Findings:
    """Measured once a process."""
    models = {name: MODELS[name] for name in ("two layers", "two heads")}
    controls = {name: CONTROLS[name] for name in ("all-ones blocks left out", "inverse shifts left out", "Zipf tokens")}
    with mock.patch.multiple(module, TASKS=FEW, MODELS=models, CONTROLS=controls):
        return module.measure(TINY)
