"""The inline engine: jobs one after the other in this process, on one thread, as a worker would run them.

>>> [outcome.result for _, outcome in run_inline("json:dumps", ['{"obj": 1}', '{"obj": 2}'])]
['"1"', '"2"']
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from invariscope.parallel.outcome import Outcome, run_job
from invariscope.parallel.threads import one_thread

__all__ = ["run_inline"]


def run_inline(function: str, payloads: Sequence[str]) -> Iterator[tuple[int, Outcome]]:
    """Run every job here, each on one thread; yield (index, outcome) as each ends."""
    for index, payload in enumerate(payloads):
        # Around each job, not around the loop: between two of them the caller's own code runs.
        with one_thread():
            outcome = run_job(function, payload)
        yield index, outcome
