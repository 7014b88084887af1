"""The leak check notices what it is there for, and mends it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from leaks import GlobalState

LEAKS: dict[str, tuple[Callable[[], object], str]] = {
    "torch rng": (lambda: torch.rand(3), "torch's global random state has moved: pass a torch.Generator"),
    "numpy rng": (lambda: np.random.rand(), "numpy's global random state has moved: use numpy.random.default_rng(seed)"),
    "dtype": (
        lambda: torch.set_default_dtype(torch.float64),
        "torch's default_dtype is torch.float64, and was torch.float32",
    ),
    "threads": (lambda: torch.set_num_threads(2), "torch's num_threads is 2, and was 1"),
    "gradients": (lambda: torch.set_grad_enabled(False), "torch's grad_enabled is False, and was True"),
}


@pytest.mark.parametrize("name", LEAKS)
def test_each_leak_is_named_and_mended(name: str) -> None:
    leak, expected = LEAKS[name]
    before = GlobalState.now()
    leak()
    assert GlobalState.now().changes_since(before) == [expected]
    before.restore()
    assert GlobalState.now().changes_since(before) == []


def test_a_generator_of_ones_own_is_no_leak() -> None:
    before = GlobalState.now()
    torch.rand(3, generator=torch.Generator().manual_seed(0))
    np.random.default_rng(0).random()
    assert GlobalState.now().changes_since(before) == []
