"""What a step needs at least on this machine, and where its time goes."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from bench_tools import profile_of, seconds

from assign_add_parts.setting import BATCH, BETAS, LEARNING_RATE, WARM_STEPS, WEIGHT_DECAY, Row, initial_of, load_data

GROUPS = {
    "matrix products": ("aten::mm", "aten::bmm", "aten::addmm"),
    "look-ups and their gradients": ("aten::index_select", "aten::gather", "aten::scatter_add", "aten::scatter_add_"),
    "softmax and loss": (
        "aten::_softmax",
        "aten::_softmax_backward_data",
        "aten::_log_softmax",
        "aten::_log_softmax_backward_data",
        "aten::nll_loss_forward",
        "aten::nll_loss_backward",
    ),
    "ReLU": ("aten::clamp_min", "aten::relu", "aten::threshold_backward"),
    "optimiser": ("Optimizer.step#AdamW.step", "Optimizer.zero_grad#AdamW.zero_grad", "aten::_fused_adamw_"),
    "copies, products and sums": (
        *("aten::copy_", "aten::cat", "aten::add", "aten::add_", "aten::sum", "aten::mul", "aten::div", "aten::fill_"),
    ),
}


def operations_of(model: Any, num_tokens: int) -> int:
    """Operations of the matrix products of a folded step: two a term, and twice the forward's for the backward."""
    config = model.config
    width, hidden, outputs = config.width, config.layer("mlp_width", 1), config.num_outputs
    table = config.vocab_size + num_tokens
    atoms = 2 * table
    terms = table * width * 4 * width + table * table * width  # queries, keys, values and output of the first layer; its scores
    terms += BATCH * table * width  # the last token after the first layer
    terms += BATCH * 2 * width * width + atoms * width * 2 * width  # query and output, keys and values of the second layer
    terms += 2 * BATCH * atoms * width  # its scores, what it attends to
    terms += BATCH * (2 * width * hidden + width * outputs)  # MLP and unembedding
    return 3 * 2 * terms


def bytes_of(model: Any, num_tokens: int) -> int:
    """Bytes that a folded step reads and writes at least in its large arrays, each as often as a kernel passes over it."""
    pairs = BATCH * num_tokens**2
    index = 8 * 3 * pairs  # written, read by the look-up and by its gradient
    scores = 4 * 2 * pairs  # written, read by the softmax
    pattern = 4 * 6 * pairs  # written, read twice by the second layer, twice by its backward, by the softmax's
    gradients = 4 * (2 + 3) * pairs  # of the pattern; of the scores, read into the two tables
    hidden = (
        4 * 10 * BATCH * model.config.layer("mlp_width", 1)
    )  # before and after ReLU and their gradients, one in, one or two out
    weights = 4 * 8 * sum(parameter.numel() for parameter in model.parameters())  # weight, gradient and two moments, both ways
    return index + scores + pattern + gradients + hidden + weights


def measure_rates(width: int, steps: int, seed: int, folder: Path) -> Row:
    """A step beside the rates of this machine, in turns, and where its time goes."""
    _, batches = load_data(folder)
    model = initial_of(width, seed)
    num_tokens = batches[0][0].shape[1]
    generator = torch.Generator().manual_seed(seed)
    a, b = (torch.randn(1024, 1024, generator=generator) for _ in range(2))
    pairs = BATCH * num_tokens**2
    table = torch.randn(num_tokens * model.config.vocab_size**2, generator=generator)
    index = torch.randint(len(table), (pairs,), generator=generator)
    values, sums = torch.randn(pairs, generator=generator), torch.zeros_like(table)
    source, target = torch.zeros(2**20), torch.zeros(2**20)
    works: dict[str, Callable[[], object]] = {
        "product": lambda: a @ b,
        "look-up": lambda: table.index_select(0, index),
        "addition": lambda: sums.scatter_add_(0, index, values),
        "copy": lambda: target.copy_(source),
    }
    optimiser = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=BETAS, weight_decay=WEIGHT_DECAY, fused=True)
    from invariscope.models import folded_logits

    def step(number: int) -> None:
        tokens, targets = batches[number % len(batches)]
        optimiser.zero_grad(set_to_none=True)
        loss = F.cross_entropy(folded_logits(model, tokens), targets)
        float(loss.detach())
        loss.backward()
        optimiser.step()

    spent: dict[str, list[float]] = {name: [] for name in ("step", *works)}
    rounds = max(10, steps // 8)
    for number in range(-WARM_STEPS, rounds):
        # Some steps in a row, so that each finds the caches as the one before it left them.
        found = [seconds(step, 4 * number + turn) for turn in range(4)]
        spent["step"] += found[1:] if number >= 0 else []
        for name, work in works.items():
            work()
            spent[name] += [seconds(work)] if number >= 0 else []
    typical = {name: statistics.median(times) for name, times in spent.items()}
    operations, moved = operations_of(model, num_tokens), bytes_of(model, num_tokens)
    rates = {"gigaflops": 2 * 1024**3 / typical["product"] / 1e9, "gigabytes_a_second": 8 * 2**20 / typical["copy"] / 1e9}
    floor = {
        "products": operations / rates["gigaflops"] / 1e6,
        "look-ups and additions": 1e3 * (2 * typical["look-up"] + 2 * typical["addition"]),
        "bytes": moved / rates["gigabytes_a_second"] / 1e6,
    }
    return {
        "step_milliseconds": 1e3 * typical["step"],
        "operations": operations,
        "bytes": moved,
        "lookups": 2 * pairs,
        **rates,
        "floor_milliseconds": floor,
        "share": sum(floor.values()) / (1e3 * typical["step"]),
        "profile": profile_of(step, rounds, GROUPS, "the rest: views, autograd, Python"),
    }
