"""A study of a second, with everything in it that faults can strike: trained models, cores, figures, claims, a report.

It is run as every experiment is; ``python -m faults.small_study ARGS`` is ``invariscope ARGS`` with it in the registry. The real
study is struck in ``cli/test_run_killed.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from invariscope.experiments import registry

ENTRY = registry.ExperimentEntry(
    name="small",
    summary="Trains three models of a second",
    source="arXiv:0000.00000",
    presets={"quick": "in a second"},
    module="faults.small_study_parts",
)


@contextmanager
def registered() -> Iterator[None]:
    """The study among the experiments."""
    experiments: Any = registry.EXPERIMENTS
    experiments["small"] = ENTRY
    try:
        yield
    finally:
        del experiments["small"]


def small_run(out: Path, *more: str) -> list[str]:
    """The command that makes or goes on with ``out``."""
    return ["run", "small", "--out", str(out), "--engine", "inline", *more]


if __name__ == "__main__":
    from invariscope.cli.main import main

    with registered():
        status = main()
    sys.exit(status)
