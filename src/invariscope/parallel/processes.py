"""The process engine: loky workers, one thread each, that live as long as one call and never longer than their parent.

Workers are fresh interpreters (no fork: nothing is inherited but the environment and ``sys.path``), so the thread counts are set
before torch is imported in them. A job is handed out when a worker is free: where a worker dies, the jobs under way are known.

>>> from invariscope.parallel.outcome import run_job
>>> sorted((i, outcome.result) for i, outcome in run_processes("json:dumps", ['{"obj": 1}'], num_workers=1))
[(0, '"1"')]
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import resource_tracker

from joblib.externals.loky import ProcessPoolExecutor, cpu_count, process_executor

from invariscope.errors import JobError
from invariscope.parallel.outcome import Outcome, run_job

__all__ = ["default_num_workers", "run_processes"]

_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_WATCH_SECONDS = 0.1


def default_num_workers(num_jobs: int) -> int:
    """One worker a job, at most one for each core that this process may use (affinity and container limits count)."""
    return max(1, min(num_jobs, cpu_count()))


def run_processes(function: str, payloads: Sequence[str], *, num_workers: int) -> Iterator[tuple[int, Outcome]]:
    """Run the jobs in ``num_workers`` processes; yield (index, outcome) as each ends, in whatever order they do.

    Closing the iterator early, or an exception while it waits (an interrupt, say), kills the workers at once.

    Raises:
        JobError: where a worker dies; the jobs that were under way are named, and those not begun are not begun.
    """
    executor = ProcessPoolExecutor(max_workers=num_workers, env=_ENVIRONMENT, initializer=_begin_worker, initargs=(os.getpid(),))
    waiting = list(enumerate(payloads))[::-1]
    running: dict[Future[Outcome], int] = {}
    finished = False
    try:
        while waiting or running:
            while waiting and len(running) < num_workers:
                index, payload = waiting.pop()
                with _workers_deaf_to_interrupts():
                    future = executor.submit(run_job, function, payload)
                running[future] = index
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=running.__getitem__):
                # Taken out only after its result, so that the message names it where its worker has died.
                outcome = future.result()
                yield running.pop(future), outcome
        finished = True
    except BrokenProcessPool as error:
        raise _worker_died(function, sorted(running.values()), str(error)) from error
    finally:
        executor.shutdown(wait=True, kill_workers=not finished)


@contextmanager
def _workers_deaf_to_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back while a worker may be started, which inherits that it never hears it.

    It reaches the whole process group, also a worker that is still importing and would print a traceback of its own; the parent
    answers it when this context is left, by killing the workers.
    """
    # Otherwise Python starts it before the first worker, and lets interrupts through again afterwards.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_worker(parent: int) -> None:
    threading.Thread(target=_die_with, args=(parent,), daemon=True).start()
    # loky replaces a worker that has grown by 300 MB since its first job, with a warning; a larger model is no leak.
    process_executor._USE_PSUTIL = False
    import torch

    torch.set_num_threads(1)


def _die_with(parent: int) -> None:
    # A parent that is killed cannot tell us, and a worker that goes on would write into a folder that is being resumed.
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)


def _worker_died(function: str, indices: list[int], report: str) -> JobError:
    codes = [line for line in report.splitlines() if "exit codes" in line]
    ended = codes[0].rpartition(" are ")[2] if codes else "unknown"
    jobs = ", ".join(map(str, indices))
    error = JobError(
        f"a worker process that died (exit codes of the workers: {ended}) during {function}, with jobs {jobs} under way",
        expected="workers that live until their jobs end",
        do="look for a lack of memory (the system kills the largest process first) and use fewer workers, or engine='inline'",
    )
    error.traceback = report  # pyright: ignore[reportAttributeAccessIssue]  # read by --debug with getattr
    return error
