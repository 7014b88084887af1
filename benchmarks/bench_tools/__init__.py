"""What several benchmarks need: processor time, where it goes, Markdown tables, and the machine.

The library is imported inside functions: an interpreter that has TransformerLens need not have invariscope.
"""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch

__all__ = ["machine_facts", "markdown_table", "profile_of", "seconds"]


def seconds(function: Callable[..., object], *arguments: object) -> float:
    """Processor seconds of one call."""
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start


def profile_of(step: Callable[[int], None], rounds: int, groups: Mapping[str, tuple[str, ...]], rest: str) -> dict[str, float]:
    """Share of each group of operations in the processor time of a step.

    Args:
        step: called with its number. rounds: steps, thirty at most. groups: name to operations. rest: name of all others.
    """
    with warnings.catch_warnings():
        # torch.profiler warns about its own future defaults.
        warnings.simplefilter("ignore")
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
            for number in range(min(rounds, 30)):
                step(number)
    own = {event.key: event.self_cpu_time_total for event in found.key_averages()}
    total = sum(own.values())
    shares = {group: sum(own.get(name, 0.0) for name in names) / total for group, names in groups.items()}
    return shares | {rest: 1 - sum(shares.values())}


def markdown_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    lines = [header, ("---",) + ("---:",) * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def machine_facts() -> dict[str, Any]:
    """What a table says of the machine."""
    from invariscope.storage import environment_facts

    facts = environment_facts()
    return {
        "cpu": facts["cpu"],
        "num_usable_cores": facts["num_usable_cores"],
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
