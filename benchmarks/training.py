"""What training a small transformer costs: seeds an hour, beside loops that one would write by the book, and what limits it.

Three ways to train one model on one Markov chain, with equal shapes, equal batches and equal optimiser settings:

* ``invariscope``: ``iv.train`` as the studies use it: sampling, an evaluation at the end, the log and a checkpoint included.
* ``by the book``: an ordinary PyTorch loop: separate linear maps for queries, keys and values, ``scaled_dot_product_attention``,
  AdamW as it comes, no evaluation, nothing saved. Its initial weights are the same ones, so the final losses agree to rounding.
* ``TransformerLens``: ``HookedTransformer`` of the same shape, trained by the same loop, in an environment of its own
  (``--with-transformerlens PYTHON``); its initial weights are its own.

Then the same for the whole machine: one seed a core, each with one thread, as ``iv.train`` runs several seeds, against one seed
after the other with all threads, as PyTorch does unless it is told otherwise. That is wall time, and noisy on a shared machine.

A third table sets the operations of a step against what this machine's matrix product reaches, at a large square and at the very
shapes of the step, and a profile says where the rest goes.

Every measurement is a process of its own, with one thread but for that. Elsewhere time is CPU time, and seeds an hour are a
core's.

    python benchmarks/training.py                      the committed settings (about four minutes)
    python benchmarks/training.py --quick              fewer steps
    python benchmarks/training.py --out FILE.json      also writes FILE.json, and the tables as FILE.md
"""

from __future__ import annotations

import os

# Before torch is imported: it reads them once.
if __name__ == "__main__":
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from bench_tools import machine_facts, markdown_table, profile_of, seconds
from torch import Tensor, nn

Row = dict[str, Any]

CHAIN, LENGTH, BATCH, HEADS = "spread_12", 16, 128, 4
WARM_STEPS = 5
SQUARE = 2048
MARKS = {64: 0.5, 128: 0.7}
"""Share of the matrix product's rate that a step is to reach, by width."""
GROUPS = {
    "matrix products": ("aten::mm", "aten::bmm", "aten::addmm"),
    "GELU": ("aten::gelu", "aten::gelu_backward"),
    "softmax and loss": (
        "aten::_softmax",
        "aten::_softmax_backward_data",
        "aten::_log_softmax",
        "aten::_log_softmax_backward_data",
        "aten::nll_loss_forward",
        "aten::nll_loss_backward",
    ),
    "optimiser": ("Optimizer.step#AdamW.step", "aten::_fused_adamw_"),
    "sampling": ("aten::searchsorted", "aten::index", "aten::rand", "aten::uniform_"),
    "copies and sums": ("aten::copy_", "aten::cat", "aten::add", "aten::add_", "aten::sum", "aten::mul", "aten::div"),
}


# ---- the models and loops


