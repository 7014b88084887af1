"""Words of a command line to a frozen dataclass, by tyro, in which our own errors stay our own one line.

tyro draws a box around every ``ValueError`` that a dataclass raises while it is built. Ours already say what was given, what was
expected and what to do, so they are taken out of the box; what tyro itself has to say (an unknown option, a word that is no
number) it says in its own way, and exits with 2.

>>> import dataclasses
>>> @dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
... class Size:
...     width: int = 64
...     layers: tuple[int, ...] = (1,)
>>> parse(Size, ["--layers", "1", "2"], prog="demo", default=Size(width=32))
Size(width=32, layers=(1, 2))
>>> parse_known(Size, ["--width", "8", "--seed", "3"], prog="demo")
(Size(width=8, layers=(1,)), ['--seed', '3'])
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TypeVar

import tyro

from invariscope.errors import InvariscopeError

__all__ = ["parse", "parse_known"]

Options = TypeVar("Options")

# A switch is --strict, without a --no-strict beside it.
_CONFIG = (tyro.conf.FlagCreatePairsOff,)


def parse(kind: type[Options], args: Sequence[str], *, prog: str, default: Options | None = None) -> Options:
    """The ``kind`` that ``args`` ask for.

    Args:
        kind: a dataclass.
        args: the words.
        prog: the command, for usage and help.
        default: what stands where ``args`` says nothing; None: the class's own defaults.

    Raises:
        InvariscopeError: the one that ``kind`` raised while it was built.
        SystemExit: by tyro, with 0 after ``--help`` and with 2 after its message.
    """
    given: dict[str, Any] = {} if default is None else {"default": default}
    try:
        with _silence():
            return tyro.cli(kind, args=list(args), prog=prog, config=_CONFIG, **given)
    except SystemExit as silent:
        own = _own_error(silent)
        if own is not None:
            raise own from None
    # Once more, aloud: help, or tyro's own complaint.
    return tyro.cli(kind, args=list(args), prog=prog, config=_CONFIG, **given)


def parse_known(kind: type[Options], args: Sequence[str], *, prog: str) -> tuple[Options, list[str]]:
    """The ``kind`` that ``args`` ask for, and the words that are none of its options (``--help`` among them)."""
    return tyro.cli(kind, args=list(args), prog=prog, config=_CONFIG, return_unknown_args=True, add_help=False)


@contextmanager
def _silence() -> Iterator[None]:
    # tyro's console_outputs=False does not reach the box that is meant.
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        yield


def _own_error(raised: BaseException) -> InvariscopeError | None:
    """Our error among those that ``raised`` was raised after."""
    cause: BaseException | None = raised
    while cause is not None:
        if isinstance(cause, InvariscopeError):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None
