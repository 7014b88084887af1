"""What a training step on Assign and Add costs: tables against all positions, beside an ordinary loop and TransformerLens.

One model (two layers, one head, width 128, an MLP in the second layer), one task (presentation layout, N = 59, six variables,
three assignments, four paddings: 20 tokens), batches of 256, AdamW. The ways to train it:

* ``invariscope``: ``iv.train`` as the studies use it, ``forward="folded"`` and 64 batches drawn at once: sampling, an
  evaluation at the end, the log and a checkpoint included.
* ``invariscope, forward="last"``: the same without tables: all of the first layer, the rest at the last token.
* ``by the book``: an ordinary PyTorch loop: separate linear maps, ``scaled_dot_product_attention``, logits at every position
  of which the last is used, a batch drawn at each step, AdamW as it comes, nothing evaluated or saved.
* ``TransformerLens``: its own native model in the same loop over ready batches, in an environment of its own
  (``--with-transformerlens PYTHON``; it needs no invariscope). It has biases and an MLP in every layer: here zero and frozen.
  A second row replaces the first layer's MLP by a module that returns zeros, which saves it that product.

All begin with the same weights. In float64, on the same batches, their losses agree over the first 50 steps; if they do not, the
command ends with status 1.

A second table is a training with the settings of the study's preset ``quick``: steps and seconds until every held-out pool is
at .99. A third sets a step against what the machine needs for it at least: the operations of its matrix products at the rate of
a large product, its look-ups and additions at the rates of a long one, its bytes at the rate of a copy that fits the cache.

Every measurement is a process of its own with one thread. Time is CPU time.

    python benchmarks/assign_add.py                     the committed settings (about four minutes)
    python benchmarks/assign_add.py --quick             fewer steps
    python benchmarks/assign_add.py --out FILE.json     also writes FILE.json, and the tables as FILE.md
"""

from __future__ import annotations

import os

# Before torch is imported: it reads them once.
if __name__ == "__main__":
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")

import argparse
import dataclasses
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Row = dict[str, Any]

BATCH, AT_ONCE = 256, 64
LEARNING_RATE, BETAS, WEIGHT_DECAY = 1e-3, (0.9, 0.98), 0.3
WARM_STEPS, COMPARED_STEPS, SLOWER = 5, 50, 8
"""The slow ways take an eighth of the steps."""
TOLERANCE = 1e-9
MARKS = {"by the book": 12.0, "TransformerLens": 15.0}
"""How many times more steps a CPU second than theirs ours is to make."""
HELD, GOAL = ("0var-held", "1var-held", "2var-held"), 0.99
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


# ---- the models and loops


class BookBlock(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        if hidden:
            self.up, self.down = nn.Linear(width, hidden, bias=False), nn.Linear(hidden, width, bias=False)
        self.hidden = hidden

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part(x)[:, None] for part in (self.q, self.k, self.v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True)[:, 0])
        return x + self.down(F.relu(self.up(x))) if self.hidden else x


class BookModel(nn.Module):
    """The model as a textbook writes it: logits at every position."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        super().__init__()
        (vocab, width), length = weights["token_embedding"].shape, len(weights["position_embedding"])
        self.tokens, self.positions = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([BookBlock(width, 0), BookBlock(width, len(weights["blocks.1.mlp_input.weight"]))])
        self.out = nn.Linear(width, len(weights["unembedding.weight"]), bias=False)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                parameter.copy_(parts_of(weights)[BOOK_NAMES.get(name, name)])

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.out(x)


BOOK_NAMES = {"tokens.weight": "embed", "positions.weight": "position", "out.weight": "unembed"} | {
    f"blocks.{layer}.{name}.weight": f"{layer}.{name}" for layer in (0, 1) for name in ("q", "k", "v", "o", "up", "down")
}


def parts_of(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Our weights under short names, with queries, keys and values apart."""
    parts = {
        "embed": weights["token_embedding"],
        "position": weights["position_embedding"],
        "unembed": weights["unembedding.weight"],
        "1.up": weights["blocks.1.mlp_input.weight"],
        "1.down": weights["blocks.1.mlp_output.weight"],
    }
    for layer in (0, 1):
        parts |= dict(
            zip(
                (f"{layer}.q", f"{layer}.k", f"{layer}.v"),
                weights[f"blocks.{layer}.attention.query_key_value.weight"].chunk(3),
                strict=True,
            )
        )
        parts[f"{layer}.o"] = weights[f"blocks.{layer}.attention.output.weight"]
    return parts