class BookModel(nn.Module):
    """One block as a textbook writes it, without norm and biases, as in the study."""

    def __init__(self, vocab_size: int, width: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab_size, width), nn.Embedding(LENGTH, width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)
        self.out = nn.Linear(width, vocab_size, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        q, k, v = (part(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return self.out(x + self.down(F.gelu(self.up(x))))


def book_model(width: int, seed: int) -> BookModel:
    """With the initial weights that the library gives the same seed."""
    from invariscope.models import Transformer
    from invariscope.tasks.task import derive_seed

    ours = Transformer(shape_of(width), generator=torch.Generator().manual_seed(derive_seed(seed, "weights")))
    weights = ours.state_dict()
    model = BookModel(ours.config.vocab_size, width)
    q, k, v = weights["blocks.0.attention.query_key_value.weight"].chunk(3)
    names = {
        "tokens": weights["token_embedding"],
        "positions": weights["position_embedding"],
        "q": q,
        "k": k,
        "v": v,
        "o": weights["blocks.0.attention.output.weight"],
        "up": weights["blocks.0.mlp_input.weight"],
        "down": weights["blocks.0.mlp_output.weight"],
        "out": weights["unembedding.weight"],
    }
    with torch.no_grad():
        for name, value in names.items():
            model.get_parameter(f"{name}.weight").copy_(value)
    return model


def lens_model(vocab_size: int, width: int, seed: int) -> nn.Module:
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    return HookedTransformer(
        HookedTransformerConfig(
            n_layers=1,
            d_model=width,
            n_ctx=LENGTH,
            d_head=width // HEADS,
            n_heads=HEADS,
            d_mlp=4 * width,
            d_vocab=vocab_size,
            act_fn="gelu",
            normalization_type=None,
            seed=seed,
            device="cpu",
        )
    )


def shape_of(width: int) -> Any:
    from invariscope.models import TransformerConfig

    return TransformerConfig(
        vocab_size=task_of().vocab_size, context_length=LENGTH, width=width, num_heads=HEADS, mlp_width=4 * width
    )


def task_of() -> Any:
    from invariscope.tasks import MarkovChain

    return MarkovChain.named(CHAIN, sequence_length=LENGTH)


def settings_of(steps: int) -> Any:
    from invariscope.training import TrainConfig

    return TrainConfig(steps=steps, batch_size=BATCH, eval_every=0)


def learning_rates(steps: int) -> list[float]:
    """The library's schedule, by its formula: the environment of TransformerLens does not have the library."""
    peak, warm, final = 3e-3, 20, 0.02
    rates = []
    for step in range(steps):
        if step < warm:
            rates.append(peak * (step + 1) / warm)
        else:
            progress = (step - warm + 1) / max(1, steps - warm)
            rates.append(peak * (final + (1 - final) * (1 + math.cos(math.pi * progress)) / 2))
    return rates


def by_the_book(model: nn.Module, tokens: list[Tensor], targets: list[Tensor]) -> tuple[float, float]:
    """The ordinary loop over ready batches; seconds and the mean loss of the last ten steps."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    losses = []
    start = time.process_time()
    for rate, batch, answer in zip(learning_rates(len(tokens)), tokens, targets, strict=True):
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.zero_grad()
        loss = F.cross_entropy(model(batch).flatten(0, 1), answer.flatten())
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return time.process_time() - start, sum(losses[-10:]) / len(losses[-10:])


# ---- one cell, in a process of its own


def run_cell(way: str, width: int, steps: int, seed: int, data: str) -> Row:
    torch.set_num_threads(1)
    return CELLS[way](width, steps, seed, Path(data))


def make_data(width: int, steps: int, seed: int, path: Path) -> Row:
    """The very batches that the library draws, for the loops that are given theirs; and what drawing them costs."""
    from safetensors.torch import save_file

    from invariscope.tasks.task import SampledBatches

    task = task_of()
    start = time.process_time()
    batches = list(SampledBatches(task, steps * BATCH, batch_size=BATCH, seed=seed, pool=task.pools[0]))
    spent = time.process_time() - start
    tokens = torch.stack([batch.inputs["tokens"] for batch in batches])
    save_file({"tokens": tokens, "targets": torch.stack([batch.targets for batch in batches])}, str(path))
    return {"cpu_seconds": spent, "vocab_size": task.vocab_size}


def load_data(path: Path) -> tuple[list[Tensor], list[Tensor]]:
    from safetensors.torch import load_file

    found = load_file(str(path))
    return list(found["tokens"]), list(found["targets"])


def train_ours(width: int, steps: int, seed: int, path: Path) -> Row:
    from invariscope.training import train

    train(task_of(), shape_of(width), settings_of(WARM_STEPS), seeds=[seed], engine="inline", progress=False)
    start = time.process_time()
    [run] = train(task_of(), shape_of(width), settings_of(steps), seeds=[seed], engine="inline", progress=False)
    spent = time.process_time() - start
    return {"cpu_seconds": spent, "loss": _last_losses(run.model, path)}


def train_book(width: int, steps: int, seed: int, path: Path) -> Row:
    tokens, targets = load_data(path)
    by_the_book(book_model(width, seed), tokens[:WARM_STEPS], targets[:WARM_STEPS])
    model = book_model(width, seed)
    spent, _ = by_the_book(model, tokens, targets)
    return {"cpu_seconds": spent, "loss": _last_losses(model, path)}


def train_lens(width: int, steps: int, seed: int, path: Path) -> Row:
    tokens, targets = load_data(path)
    vocab_size = 1 + max(int(batch.max()) for batch in tokens)
    by_the_book(lens_model(vocab_size, width, seed), tokens[:WARM_STEPS], targets[:WARM_STEPS])
    model = lens_model(vocab_size, width, seed)
    spent, _ = by_the_book(model, tokens, targets)
    import transformer_lens

    version = getattr(transformer_lens, "__version__", "") or _version("transformer-lens")
    return {"cpu_seconds": spent, "loss": _last_losses(model, path), "version": version}


def _version(name: str) -> str:
    from importlib.metadata import version

    return version(name)


def _last_losses(model: nn.Module, path: Path) -> float:
    """Cross-entropy of the finished model on the last batches of the training, nats: the same numbers for everyone."""
    tokens, targets = load_data(path)
    model.eval()
    with torch.no_grad():
        losses = [
            float(F.cross_entropy(model(x).flatten(0, 1), y.flatten())) for x, y in zip(tokens[-20:], targets[-20:], strict=True)
        ]
    return sum(losses) / len(losses)


def machine_ours(width: int, steps: int, seed: int, path: Path) -> Row:
    """Wall time of one seed a core, all at once."""
    from invariscope.training import train

    num = os.cpu_count() or 1
    start = time.monotonic()
    train(task_of(), shape_of(width), settings_of(steps), seeds=range(seed, seed + num), engine="processes", progress=False)
    return {"wall_seconds": time.monotonic() - start, "num_seeds": num}


def machine_book(width: int, steps: int, seed: int, path: Path) -> Row:
    """Wall time of as many seeds, one after the other, with all threads."""
    num = os.cpu_count() or 1
    torch.set_num_threads(num)
    tokens, targets = load_data(path)
    start = time.monotonic()
    for one in range(seed, seed + num):
        by_the_book(book_model(width, one), tokens, targets)
    return {"wall_seconds": time.monotonic() - start, "num_seeds": num}


def measure_rates(width: int, steps: int, seed: int, path: Path) -> Row:
    """The operations of a step, the rates they are set against, and where a step's time goes, in turns."""
    from invariscope.models import Transformer
    from invariscope.tasks.task import SampledBatches

    task = task_of()
    model = Transformer(shape_of(width), generator=torch.Generator().manual_seed(seed)).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True)
    batches = SampledBatches(task, steps * BATCH, batch_size=BATCH, seed=seed, pool=task.pools[0])

    def step(number: int) -> None:
        batch = batches[number % len(batches)]
        optimiser.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(batch.inputs["tokens"]).flatten(0, 1), batch.targets.flatten())
        float(loss.detach())
        loss.backward()
        optimiser.step()

    generator = torch.Generator().manual_seed(seed)

    def product(rows: int, inner: int, columns: int) -> Callable[[], Tensor]:
        a, b = torch.randn(rows, inner, generator=generator), torch.randn(inner, columns, generator=generator)
        return lambda: a @ b

    tokens = BATCH * LENGTH
    square = product(SQUARE, SQUARE, SQUARE)
    forward = [(tokens, width, 3 * width), (tokens, width, width), (tokens, width, 4 * width), (tokens, 4 * width, width)]
    # Backward: once with the transposed weights for the inputs' gradient, once with the transposed inputs for the weights'.
    shapes = [*forward, *((m, n, k) for m, k, n in forward), *((k, m, n) for m, k, n in forward)]
    products = [product(*shape) for shape in shapes]
    for number in range(WARM_STEPS):
        step(number)
        square()
        [one() for one in products]
    spent = {"step": 0.0, "square": 0.0, "shapes": 0.0}
    rounds = max(10, steps // 8)
    for number in range(rounds):
        spent["step"] += seconds(step, number)
        spent["shapes"] += sum(seconds(one) for one in products)
        if number % 10 == 0:
            spent["square"] += seconds(square)
    linear = 2 * tokens * (4 * width**2 + 8 * width**2 + width * task.vocab_size)
    attention = 2 * 2 * tokens * LENGTH * width
    operations = 3 * (linear + attention)
    square_rate = len(range(0, rounds, 10)) * 2 * SQUARE**3 / spent["square"]
    shape_rate = rounds * sum(2 * m * k * n for m, k, n in shapes) / spent["shapes"]
    rate = rounds * operations / spent["step"]
    return {
        "step_milliseconds": 1e3 * spent["step"] / rounds,
        "operations": operations,
        "gigaflops": rate / 1e9,
        "square_gigaflops": square_rate / 1e9,
        "shape_gigaflops": shape_rate / 1e9,
        "share_of_square": rate / square_rate,
        "share_of_shapes": rate / shape_rate,
        "profile": profile_of(step, rounds, GROUPS, "everything else"),
    }


CELLS: dict[str, Callable[[int, int, int, Path], Row]] = {
    "data": make_data,
    "invariscope": train_ours,
    "by the book": train_book,
    "TransformerLens": train_lens,
    "machine, invariscope": machine_ours,
    "machine, by the book": machine_book,
    "rates": measure_rates,
}


def measure(python: str = sys.executable, **cell: str | int) -> Row:
    print(f"measuring {cell['way']}, width {cell['width']} ...", file=sys.stderr, flush=True)
    threads = str(os.cpu_count() or 1) if cell["way"] == "machine, by the book" else "1"
    environment = os.environ | {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    done = subprocess.run(
        [python, __file__, "--cell", json.dumps(cell)], stdout=subprocess.PIPE, text=True, check=False, env=environment
    )
    if done.returncode:
        raise SystemExit(f"training.py: the process that measures {cell} ended with status {done.returncode}; see above")
    return json.loads(done.stdout.splitlines()[-1])


# ---- the tables


def compare_ways(width: int, steps: int, seed: int, folder: Path, lens: str | None) -> tuple[list[Row], list[Row]]:
    """Each way alone, and two of them on the whole machine."""
    data = str(folder / f"batches-{width}.safetensors")
    common = {"width": width, "steps": steps, "seed": seed, "data": data}
    measure(way="data", **common)
    ways = ["invariscope", "by the book", *(["TransformerLens"] if lens else [])]
    cells = {way: measure(lens if way == "TransformerLens" and lens else sys.executable, way=way, **common) for way in ways}
    ours = cells["invariscope"]["cpu_seconds"]
    rows = [
        {
            "width": width,
            "way": way,
            "cpu_seconds": cell["cpu_seconds"],
            "step_milliseconds": 1e3 * cell["cpu_seconds"] / steps,
            "seeds_an_hour": 3600 / cell["cpu_seconds"],
            "cpu_over_ours": cell["cpu_seconds"] / ours,
            "loss": cell["loss"],
            "version": cell.get("version", ""),
        }
        for way, cell in cells.items()
    ]
    together = [{"width": width, "way": way} | measure(way=f"machine, {way}", **common) for way in ways[:2]]
    for row in together:
        row["seeds_an_hour"] = 3600 * row["num_seeds"] / row["wall_seconds"]
    return rows, together


def render(result: Row) -> str:
    """The result as Markdown: the ways, the share of the machine's rate, the profile, and the machine."""
    settings, machine = result["settings"], result["machine"]
    first = markdown_table(
        ("way", "width", f"CPU s, {settings['steps']} steps", "ms a step", "seeds an hour", "times ours", "final loss"),
        [
            (
                row["way"] + (f" {row['version']}" if row["version"] else ""),
                str(row["width"]),
                f"{row['cpu_seconds']:.2f}",
                f"{row['step_milliseconds']:.1f}",
                f"{row['seeds_an_hour']:.0f}",
                f"{row['cpu_over_ours']:.2f}",
                f"{row['loss']:.5f}",
            )
            for row in result["training"]
        ],
    )
    whole = markdown_table(
        ("whole machine", "width", "seeds at once or in turn", "wall s", "seeds an hour"),
        [
            (
                "invariscope, a process a seed" if row["way"] == "invariscope" else f"{row['way']}, all threads",
                str(row["width"]),
                str(row["num_seeds"]),
                f"{row['wall_seconds']:.1f}",
                f"{row['seeds_an_hour']:.0f}",
            )
            for row in result["machine_wide"]
        ],
    )
    second = markdown_table(
        ("width", "ms a step", "GFLOP", "GFLOP/s", "product, 2048²", "product, step's shapes", "share", "share at shapes"),
        [
            (
                str(row["width"]),
                f"{row['step_milliseconds']:.1f}",
                f"{row['operations'] / 1e9:.3f}",
                f"{row['gigaflops']:.1f}",
                f"{row['square_gigaflops']:.1f}",
                f"{row['shape_gigaflops']:.1f}",
                f"{row['share_of_square']:.2f}" + (f" (mark {row['mark']:.1f})" if row["mark"] else ""),
                f"{row['share_of_shapes']:.2f}",
            )
            for row in result["rates"]
        ],
    )
    groups = list(result["rates"][0]["profile"])
    third = markdown_table(
        ("share of a step's time", *(f"width {row['width']}" for row in result["rates"])),
        [(group, *(f"{row['profile'][group]:.1%}" for row in result["rates"])) for group in groups],
    )
    about = (
        f"One block, {HEADS} heads, batch {BATCH} x {LENGTH} tokens, chain `{CHAIN}`, one thread. Loss: cross-entropy in nats on "
        "the last 20 batches of the training."
    )
    shares = (
        "Operations are those of the matrix products, forward and twice as many backward. Share: of this machine's own float32 "
        "matrix product, measured in turns with the steps."
    )
    text = "\n\n".join([about, first, "Wall time, all cores:", whole, shares, second, third]) + "\n"
    if not settings["transformerlens"]:
        text += "\nTransformerLens was not measured: no environment that has it was given (`--with-transformerlens PYTHON`).\n"
    return text + f"\nMeasured on {machine['cpu']}, {machine['num_usable_cores']} cores, torch {machine['torch']}.\n"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="fewer steps")
    parser.add_argument("--steps", type=int, help="steps a training")
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--with-transformerlens", metavar="PYTHON", help="an interpreter whose environment has transformer-lens")
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    options = parser.parse_args(argv)
    if options.cell:
        print(json.dumps(run_cell(**json.loads(options.cell))))
        return 0
    steps = options.steps or (60 if options.quick else 400)
    if steps < WARM_STEPS or min(options.widths) < HEADS or any(width % HEADS for width in options.widths):
        parser.error(f"{steps} steps, widths {options.widths}; give {WARM_STEPS} steps or more, and widths that {HEADS} divides")
    import tempfile

    training, machine_wide, rates = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for width in options.widths:
            alone, together = compare_ways(width, steps, options.seed, Path(folder), options.with_transformerlens)
            training += alone
            machine_wide += together
            found = measure(way="rates", width=width, steps=steps, seed=options.seed, data="")
            rates.append({"width": width, "mark": MARKS.get(width)} | found)
    result = {
        "schema_version": 1,
        "benchmark": "training",
        "settings": {
            "chain": CHAIN,
            "length": LENGTH,
            "batch": BATCH,
            "heads": HEADS,
            "steps": steps,
            "seed": options.seed,
            "widths": options.widths,
            "transformerlens": bool(options.with_transformerlens),
        },
        "training": training,
        "machine_wide": machine_wide,
        "rates": rates,
        "machine": machine_facts(),
    }
    print(render(result))
    if options.out is not None:
        from invariscope.storage import write_json, write_text

        write_json(options.out, result)
        write_text(options.out.with_suffix(".md"), render(result))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
