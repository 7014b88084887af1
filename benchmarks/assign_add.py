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
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from assign_add_parts.floor import measure_rates
from assign_add_parts.loops import BookModel, folded_loop, lens_model, ordinary_loop
from assign_add_parts.setting import (
    BATCH,
    COMPARED_STEPS,
    WARM_STEPS,
    Row,
    drawn,
    initial_of,
    load_data,
    make_data,
    settings_of,
    shape_of,
    task_of,
)
from assign_add_parts.tables import render
from bench_tools import machine_facts

SLOWER = 8
"""The slow ways take an eighth of the steps."""
TOLERANCE = 1e-9
MARKS = {"by the book": 12.0, "TransformerLens": 15.0}
"""How many times more steps a CPU second than theirs ours is to make."""
HELD, GOAL = ("0var-held", "1var-held", "2var-held"), 0.99


# ---- one cell, in a process of its own


def run_cell(way: str, width: int, steps: int, seed: int, folder: str) -> Row:
    torch.set_num_threads(1)
    return CELLS[way](width, steps, seed, Path(folder))


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


# ---- all of them


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