class Nothing(nn.Module):
    """In the place of an MLP that adds nothing."""

    def forward(self, x: Tensor, *_: object, **__: object) -> Tensor:
        return torch.zeros_like(x)


def lens_model(weights: dict[str, Tensor], *, bypass: bool = False) -> nn.Module:
    """TransformerLens's native model with our weights; biases and the first layer's MLP zero and frozen."""
    from transformer_lens.config import TransformerBridgeConfig
    from transformer_lens.model_bridge import TransformerBridge

    parts = parts_of(weights)
    (vocab, width), length = parts["embed"].shape, len(parts["position"])
    config = TransformerBridgeConfig(
        n_layers=2,
        d_model=width,
        n_ctx=length,
        d_head=width,
        n_heads=1,
        d_mlp=len(parts["1.up"]),
        d_vocab=vocab,
        d_vocab_out=len(parts["unembed"]),
        act_fn="relu",
        normalization_type=None,
        positional_embedding_type="standard",
        seed=0,
        device="cpu",
    )
    model = TransformerBridge.boot_native(config)
    names = {"tok_embed.weight": "embed", "pos.weight": "position", "head.weight": "unembed"}
    names |= {f"layers.{layer}.attn.{name}.weight": f"{layer}.{name}" for layer in (0, 1) for name in "qkvo"}
    names |= {"layers.1.mlp.fc_in.weight": "1.up", "layers.1.mlp.fc_out.weight": "1.down"}
    found = 0
    with torch.no_grad():
        for long, parameter in model.named_parameters():
            name = names.get(long.replace("_original_component.", ""))
            found += name is not None
            parameter.requires_grad_(name is not None)
            parameter.copy_(torch.zeros_like(parameter) if name is None else parts[name])
    assert found == len(parts), f"TransformerLens has {found} of our {len(parts)} matrices"
    if bypass:
        model.blocks[0].mlp = Nothing()
    return model


def ordinary_loop(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> list[float]:
    """AdamW as it comes on the last of all positions' logits; the losses."""
    optimiser = torch.optim.AdamW(
        [parameter for parameter in model.parameters() if parameter.requires_grad],
        lr=LEARNING_RATE,
        betas=BETAS,
        weight_decay=WEIGHT_DECAY,
    )
    losses = []
    for tokens, targets in batches:
        optimiser.zero_grad()
        loss = F.cross_entropy(model(tokens)[:, -1], targets)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def folded_loop(model: Any, batches: Iterable[tuple[Tensor, Tensor]]) -> list[float]:
    """What ``iv.train`` does in a step, on ready batches and in the model's own type."""
    from invariscope.models import folded_logits

    optimiser = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=BETAS, weight_decay=WEIGHT_DECAY, fused=True)
    losses = []
    for tokens, targets in batches:
        optimiser.zero_grad(set_to_none=True)
        loss = F.cross_entropy(folded_logits(model, tokens), targets)
        losses.append(float(loss.detach()))
        loss.backward()
        optimiser.step()
    return losses


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


# ---- one cell, in a process of its own


def run_cell(way: str, width: int, steps: int, seed: int, folder: str) -> Row:
    torch.set_num_threads(1)
    return CELLS[way](width, steps, seed, Path(folder))


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


def train_ours(forward: str) -> Callable[[int, int, int, Path], Row]:
    def cell(width: int, steps: int, seed: int, folder: Path) -> Row:
        from invariscope.training import train

        def run(num: int) -> float:
            start = time.process_time()
            task = task_of()
            train(task, shape_of(task, width), settings_of(num, forward), seeds=[seed], engine="inline", progress=False)
            return time.process_time() - start

        run(WARM_STEPS)
        return {"cpu_seconds": run(steps), "steps": steps}

    return cell


