"""What a test must leave as it found it: the global random states, the default type, the number of threads, gradient mode.

The library passes generators down and never reads or moves a global one; a test that moves it hides a function that does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["GlobalState"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GlobalState:
    """The process-wide state at one moment."""

    torch_rng: Tensor
    numpy_rng: tuple[Any, ...]
    default_dtype: torch.dtype
    num_threads: int
    grad_enabled: bool

    @classmethod
    def now(cls) -> GlobalState:
        """The state as it is."""
        return cls(
            torch_rng=torch.get_rng_state(),
            numpy_rng=np.random.get_state(),
            default_dtype=torch.get_default_dtype(),
            num_threads=torch.get_num_threads(),
            grad_enabled=torch.is_grad_enabled(),
        )

    def changes_since(self, before: GlobalState) -> list[str]:
        """One sentence for each thing that differs from ``before``."""
        changes = []
        if not torch.equal(self.torch_rng, before.torch_rng):
            changes.append("torch's global random state has moved: pass a torch.Generator")
        if not all(np.array_equal(a, b) for a, b in zip(self.numpy_rng, before.numpy_rng, strict=True)):
            changes.append("numpy's global random state has moved: use numpy.random.default_rng(seed)")
        for name in ("default_dtype", "num_threads", "grad_enabled"):
            old, new = getattr(before, name), getattr(self, name)
            if old != new:
                changes.append(f"torch's {name} is {new}, and was {old}")
        return changes

    def restore(self) -> None:
        """Bring the process back to this state, so that one leak is not blamed on every later test."""
        torch.set_rng_state(self.torch_rng)
        np.random.set_state(self.numpy_rng)
        torch.set_default_dtype(self.default_dtype)
        torch.set_num_threads(self.num_threads)
        torch.set_grad_enabled(self.grad_enabled)
