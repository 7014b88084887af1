"""``invariscope follow FOLDER``: a core over the checkpoints of a run, one line a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from invariscope.cli.parse import parse
from invariscope.cli.tasks import describe_run_task, read_task
from invariscope.errors import ConfigError

if TYPE_CHECKING:
    from invariscope.cores import CoreSeries
    from invariscope.models import TransformerConfig
    from invariscope.tasks import Task

__all__ = ["FollowOptions", "command"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowOptions:
    """Measure the core at every checkpoint: ranks, overlap with the last one's core, spectrum error.

    Args:
        folder: the folder of one trained model (seed-0000), or a folder of checkpoints step-00000100.safetensors, ...
        task: a chain by name, or a file with a task's description; not given: what the run's manifest says.
        site: where; not given: blocks.L.resid_mid of the last block L.
        rank: of the cores; not given: the smallest that suffices at the last checkpoint.
        projection: of the cores.
        sequences: that cores are extracted from, and as many held-out ones.
        operator_sequences: behind each spectrum.
        seed: of the sequences.
        out: a JSON file that the series is written to.
        debug: show the traceback of whatever goes wrong.
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FOLDER")]
    task: Annotated[str | None, tyro.conf.arg(metavar="NAME|FILE.json")] = None
    site: Annotated[str | None, tyro.conf.arg(metavar="SITE")] = None
    rank: Annotated[int | None, tyro.conf.arg(metavar="K")] = None
    projection: Literal["activation", "adjoint", "oblique"] = "adjoint"
    sequences: Annotated[int, tyro.conf.arg(metavar="N")] = 2048
    operator_sequences: Annotated[int, tyro.conf.arg(metavar="N")] = 8192
    seed: Annotated[int, tyro.conf.arg(metavar="N")] = 0
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE.json")] = None
    debug: bool = False


def command(args: Sequence[str]) -> int:
    """Print the series, and write it where ``--out`` says."""
    options = parse(FollowOptions, args, prog="invariscope follow")
    if not options.folder.is_dir():
        raise ConfigError(f"{options.folder}, which is no folder", expected="a folder with checkpoints", do="correct the path")
    # Only now: the help and the refusal above need no torch.
    from invariscope.cores.follow import follow_core
    from invariscope.training import find_checkpoints, load_model

    shape = load_model(find_checkpoints(options.folder)[-1][1]).config
    series = follow_core(
        options.folder,
        _task(options, shape),
        site=options.site or f"blocks.{shape.num_layers - 1}.resid_mid",
        projection=options.projection,
        rank=options.rank,
        num_sequences=options.sequences,
        operator_sequences=options.operator_sequences,
        seed=options.seed,
    )
    if options.out is not None:
        series.save(options.out)
    _print(series)
    if options.out is not None:
        print(f"Series: {options.out}")
    return 0


def _task(options: FollowOptions, shape: TransformerConfig) -> Task:
    if options.task is not None:
        return read_task(options.task, context_length=shape.context_length)
    if not (options.folder / "manifest.json").exists():
        raise ConfigError(
            f"{options.folder} without --task",
            expected="a task, because a folder of checkpoints does not say which one it is",
            do="name it with --task NAME or --task description.json",
        )
    from invariscope.tasks import build_task

    return build_task(describe_run_task(options.folder))


def _print(series: CoreSeries) -> None:
    """A table on a terminal, plain unwrapped lines elsewhere."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        print(series.table())
        return
    table = Table(title=series.summary(), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in series.columns:
        table.add_column(heading, justify="left" if heading == series.columns[-1] else "right")
    for cells in series.cells():
        table.add_row(*cells)
    console.print(table)
