"""Map a named function over JSON jobs, on an engine that does not show in the numbers.

A job is a function at the top of an importable module, named ``package.module:name``, and a JSON dictionary of its keyword
arguments; it returns JSON. That is all an engine has to carry, whether to this process, a worker beside it or another machine.
One thread a job everywhere, so results are equal bit for bit on one machine.

>>> map_jobs("json:dumps", [{"obj": 1.5}, {"obj": None}], engine="inline")
['1.5', 'null']
>>> resolve_engine("auto", num_jobs=3)
'processes'
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

from invariscope.errors import ConfigError, InvariscopeError, JobError, unknown_name
from invariscope.parallel.inline import run_inline
from invariscope.parallel.outcome import Outcome, resolve_function
from invariscope.storage.atomic import JSON, dump_json

__all__ = ["ENGINES", "map_jobs", "resolve_engine"]

ENGINES = ("auto", "inline", "processes")

_MAX_SHOWN = 200


def resolve_engine(engine: str, num_jobs: int) -> str:
    """The engine that ``engine`` stands for: ``auto`` is ``processes`` for more than one job, else ``inline``.

    A pure function of the configuration, never of the machine, so the same command resolves to the same engine.

    Raises:
        UnknownNameError: for an engine that does not exist.
    """
    if engine not in ENGINES:
        raise unknown_name("engine", engine, ENGINES)
    if engine != "auto":
        return engine
    return "processes" if num_jobs > 1 else "inline"


def map_jobs(
    function: str,
    arguments: Sequence[Mapping[str, JSON]],
    *,
    engine: str = "auto",
    num_workers: int | None = None,
    on_done: Callable[[int, JSON], None] | None = None,
) -> list[JSON]:
    """``[f(**a) for a in arguments]``, with f named by ``function``.

    Args:
        function: ``package.module:name``; workers import it with this process's ``sys.path``.
        arguments: one JSON dictionary a job.
        engine: ``auto``, ``inline`` or ``processes``.
        num_workers: processes at a time; None is one a job, at most one a usable core. No number depends on it.
        on_done: called here, in this process, with a job's index and result as soon as it has finished.

    Returns:
        The results, in the order of ``arguments``, as JSON gives them back (tuples are lists).

    Raises:
        UnknownNameError: for an unknown engine.
        ConfigError: for a function that cannot be imported, or fewer than one worker.
        InvariscopeError: one of our own errors raised in a job, as itself.
        JobError: for anything else raised in a job, after all others have finished; and at once where a worker dies. Of several
            failures the first in order is raised. The worker's traceback is its attribute ``traceback``.

    Notes:
        What a job computes must not depend on the global random state or on threads; then engines agree bit for bit.
    """
    engine = resolve_engine(engine, len(arguments))
    resolve_function(function)
    if num_workers is not None and num_workers < 1:
        raise ConfigError(f"{num_workers} workers", expected="at least 1", do="leave it out for one worker a usable core")
    payloads = [dump_json(dict(entry), what=f"the arguments of job {i}") for i, entry in enumerate(arguments)]
    results: list[JSON] = [None] * len(payloads)
    failures: dict[int, Outcome] = {}
    # Closed at once where on_done raises: a generator left to the collector would leave its workers running.
    with closing(_start(engine, function, payloads, num_workers)) as outcomes:
        for index, outcome in outcomes:
            if outcome.result is None:
                failures[index] = outcome
                continue
            results[index] = json.loads(outcome.result)
            if on_done is not None:
                on_done(index, results[index])
    if failures:
        index = min(failures)
        raise _error_of(failures[index], function, index, payloads[index], num_failed=len(failures), num_jobs=len(payloads))
    return results


def _start(engine: str, function: str, payloads: list[str], num_workers: int | None) -> Any:
    if engine == "inline":
        return run_inline(function, payloads)
    from invariscope.parallel.processes import default_num_workers, run_processes

    workers = default_num_workers(len(payloads)) if num_workers is None else min(num_workers, max(1, len(payloads)))
    return run_processes(function, payloads, num_workers=workers)


def _error_of(outcome: Outcome, function: str, index: int, payload: str, *, num_failed: int, num_jobs: int) -> InvariscopeError:
    """The error to raise for a job that failed."""
    error = _own_error(outcome)
    if error is None:
        cause = _shortened(f"{outcome.error_type}: {outcome.error_text}")
        error = JobError(
            f"job {index} of {num_jobs}, {function} with {_shortened(payload)}, which raised {cause}",
            expected="every job to finish" + (f" ({num_failed} did not)" if num_failed > 1 else ""),
            do="see its traceback with --debug, or run this job alone with engine='inline'",
        )
    error.traceback = outcome.traceback  # pyright: ignore[reportAttributeAccessIssue]  # read by --debug with getattr
    return error


def _own_error(outcome: Outcome) -> InvariscopeError | None:
    """One of our errors, rebuilt; None where it was another's, or its class cannot be found here."""
    if outcome.error_parts is None:
        return None
    name, given, expected, do = outcome.error_parts
    try:
        kind = resolve_function(name)
    except ConfigError:
        return None
    if not (isinstance(kind, type) and issubclass(kind, InvariscopeError)):
        return None
    return kind(given, expected=expected, do=do)


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_SHOWN else line[: _MAX_SHOWN - 1] + "…"
