"""``invariscope report RUN_DIR``: the offline HTML report of a run, built anew from its folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from invariscope.cli.parse import parse

__all__ = ["ReportOptions", "command"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """Build report.html anew from what a run left in its folder.

    Args:
        run_dir: the folder of a run.
        debug: show the traceback of whatever goes wrong.
    """

    run_dir: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN_DIR")]
    debug: bool = False


def command(args: Sequence[str]) -> int:
    """Write the report and print the claims and where it is."""
    options = parse(ReportOptions, args, prog="invariscope report")
    # Only now: the help above needs none of it.
    from invariscope.report import build_report, print_summary

    build_report(options.run_dir)
    print_summary(options.run_dir)
    return 0
