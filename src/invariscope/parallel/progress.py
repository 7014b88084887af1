"""Progress of anything that takes longer than a moment: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["track"]

SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def track(description: str, total: int, *, unit: str = "", show: bool = True) -> Iterator[Callable[[], None]]:
    """Inside, call what is given once for each of ``total`` steps done; progress goes to standard error.

    Args:
        description: what is being done.
        total: number of steps.
        unit: what a step is called, in the plural.
        show: False: nothing is printed.

    >>> with track("training", 2, show=False) as advance:
    ...     advance()
    """
    if not show:
        yield lambda: None
    elif sys.stderr.isatty():
        yield from _bar(description, total, unit)
    else:
        yield from _lines(description, total, unit)


def _bar(description: str, total: int, unit: str) -> Iterator[Callable[[], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(description, total=total)
        yield lambda: progress.advance(task)


def _lines(description: str, total: int, unit: str) -> Iterator[Callable[[], None]]:
    done, last = 0, time.monotonic()

    def advance() -> None:
        nonlocal done, last
        done += 1
        if done == total or time.monotonic() - last > SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            print(f"{description}: {done} of {total} {unit}".rstrip(), file=sys.stderr, flush=True)

    yield advance