def train_book(width: int, steps: int, seed: int, folder: Path) -> Row:
    weights, _ = load_data(folder)
    ordinary_loop(BookModel(weights), drawn(seed, WARM_STEPS))
    model = BookModel(weights)
    start = time.process_time()
    ordinary_loop(model, drawn(seed, steps))
    return {"cpu_seconds": time.process_time() - start, "steps": steps}


def train_lens(bypass: bool) -> Callable[[int, int, int, Path], Row]:
    def cell(width: int, steps: int, seed: int, folder: Path) -> Row:
        from importlib.metadata import version

        weights, batches = load_data(folder)
        ordinary_loop(lens_model(weights, bypass=bypass), batches[:WARM_STEPS])
        model = lens_model(weights, bypass=bypass)
        start = time.process_time()
        ordinary_loop(model, batches[:steps])
        return {"cpu_seconds": time.process_time() - start, "steps": steps, "version": version("transformer-lens")}

    return cell


def losses_ours(width: int, steps: int, seed: int, folder: Path) -> Row:
    _, batches = load_data(folder)
    return {"losses": folded_loop(initial_of(width, seed).double(), batches[:COMPARED_STEPS])}


def losses_book(width: int, steps: int, seed: int, folder: Path) -> Row:
    weights, batches = load_data(folder)
    return {"losses": ordinary_loop(BookModel(weights).double(), batches[:COMPARED_STEPS])}


def losses_lens(width: int, steps: int, seed: int, folder: Path) -> Row:
    weights, batches = load_data(folder)
    return {"losses": ordinary_loop(lens_model(weights).double(), batches[:COMPARED_STEPS])}


def train_quick(width: int, steps: int, seed: int, folder: Path) -> Row:
    """A training with the settings of the study's preset ``quick``: where every held-out pool is at the goal, and when."""
    from invariscope.experiments.assign_add import PRESETS
    from invariscope.training import read_events
    from invariscope.training.train import train_in_folder

    study = PRESETS["quick"]
    config = dataclasses.replace(
        study.train, steps=steps, warmup_steps=min(study.train.warmup_steps, steps), eval_pools=HELD, checkpoint_every=0
    )
    shape = dataclasses.replace(study.model(), width=width, mlp_width=(0, 4 * width))
    with tempfile.TemporaryDirectory() as place:
        clock = [0.0] * (steps + 1)
        start = time.process_time()
        train_in_folder(
            study.task,
            shape,
            config,
            seed=seed,
            folder=Path(place),
            on_step=lambda step: clock.__setitem__(step, time.process_time() - start),
        )
        events = read_events(Path(place) / "metrics.jsonl")
    lowest = {event["step"]: min(event["pools"][pool]["accuracy"] for pool in HELD) for event in events}
    reached = next((step for step, accuracy in lowest.items() if accuracy >= GOAL), None)
    return {
        "seed": seed,
        "steps_to_goal": reached,
        "cpu_seconds_to_goal": None if reached is None else clock[reached],
        "steps": steps,
        "cpu_seconds": clock[steps],
        "final_accuracy": lowest[steps],
    }


# ---- what a step needs at least


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
        "profile": profile_of(step, rounds),
    }


def seconds(function: Callable[..., object], *arguments: object) -> float:
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start


def profile_of(step: Callable[[int], None], rounds: int) -> Row:
    """Share of each group of operations in the processor time of a step."""
    import warnings

    with warnings.catch_warnings():
        # torch.profiler warns about its own future defaults.
        warnings.simplefilter("ignore")
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
            for number in range(min(rounds, 30)):
                step(number)
    own = {event.key: event.self_cpu_time_total for event in found.key_averages()}
    total = sum(own.values())
    shares = {group: sum(own.get(name, 0.0) for name in names) / total for group, names in GROUPS.items()}
    return shares | {"the rest: views, autograd, Python": 1 - sum(shares.values())}


LAST = 'invariscope, forward="last"'
BYPASSED = "TransformerLens, first MLP bypassed"
CELLS: dict[str, Callable[[int, int, int, Path], Row]] = {
    "data": make_data,
    "invariscope": train_ours("folded"),
    LAST: train_ours("last"),
    "by the book": train_book,
    "TransformerLens": train_lens(bypass=False),
    BYPASSED: train_lens(bypass=True),
    "losses, invariscope": losses_ours,
    "losses, by the book": losses_book,
    "losses, TransformerLens": losses_lens,
    "quick": train_quick,
    "rates": measure_rates,
}


