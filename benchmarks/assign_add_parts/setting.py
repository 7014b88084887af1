"""What every way trains: the task, the model, the optimiser's numbers, and the batches that all see.

The library is imported inside functions: the interpreter that has TransformerLens has no invariscope.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

Row = dict[str, Any]

BATCH, AT_ONCE = 256, 64
LEARNING_RATE, BETAS, WEIGHT_DECAY = 1e-3, (0.9, 0.98), 0.3
WARM_STEPS, COMPARED_STEPS = 5, 50


def task_of() -> Any:
    from invariscope.tasks import AssignAdd

    return AssignAdd(num_variables=6, min_assignments=3, max_assignments=3, num_pads=4)


def shape_of(task: Any, width: int) -> Any:
    from invariscope.models import TransformerConfig

    return TransformerConfig(
        vocab_size=task.vocab_size,
        num_outputs=task.num_outputs,
        context_length=task.sequence_length,
        num_layers=2,
        width=width,
        num_heads=1,
        mlp_width=(0, 4 * width),
        activation="relu",
        initial_std="width",
        embedding_std=0.5,
    )


def settings_of(steps: int, forward: str) -> Any:
    from invariscope.training import TrainConfig

    return TrainConfig(
        steps=steps,
        batch_size=BATCH,
        learning_rate=LEARNING_RATE,
        betas=BETAS,
        weight_decay=WEIGHT_DECAY,
        warmup_steps=0,
        schedule="constant",
        eval_every=0,
        batches_at_once=AT_ONCE,
        forward=forward,
    )


def initial_of(width: int, seed: int) -> Any:
    from invariscope.training import initial_model

    return initial_model(shape_of(task_of(), width), seed).train()


def drawn(seed: int, num: int) -> Iterable[tuple[Tensor, Tensor]]:
    """A batch a step, as an ordinary loop draws them."""
    task, generator = task_of(), torch.Generator().manual_seed(seed)
    for _ in range(num):
        batch = task.sample(BATCH, generator=generator)
        yield batch.inputs["tokens"], batch.targets[:, 0]


def make_data(width: int, steps: int, seed: int, folder: Path) -> Row:
    """Batches and initial weights for whoever does not have the library."""
    from safetensors.torch import save_file

    from invariscope.tasks import SampledBatches

    batches = list(SampledBatches(task_of(), steps * BATCH, batch_size=BATCH, seed=seed, at_once=AT_ONCE))
    tensors = {"tokens": torch.stack([batch.inputs["tokens"] for batch in batches])}
    save_file(tensors | {"targets": torch.stack([batch.targets[:, 0] for batch in batches])}, str(folder / "batches.safetensors"))
    save_file(initial_of(width, seed).state_dict(), str(folder / "weights.safetensors"))
    return {}


def load_data(folder: Path) -> tuple[dict[str, Tensor], list[tuple[Tensor, Tensor]]]:
    from safetensors.torch import load_file

    found = load_file(str(folder / "batches.safetensors"))
    return load_file(str(folder / "weights.safetensors")), list(zip(found["tokens"], found["targets"], strict=True))
