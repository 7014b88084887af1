"""``invariscope list``: what can be run, from the registry alone, so that it needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from invariscope.cli.parse import parse
from invariscope.experiments.registry import EXPERIMENTS, ExperimentEntry

__all__ = ["ListOptions", "command"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """The experiments and their presets, one line each.

    Args:
        debug: show the traceback of whatever goes wrong.
    """

    debug: bool = False


def command(args: Sequence[str]) -> int:
    """Print every experiment: name, one line, source, and its presets with a line each."""
    parse(ListOptions, args, prog="invariscope list")
    console = Console()
    for entry in EXPERIMENTS.values():
        for line in _lines(entry):
            # Unwrapped: the lines are read by people and by grep.
            console.print(line, soft_wrap=True, highlight=False)
    return 0


def _lines(entry: ExperimentEntry) -> list[Text]:
    width = max(map(len, entry.presets))
    return [
        Text.assemble((entry.name, "bold cyan"), f"  {entry.summary} ({entry.source})"),
        *(Text.assemble("    --preset ", (name.ljust(width), "bold"), f"  {line}") for name, line in entry.presets.items()),
    ]
