"""Every error that a user can cause, and the one sentence that each of them says.

A message has three parts: what was *given*, what was *expected*, and what to *do*. The class names the kind of mistake and
has a page in ``docs/errors/``. All of them are :class:`InvariscopeError`, so one ``except`` catches ours and nobody else's;
each is also the built-in error that a Python programmer would look for.

>>> raise RankError("rank 9", expected="at most 3: the data carry no more directions", do="ask for a smaller rank")
Traceback (most recent call last):
    ...
invariscope.errors.RankError: rank 9; expected at most 3: the data carry no more directions; ask for a smaller rank
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "CheckpointError",
    "CompiledModelError",
    "ConfigError",
    "FolderError",
    "ForeignFileError",
    "HookedSiteError",
    "InvariscopeError",
    "JobError",
    "NoForwardError",
    "NonFiniteError",
    "NotEnumerableError",
    "ObjectiveError",
    "PairsError",
    "PositionError",
    "RankError",
    "ReiterableError",
    "ShapeError",
    "TooFewSamplesError",
    "TransitionMatrixError",
    "UnknownNameError",
    "nearest_names",
    "unknown_name",
]


class InvariscopeError(Exception):
    """Root of all errors raised for something that the caller gave.

    Args:
        given: what was given, in the caller's words.
        expected: what would have been right.
        do: what to do now, as an imperative.
    """

    def __init__(self, given: str, *, expected: str = "", do: str = "") -> None:
        self.given, self.expected, self.do = given, expected, do
        super().__init__("; ".join(part for part in (given, expected and f"expected {expected}", do) if part))

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        # Keyword-only arguments do not survive the default protocol between processes.
        return _rebuild, (type(self), self.given, self.expected, self.do)


def _rebuild(kind: type[InvariscopeError], given: str, expected: str, do: str) -> InvariscopeError:
    return kind(given, expected=expected, do=do)


class UnknownNameError(InvariscopeError, ValueError):
    """A name that does not exist: site, experiment, preset, chain, control, projection."""


class ShapeError(InvariscopeError, ValueError):
    """Two arrays whose shapes do not fit each other."""


class NonFiniteError(InvariscopeError, ValueError):
    """A tensor that holds NaN or infinity where numbers are needed."""


class PositionError(InvariscopeError, ValueError):
    """Positions that select nothing, padding, or a token that a row does not have."""


class NoForwardError(InvariscopeError, RuntimeError):
    """Activations were asked for, or an edit was left, before any forward pass reached the site."""


class HookedSiteError(InvariscopeError, ValueError):
    """A hook on a site that a fast forward would skip or show only in part."""


class CompiledModelError(InvariscopeError, ValueError):
    """A compiled module, which drops hooks silently."""


class ObjectiveError(InvariscopeError, ValueError):
    """An objective or a metric that does not fit the model's output or the batch."""


class PairsError(InvariscopeError, ValueError):
    """Prompts, answers and foils that make no choice, or that a tokeniser cannot tell apart."""


class RankError(InvariscopeError, ValueError):
    """A rank that the data do not carry, or at which the oblique projector does not exist."""


class TooFewSamplesError(InvariscopeError, ValueError):
    """Too few samples or groups for the fit, its hold-out half, its interval or its null."""


class TransitionMatrixError(InvariscopeError, ValueError):
    """A matrix that holds no laws, a chain that is reducible or periodic, or a spectrum that no chain has."""


class NotEnumerableError(InvariscopeError, ValueError):
    """A pool that is too large to enumerate."""


class ReiterableError(InvariscopeError, TypeError):
    """A generator where batches are read more than once."""


class ConfigError(InvariscopeError, ValueError):
    """A configuration that cannot be carried out, or a configuration file that cannot be read."""


class FolderError(InvariscopeError, OSError):
    """An output folder that belongs to another run, is in use, or cannot be written."""


class ForeignFileError(InvariscopeError, ValueError):
    """A file that is truncated, damaged, or not one of ours."""


class CheckpointError(ForeignFileError):
    """A checkpoint that does not fit the model, or of which a part is missing."""


class JobError(InvariscopeError, RuntimeError):
    """A job that failed in a worker; the worker's own traceback follows the first line under ``--debug``."""


def nearest_names(name: str, known: Iterable[str], num: int = 3) -> list[str]:
    """The ``num`` known names most like ``name``, best first (all of them where there are fewer)."""
    names = sorted(set(known))
    return sorted(names, key=lambda other: -difflib.SequenceMatcher(None, name.lower(), other.lower()).ratio())[:num]


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """The error for an unknown ``kind`` called ``name``, with the three nearest known names.

    >>> print(unknown_name("projection", "oblik", ["activation", "adjoint", "oblique"]))
    unknown projection 'oblik'; expected one of its known names; nearest: oblique, adjoint, activation
    """
    nearest = ", ".join(nearest_names(name, known))
    return UnknownNameError(
        f"unknown {kind} {name!r}", expected="one of its known names", do=f"nearest: {nearest}" if nearest else "none is known"
    )