def measure(python: str = sys.executable, **cell: str | int) -> Row:
    print(f"measuring {cell['way']} ...", file=sys.stderr, flush=True)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        [python, __file__, "--cell", json.dumps(cell)], stdout=subprocess.PIPE, text=True, check=False, env=environment
    )
    if done.returncode:
        raise SystemExit(f"assign_add.py: the process that measures {cell} ended with status {done.returncode}; see above")
    return json.loads(done.stdout.splitlines()[-1])


# ---- the tables


def compare_ways(common: Row, steps: int, rounds: int, lens: str | None) -> list[Row]:
    """Each way alone, in turns; the median of the rounds."""
    slow = max(steps // SLOWER, WARM_STEPS)
    plan = {"invariscope": steps, LAST: slow, "by the book": slow} | ({"TransformerLens": slow, BYPASSED: slow} if lens else {})

    def python(way: str) -> str:
        return lens if lens and "TransformerLens" in way else sys.executable

    cells = [{way: measure(python(way), way=way, steps=num, **common) for way, num in plan.items()} for _ in range(rounds)]
    times = {way: [1e3 * cell[way]["cpu_seconds"] / cell[way]["steps"] for cell in cells] for way in plan}
    ours = statistics.median(times["invariscope"])
    losses = {
        way: measure(python(way), way=f"losses, {way}", steps=0, **common)["losses"]
        for way in plan
        if way not in (LAST, BYPASSED)
    }
    return [
        {
            "way": way,
            "steps": plan[way],
            "step_milliseconds": statistics.median(found),
            "rounds_milliseconds": found,
            "steps_a_second": 1e3 / statistics.median(found),
            "times_ours": statistics.median(found) / ours,
            "mark": MARKS.get(way),
            "loss_difference": max(abs(a - b) for a, b in zip(losses[way], losses["invariscope"], strict=True))
            if way in losses
            else None,
            "version": cells[0][way].get("version", ""),
        }
        for way, found in times.items()
    ]


def markdown_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [header, ("---",) + ("---:",) * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def render(result: Row) -> str:
    """The result as Markdown: the ways, the training, the floor, the profile, and the machine."""
    settings, machine, rates = result["settings"], result["machine"], result["rates"]
    first = markdown_table(
        ("way", "ms a step", "steps a CPU second", "times ours", f"losses differ, {COMPARED_STEPS} steps in float64"),
        [
            (
                row["way"].replace("TransformerLens", f"TransformerLens {row['version']}"),
                f"{row['step_milliseconds']:.2f}",
                f"{row['steps_a_second']:.1f}",
                f"{row['times_ours']:.1f}" + (f" (mark {row['mark']:.0f})" if row["mark"] else ""),
                "" if row["loss_difference"] is None else f"{row['loss_difference']:.0e}",
            )
            for row in result["ways"]
        ],
    )
    text = (
        f"AssignAdd, {settings['length']} tokens, batch {BATCH}, two layers of width {settings['width']}, one thread, CPU time; "
        f"median of {settings['rounds']} rounds.\n\n{first}\n"
    )
    if not settings["transformerlens"]:
        text += "\nTransformerLens was not measured: no environment that has it was given (`--with-transformerlens PYTHON`).\n"
    if result["quick"]:
        second = markdown_table(
            (
                "training, settings of `quick`",
                "steps to .99 held",
                "CPU s to .99 held",
                "steps",
                "CPU s",
                "lowest held at the end",
            ),
            [
                (
                    f"seed {row['seed']}",
                    "not reached" if row["steps_to_goal"] is None else str(row["steps_to_goal"]),
                    "" if row["steps_to_goal"] is None else f"{row['cpu_seconds_to_goal']:.1f}",
                    str(row["steps"]),
                    f"{row['cpu_seconds']:.1f}",
                    f"{row['final_accuracy']:.3f}",
                )
                for row in result["quick"]
            ],
        )
        held = "Held: sums of 0, 1 and 2 variables, each scored on 512 held-out sequences every 50 steps; that is included."
        text += f"\n{second}\n\n{held}\n"
    floor = rates["floor_milliseconds"]
    third = markdown_table(
        ("a folded step alone", "amount", "rate of this machine", "ms"),
        [
            (
                "matrix products",
                f"{rates['operations'] / 1e9:.3f} GFLOP",
                f"{rates['gigaflops']:.0f} GFLOP/s",
                f"{floor['products']:.2f}",
            ),
            (
                "look-ups and their gradients' additions",
                f"{rates['lookups'] / 1e6:.2f} M each",
                f"{1e-6 * rates['lookups'] / floor['look-ups and additions']:.2f} G/s of a pair",
                f"{floor['look-ups and additions']:.2f}",
            ),
            (
                "bytes of large arrays",
                f"{rates['bytes'] / 1e6:.1f} MB",
                f"{rates['gigabytes_a_second']:.0f} GB/s",
                f"{floor['bytes']:.2f}",
            ),
            ("floor", "", "", f"{sum(floor.values()):.2f}"),
            ("measured", "", f"share {rates['share']:.2f}", f"{rates['step_milliseconds']:.2f}"),
        ],
    )
    fourth = markdown_table(
        ("share of a folded step's time", ""), [(name, f"{share:.1%}") for name, share in rates["profile"].items()]
    )
    where = f"Measured on {machine['cpu']}, {machine['num_usable_cores']} cores, torch {machine['torch']}."
    return f"{text}\n{third}\n\n{fourth}\n\n{where}\n"


def machine_facts() -> Row:
    from invariscope.storage import environment_facts

    facts = environment_facts()
    return {
        "cpu": facts["cpu"],
        "num_usable_cores": facts["num_usable_cores"],
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="fewer steps, one round, one short training")
    parser.add_argument("--steps", type=int, help="steps of our loop; the others take an eighth of them")
    parser.add_argument("--rounds", type=int, help="how often each way is measured, in turns")
    parser.add_argument("--seeds", type=int, help="trainings with the settings of the preset quick; 0: none")
    parser.add_argument("--train-steps", type=int, default=2500, help="their steps")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--with-transformerlens", metavar="PYTHON", help="an interpreter whose environment has transformer-lens")
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    options = parser.parse_args(argv)
    if options.cell:
        print(json.dumps(run_cell(**json.loads(options.cell))))
        return 0
    steps, rounds = options.steps or (128 if options.quick else 512), options.rounds or (1 if options.quick else 3)
    seeds = options.seeds if options.seeds is not None else (0 if options.quick else 3)
    if steps < WARM_STEPS or options.width < 1 or rounds < 1 or options.train_steps < 1:
        parser.error(
            f"{steps} steps, {rounds} rounds, width {options.width}; give {WARM_STEPS} steps or more, a round and a width"
        )
    with tempfile.TemporaryDirectory() as folder:
        common = {"width": options.width, "seed": options.seed, "folder": folder}
        measure(way="data", steps=max(COMPARED_STEPS, steps // SLOWER), **common)
        ways = compare_ways(common, steps, rounds, options.with_transformerlens)
        rates = measure(way="rates", steps=steps, **common)
        quick = [measure(way="quick", steps=options.train_steps, **common | {"seed": seed}) for seed in range(seeds)]
    result = {
        "schema_version": 1,
        "benchmark": "assign_add",
        "settings": {
            "length": task_of().sequence_length,
            "batch": BATCH,
            "width": options.width,
            "steps": steps,
            "rounds": rounds,
            "seed": options.seed,
            "train_steps": options.train_steps,
            "transformerlens": bool(options.with_transformerlens),
        },
        "ways": ways,
        "quick": quick,
        "rates": rates,
        "machine": machine_facts(),
    }
    print(render(result))
    if options.out is not None:
        from invariscope.storage import write_json, write_text

        write_json(options.out, result)
        write_text(options.out.with_suffix(".md"), render(result))
    apart = [row["way"] for row in ways if (row["loss_difference"] or 0.0) > TOLERANCE]
    if apart:
        print(f"assign_add.py: the losses of {', '.join(apart)} differ from ours by more than {TOLERANCE}", file=sys.stderr)
    return 1 if apart else 0


if __name__ == "__main__":
    raise SystemExit(main())
