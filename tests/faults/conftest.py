"""What the tests of faults share: one small study that nothing disturbed, and its name in the registry."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.small_study import registered, small_run
from invariscope.cli.main import main


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; it is only ever copied."""
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    with registered(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert main(small_run(out)) == 0
    return out


@pytest.fixture
def small() -> Iterator[None]:
    """The small study among the experiments."""
    with registered():
        yield
