"""Jobs for the engines' tests: at the top of an importable module, as every job is."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from invariscope.errors import RankError


def train(seed: int, steps: int = 10) -> dict[str, Any]:
    """A small training and a factorisation, as a job of ours has them."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2048, 300, generator=generator)
    y = x[:, :1].sin()
    weights = [torch.randn(shape, generator=generator).div_(10).requires_grad_() for shape in ((300, 64), (64, 1))]
    optimiser = torch.optim.AdamW(weights, lr=1e-2)
    losses = []
    for _ in range(steps):
        loss = ((x @ weights[0]).relu() @ weights[1] - y).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    # The one sum here that comes out differently on two threads.
    spectrum = torch.linalg.svdvals(x[:300])
    return {"seed": seed, "losses": losses, "weights": weights[1].flatten().tolist(), "spectrum": spectrum.tolist()}


def facts(seconds: float = 0.0) -> dict[str, Any]:
    """What a job sees of its process."""
    import torch

    time.sleep(seconds)
    variables = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "torch_threads": torch.get_num_threads(),
        "variables": [os.environ.get(name) for name in variables],
        "tuple": (1, 2),
    }


def misbehave(how: str, folder: str = "", index: int = 0) -> Any:
    """Raise, return no JSON, die, or wait, as told; leave a file behind where all goes well."""
    if how == "raise":
        raise ValueError(f"loss is\nnegative in job {index}")
    if how == "own error":
        raise RankError("rank 9", expected="at most 3", do="ask for a smaller rank")
    if how == "leave":
        sys.exit(7)
    if how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "not JSON":
        return {1, 2}
    if how == "not a number":
        return float("nan")
    if how == "wait":
        Path(folder, f"pid-{os.getpid()}").touch()
        time.sleep(60)
    if folder:
        Path(folder, f"finished-{index}").touch()
    return index


NOT_A_FUNCTION = 3
