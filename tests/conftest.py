"""Settings and checks that hold for every test."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

from leaks import GlobalState

# The same examples every time, on every machine, however slow it is.
settings.register_profile("invariscope", deadline=None, derandomize=True)
settings.load_profile("invariscope")

# Two workers share two cores, and sums do not depend on how many threads there are.
torch.set_num_threads(1)

# A shell starts what it puts in the background with interrupts ignored, and every child inherits that: the tests of Ctrl-C would
# wait in vain for a suite that runs there.
if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Fail a test that leaves a global random state, the default type, the threads or gradient mode changed."""
    before = GlobalState.now()
    yield
    changes = GlobalState.now().changes_since(before)
    if changes:
        before.restore()
        pytest.fail("the test leaks: " + "; ".join(changes), pytrace=False)
