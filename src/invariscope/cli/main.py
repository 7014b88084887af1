"""The command ``invariscope``: chooses a command, and turns whatever happens into an exit status.

======  ================================================================================================
status  meaning
======  ================================================================================================
0       finished; what the verdicts say does not matter
1       a run crashed, or ``verify`` found a deviation above its tolerance
2       bad input: one line that says what was given, what was expected, what to do
3       with ``--strict``: a claim is not reproduced
130     interrupted with Ctrl-C
======  ================================================================================================

Torch alone takes a second to load, so this file imports the standard library and the errors, and a command's own file only when
that command is chosen: ``--help``, ``--version`` and ``list`` answer at once.

>>> main(["rnu"])
2
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence

from invariscope.errors import ConfigError, InvariscopeError, JobError, unknown_name

__all__ = ["BAD_INPUT", "COMMANDS", "CRASHED", "FINISHED", "INTERRUPTED", "NOT_REPRODUCED", "main"]

FINISHED, CRASHED, BAD_INPUT, NOT_REPRODUCED, INTERRUPTED = 0, 1, 2, 3, 130

COMMANDS: Mapping[str, tuple[str, str]] = {
    "list": ("", "the experiments and their presets, or --models with licences, one line each"),
    "run": ("EXPERIMENT", "run an experiment: train, measure, judge its claims, write the report"),
    "report": ("RUN_DIR", "build the offline HTML report of a run anew"),
    "follow": ("FOLDER", "a core over the checkpoints of a run: ranks, overlap, spectrum"),
    "compare": ("CORE_OR_RUN ...", "how alike cores or runs are: spans, coordinates, weights"),
    "circuits": ("CHECKPOINT", "the circuits of a model that assigns and adds: routing, binding, addition"),
    "core": ("MODEL PAIRS.csv", "the core of a behaviour of your own in a language model: sweep, report, steering vector"),
    "verify": ("MODEL", "layer by layer, our way through a language model against plain Hugging Face"),
    "tokens": ("MODEL TEXT", "how a text is split, what stands before it, which token is the last"),
}
"""Name to argument and one line; each stands in its own file, ``cli/NAME.py``, as a function ``command(args)``."""


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command line.

    Args:
        argv: its words, without the program's name; None: those of this process.

    Returns:
        The exit status (table above). Nothing is raised.
    """
    if argv is None:
        _never_fail_at_a_letter()
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    try:
        status = _dispatch(words)
        # Here, where a reader that has left can still be answered, and not while the interpreter ends.
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        _say("interrupted; what was finished is kept, and the same command goes on from there", debug=debug)
        return INTERRUPTED
    except BrokenPipeError:
        _write_nowhere()
        return CRASHED
    except JobError as error:
        _say(f"error: {error}", debug=debug, error=error)
        return CRASHED
    except InvariscopeError as error:
        _say(f"error: {error}", debug=debug, error=error)
        return BAD_INPUT
    except Exception as error:
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        _say(f"error: crashed with {cause}" + ("" if debug else "; --debug shows the traceback"), debug=debug, error=error)
        return CRASHED


def _dispatch(words: list[str]) -> int:
    name, args = (words[0], words[1:]) if words else ("", [])
    if name in ("-h", "--help"):
        _print_help()
        return FINISHED
    if name == "--version":
        print(f"invariscope {_version()}")
        return FINISHED
    if not name or name == "--debug":
        raise ConfigError("no command", expected=f"one of {', '.join(COMMANDS)}", do="see invariscope --help")
    if name not in COMMANDS:
        raise unknown_name("option" if name.startswith("-") else "command", name, [*COMMANDS, "--help", "--version"])
    try:
        return importlib.import_module(f"invariscope.cli.{name}").command(args)
    except SystemExit as done:
        # tyro leaves this way, after its help (0) or its own box about an option (2).
        return done.code if isinstance(done.code, int) else FINISHED


def _version() -> str:
    from importlib.metadata import version

    return version("invariscope")


def _print_help() -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    usages = {f"{name} {argument}".rstrip(): line for name, (argument, line) in COMMANDS.items()}
    width = max(map(len, usages))
    lines = [
        Text.assemble(("invariscope", "bold"), f" {_version()}: finds what is invariant inside trained transformers"),
        Text(),
        Text("usage: invariscope COMMAND [options]"),
        Text(),
        *(Text.assemble("  ", (usage.ljust(width), "bold cyan"), f"   {line}") for usage, line in usages.items()),
        Text(),
        Text("invariscope COMMAND --help explains a command, invariscope run EXPERIMENT --help every setting of an experiment;"),
        Text("--version prints the version, and --debug, after any command, the traceback of whatever went wrong."),
        Text("Exit status: 0 finished, 1 crashed or not verified, 2 bad input, 3 not reproduced (--strict), 130 interrupted."),
    ]
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)


def _say(line: str, *, debug: bool, error: BaseException | None = None) -> None:
    """One line on standard error; before it, with ``--debug``, all that is known of ``error``."""
    if debug and error is not None:
        traceback.print_exception(error)
        from_worker = getattr(error, "traceback", "")
        if from_worker:
            print(f"In the worker:\n{from_worker}", file=sys.stderr)
    print(line, file=sys.stderr)


def _write_nowhere() -> None:
    # Whoever read our output has left (`| head`): the interpreter must not stumble over it again while it ends.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())


def _never_fail_at_a_letter() -> None:
    """Let a terminal or log that lacks a letter show something in its place."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace" if stream is sys.stderr else "replace")
