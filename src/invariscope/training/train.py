"""Train one model on one task with one seed, in a folder, so that a kill at any moment costs only time.

Everything random is a function of (seed, step): the initial weights, every batch, every dropout mask, every evaluation. So the
metrics, checkpoints and weights of a resumed run are those of an uninterrupted one, bit for bit on one machine and thread count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from invariscope.batch import Batch
from invariscope.errors import ConfigError, NonFiniteError
from invariscope.models import Transformer, TransformerConfig
from invariscope.models.folded import folded_logits
from invariscope.numerics.scores import accuracy_rows, cross_entropy_rows, divergence_rows
from invariscope.positions import Rows, rows_of, select_positions
from invariscope.tasks.task import SampledBatches, Task, check_pool, derive_seed
from invariscope.training.checkpoints import checkpoint_path, load_state, save_state, save_weights
from invariscope.training.config import TrainConfig, learning_rate_at, resolve_forward
from invariscope.training.epochs import EpochBatches
from invariscope.training.events import EventLog
from invariscope.training.start import Start, begin

__all__ = ["evaluate", "initial_model", "train_in_folder"]

EVALUATION_BATCH = 512
FEW_OUTPUTS = 16


def initial_model(config: TransformerConfig, seed: int) -> Transformer:
    """The model that the training of ``seed`` begins with, in evaluation mode: what a series of checkpoints has as step 0."""
    return Transformer(config, generator=torch.Generator().manual_seed(derive_seed(seed, "weights"))).eval()


def train_in_folder(
    task: Task,
    model_config: TransformerConfig,
    config: TrainConfig,
    *,
    seed: int,
    folder: Path,
    start: Start | None = None,
    on_step: Callable[[int], None] | None = None,
) -> Transformer:
    """Train, or go on training, the model of ``seed`` in ``folder``; return it in evaluation mode.

    Args:
        task: where batches come from.
        model_config, config: the model's shape and how it is trained.
        seed: decides initial weights, batches and dropout masks.
        folder: gets ``metrics.jsonl``, ``checkpoints/`` and ``state.safetensors``.
        start: what to begin with, and to keep, of another model; None: fresh weights, all of them trained.
        on_step: called with the number of finished steps.

    Raises:
        ConfigError: where the model does not fit the task, or the task's batches do not fit the forward.
        NonFiniteError: where the training diverges, naming the step.
        CheckpointError, ForeignFileError: where the folder's state belongs to another model or is damaged.
    """
    _check_fit(task, model_config)
    for pool in config.eval_pools:
        check_pool(task, pool)
    forward = resolve_forward(config.forward, task.loss_positions, model_config)
    model = initial_model(model_config, seed).train()
    frozen = None if start is None else begin(model, start)
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=config.learning_rate, betas=config.betas, weight_decay=config.weight_decay, fused=True
    )
    batches = _batches(task, config, seed)
    state_path = folder / "state.safetensors"
    first, losses, digest = load_state(state_path, model, optimiser) if state_path.exists() else (0, [], None)
    log = EventLog(folder / "metrics.jsonl", resume_step=first, digest=digest)
    try:
        for step in range(first, config.steps):
            for group in optimiser.param_groups:
                group["lr"] = learning_rate_at(config, step)
            model.dropout.generator = torch.Generator().manual_seed(derive_seed(seed, "dropout", step))
            losses.append(_step(model, optimiser, batches[step], task, forward, step))
            if frozen is not None:
                frozen.restore()
            done = step + 1
            if _due(done, config.eval_every, config.steps):
                log.write(_evaluation(model, task, config, seed, done, losses, forward))
                losses = []
            if _due(done, config.checkpoint_every, config.steps):
                # The log first: a checkpoint that is there after a loss of power vouches for it.
                digest = log.sync()
                save_weights(checkpoint_path(folder, done), model, step=done, log_digest=digest)
                save_state(state_path, model, optimiser, step=done, losses=losses, log_digest=digest)
            if on_step is not None:
                on_step(done)
    finally:
        log.close()
    # What trains this model further must say from where its masks come.
    model.dropout.generator = None
    return model.eval()


def _batches(task: Task, config: TrainConfig, seed: int) -> SampledBatches | EpochBatches:
    size = config.batch_size
    if config.num_sequences is None:
        total, at_once = config.steps * size, config.batches_at_once
        return SampledBatches(task, total, batch_size=size, seed=seed, pool=task.pools[0], at_once=at_once)
    return EpochBatches(task, config.num_sequences, batch_size=size, seed=seed)


def _check_fit(task: Task, model: TransformerConfig) -> None:
    outputs = model.num_outputs or model.vocab_size
    if model.vocab_size < task.vocab_size or outputs < task.num_outputs or model.context_length < task.sequence_length:
        raise ConfigError(
            f"a model of {model.vocab_size} tokens, {outputs} outputs, context {model.context_length} for the task {task.name!r}",
            expected=f"at least {task.vocab_size} tokens, {task.num_outputs} outputs and context {task.sequence_length}",
            do="set vocab_size, num_outputs and context_length to the task's",
        )


def _due(done: int, every: int, steps: int) -> bool:
    return done == steps or (every > 0 and done % every == 0)


def _step(model: Transformer, optimiser: torch.optim.Optimizer, batch: Batch, task: Task, forward: str, step: int) -> float:
    optimiser.zero_grad(set_to_none=True)
    logits, targets = _loss_rows(model, batch, task, forward)
    loss = _mean_cross_entropy(logits, targets)
    value = float(loss.detach())
    _check_loss(value, f"the loss of step {step}")
    loss.backward()
    optimiser.step()
    return value


def _mean_cross_entropy(logits: Float[Tensor, "n V"], targets: Int[Tensor, "n"]) -> Float[Tensor, ""]:
    if logits.shape[1] < FEW_OUTPUTS:
        # PyTorch's softmax over a last axis that is shorter than a vector register goes number by number: four times slower
        # than over an axis with others behind it.
        return F.cross_entropy(logits.T[None], targets[None])
    return F.cross_entropy(logits, targets)


def _check_loss(value: float, name: str) -> None:
    if not math.isfinite(value):
        raise NonFiniteError(
            f"{name}, which is {value}",
            expected="a finite loss: the training diverged",
            do="lower learning_rate, or lengthen warmup_steps",
        )


def _loss_rows(model: Transformer, batch: Batch, task: Task, forward: str) -> tuple[Tensor, Tensor]:
    if batch.targets is None:
        raise ConfigError(
            f"batches of the task {task.name!r} without targets",
            expected="the answer at every loss position",
            do="let task.sample fill Batch.targets",
        )
    if set(batch.inputs) != {"tokens"}:
        # Some forwards would look at the tokens alone, and train on another task in silence.
        raise ConfigError(
            f"batches of the task {task.name!r} with inputs {', '.join(batch.inputs)}",
            expected="tokens alone, which is what a Transformer reads",
            do="of a block task take placement='fixed', whose labels are the places of the tokens",
        )
    everywhere = isinstance(task.loss_positions, str) and task.loss_positions == "all"
    if forward == "plain" and everywhere and batch.valid is None:
        return model(**batch.inputs).flatten(0, 1), batch.targets.flatten()
    logits, rows = _answered(model, batch, task, forward)
    assert rows.targets is not None
    return logits, rows.targets


def _answered(model: Transformer, batch: Batch, task: Task, forward: str) -> tuple[Float[Tensor, "n V"], Rows]:
    # The logits at the task's loss positions, and what is known there.
    index = select_positions(task.loss_positions, valid=batch.valid, shape=(batch.num_rows, batch.length))
    if forward == "plain":
        return model(**batch.inputs)[index[:, 0], index[:, 1]], rows_of(batch, index)
    if batch.valid is not None and not bool(batch.valid[:, -1].all()):
        raise ConfigError(
            f"batches of the task {task.name!r} with padding on the right, trained by forward={forward!r}",
            expected="sequences that end at the last token, which is all that this forward computes",
            do="use forward='plain', or pad on the left",
        )
    tokens = batch.inputs["tokens"]
    logits = folded_logits(model, tokens) if forward == "folded" else model.last_logits(tokens)[:, -1]
    return logits, rows_of(batch, index)


def _evaluation(
    model: Transformer, task: Task, config: TrainConfig, seed: int, done: int, losses: list[float], forward: str
) -> dict[str, Any]:
    size = min(EVALUATION_BATCH, config.eval_sequences)

    def scored(pool: str) -> dict[str, float]:
        batches = SampledBatches(task, config.eval_sequences, batch_size=size, seed=derive_seed(seed, "evaluation"), pool=pool)
        return evaluate(model, batches, task, forward=forward)

    scores = scored(task.pools[:2][-1])
    # The last update of all may be the one that diverges: no later step would notice.
    _check_loss(scores["cross_entropy"], f"the held-out cross-entropy after {done} steps")
    return {
        "step": done,
        "train_loss": sum(losses) / len(losses),
        **{f"heldout_{name}": value for name, value in scores.items()},
        "learning_rate": learning_rate_at(config, done - 1),
        **({"pools": {pool: scored(pool) for pool in config.eval_pools}} if config.eval_pools else {}),
    }


def evaluate(model: Transformer, batches: Iterable[Batch], task: Task, *, forward: str = "plain") -> dict[str, float]:
    """Mean scores at the task's loss positions, under the exact law where the batches know it.

    Args:
        model, batches, task: what is scored, on what.
        forward: what computes it: ``plain``, ``last`` or ``folded``, equal up to rounding.

    Returns:
        ``cross_entropy`` in nats and ``accuracy``; with an exact law also ``divergence`` from it, in nats: how far the model is
        from the best that any model can do on these very rows.
    """
    training = model.training
    model.eval()
    totals: dict[str, float] = {}
    num = 0
    with torch.no_grad():
        for batch in batches:
            logits, rows = _answered(model, batch, task, forward)
            answers = {"targets": rows.targets, "probabilities": rows.probabilities}
            scores = {"cross_entropy": cross_entropy_rows(logits, **answers), "accuracy": accuracy_rows(logits, **answers)}
            if rows.probabilities is not None:
                scores["divergence"] = divergence_rows(logits, probabilities=rows.probabilities)
            for name, values in scores.items():
                totals[name] = totals.get(name, 0.0) + float(values.double().sum())
            num += rows.num
    model.train(training)
    return {name: total / num for name, total in totals.items()}
