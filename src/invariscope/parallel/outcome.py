"""One job, run where it stands: text in, text out, whatever happens inside.

Arguments and results cross every engine as JSON text, the in-process one too, so that a job sees the same values wherever it
runs (JSON keeps a float64 exactly; tuples become lists). An exception crosses as words, because the class behind it may not exist
on the other side.

>>> run_job("math:sqrt", '{}').error_type
'TypeError'
>>> run_job("json:dumps", '{"obj": [1, 2]}').result
'"[1, 2]"'
"""

from __future__ import annotations

import importlib
import json
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from invariscope.errors import ConfigError, InvariscopeError

__all__ = ["Outcome", "resolve_function", "run_job"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one job ended.

    Args:
        result: what it returned, as JSON text; None where it raised.
        error_type: the name of the exception's class; empty where it returned.
        error_text: the exception's message.
        error_parts: ("module:class", given, expected, do) of one of our own errors, else None.
        traceback: the worker's traceback.
    """

    result: str | None = None
    error_type: str = ""
    error_text: str = ""
    error_parts: tuple[str, str, str, str] | None = None
    traceback: str = ""


def resolve_function(function: str) -> Callable[..., Any]:
    """The function called ``package.module:top_level_name``.

    Raises:
        ConfigError: where the name has another form, or there is no such function.
    """
    module_name, _, name = function.partition(":")
    reason = ""
    if not module_name or not name.isidentifier() or module_name == "__main__":
        reason = "not of that form"
    else:
        try:
            found = getattr(importlib.import_module(module_name), name)
            if callable(found):
                return found
            reason = f"a {type(found).__name__}, not a function"
        except (ImportError, AttributeError) as error:
            reason = str(error)
    raise ConfigError(
        f"the job function {function!r} ({reason})",
        expected="package.module:name of a function at the top of an importable module",
        do="move the function into a module that the workers can import",
    )


def run_job(function: str, payload: str) -> Outcome:
    """Call ``function`` with the keyword arguments in ``payload``, a JSON object.

    Only an interrupt passes through: everything else that is raised, ``SystemExit`` too, is in the outcome.
    """
    try:
        result = resolve_function(function)(**json.loads(payload))
        return Outcome(result=json.dumps(result, allow_nan=False))
    except (Exception, SystemExit) as error:
        parts = None
        if isinstance(error, InvariscopeError):
            kind = type(error)
            parts = (f"{kind.__module__}:{kind.__qualname__}", error.given, error.expected, error.do)
        return Outcome(
            error_type=type(error).__name__, error_text=str(error), error_parts=parts, traceback=traceback.format_exc()
        )
