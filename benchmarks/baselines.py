"""What fitted subspaces cost beside an extracted core: distributed alignment search (DAS) and a linear probe.

One model, trained on one Markov chain; one site, after attention; one rank. Each way gets the same sequences and gives a
subspace, which is then kept alone and removed on the same held-out sequences. Time is CPU time of one thread, one measurement in
one process after a warm-up, so that the ratios are those of one run on one machine; passes through the model are those of any.

    python benchmarks/baselines.py                     the committed settings (about a minute)
    python benchmarks/baselines.py --quick             a smaller model, fewer steps
    python benchmarks/baselines.py --out FILE.json     also writes FILE.json, and the table as FILE.md
"""

from __future__ import annotations

import os

# Before torch is imported: it reads them once.
if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import argparse
import platform
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from invariscope.batch import Batch
from invariscope.cores import (
    Core,
    collect_moments,
    cross_entropy,
    distributed_alignment_search,
    linear_probe_core,
    validate_core,
)
from invariscope.models import TransformerConfig
from invariscope.storage import environment_facts, write_json, write_text
from invariscope.tasks import MarkovChain
from invariscope.tasks.task import SampledBatches
from invariscope.training import TrainConfig, train

Row = dict[str, Any]

CHAIN, LENGTH, RANK, SITE = "spread_12", 16, 3, "blocks.0.resid_mid"


def seconds(function: Callable[[], Core]) -> tuple[float, Core]:
    start = time.process_time()
    found = function()
    return time.process_time() - start, found


def measure(*, width: int, steps: int, num: int, das_steps: list[int], das_batch: int, probe_tokens: int, seed: int) -> Row:
    """One row a way: what it took, and what its subspace does."""
    torch.set_num_threads(1)
    task = MarkovChain.named(CHAIN, sequence_length=LENGTH)
    shape = TransformerConfig(vocab_size=task.vocab_size, context_length=LENGTH, width=width, num_heads=4, mlp_width=4 * width)
    settings = TrainConfig(steps=steps, eval_every=0)
    [run] = train(task, shape, settings, seeds=[seed], engine="inline", progress=False)
    model = run.model

    def sample(batch_size: int, pool: str = "train", rows: int = num) -> SampledBatches:
        return SampledBatches(task, rows, batch_size=batch_size, seed=seed, pool=pool)

    def generator() -> torch.Generator:
        return torch.Generator().manual_seed(seed)

    def core(batches: Iterable[Batch]) -> Core:
        return collect_moments(model, batches, sites=[SITE], positions="all")[SITE].core(RANK, "oblique")

    def das(count: int) -> Core:
        search = distributed_alignment_search
        found = search(model, sample(das_batch), site=SITE, rank=RANK, positions="all", steps=count, generator=generator())
        return found.core

    def probe() -> Core:
        found = linear_probe_core(
            model, sample(512), site=SITE, rank=RANK, positions="all", max_samples=probe_tokens, generator=generator()
        )
        return found.core

    # What is paid once a process: kernels, scikit-learn's import.
    core(sample(32, rows=32))
    das(1)
    probe()
    passes: dict[str, tuple[int, int]] = {"core": (num, num * task.vocab_size)}
    ways: dict[str, Callable[[], Core]] = {"core": lambda: core(sample(512))}
    for count in das_steps:
        ways[f"DAS, {count} steps"] = lambda count=count: das(count)
        passes[f"DAS, {count} steps"] = (num + 2 * count * das_batch + 2 * num, count * das_batch)
    ways["linear probe"] = probe
    passes["linear probe"] = (min(num, -(-probe_tokens // LENGTH)), 0)
    rows = []
    for name, way in ways.items():
        spent, found = seconds(way)
        effects = validate_core(
            found,
            model,
            sample(512, "heldout"),
            metrics=(cross_entropy(exact=True),),
            edits=("keep", "remove"),
            generator=generator(),
        )
        full, mean = (effects["model", edit, "cross_entropy"].value for edit in ("full", "mean"))
        chance = effects["model", "full", "cross_entropy"].chance
        keep, remove = (effects["core", edit, "cross_entropy"].value for edit in ("keep", "remove"))
        rows.append(
            {
                "way": name,
                "cpu_seconds": spent,
                "cpu_over_core": spent / rows[0]["cpu_seconds"] if rows else 1.0,
                "forward": passes[name][0],
                "backward": passes[name][1],
                "keep_loss": (keep - full) / (mean - full),
                "removed": (remove - full) / (chance - full),
            }
        )
    return {"ways": rows}


def render(result: Row) -> str:
    """The result as Markdown."""
    settings, machine = result["settings"], result["machine"]
    header = ("way", "CPU s", "times core", "forward passes", "backward passes", "keep loses", "removal goes")
    lines = [header, ("---",) + ("---:",) * (len(header) - 1)]
    lines += [
        (
            row["way"],
            f"{row['cpu_seconds']:.2f}",
            f"{row['cpu_over_core']:.2f}",
            f"{row['forward']:,}",
            f"{row['backward']:,}",
            f"{row['keep_loss']:.2%}",
            f"{row['removed']:.1%} of the way",
        )
        for row in result["ways"]
    ]
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    return (
        f"Chain `{CHAIN}`, width {settings['width']}, rank {RANK} after attention, {settings['num']} sequences of {LENGTH} "
        f"tokens; passes are of one sequence.\n\n{table}\n\nMeasured on {machine['cpu']}, one thread, torch {machine['torch']}.\n"
    )


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="width 16, 60 steps of training, 10 and 20 of the search")
    parser.add_argument("--seed", type=int, default=0, help="of the model and of every way (0)")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="where the result goes; the table goes beside it as .md")
    given = parser.parse_args(arguments)
    if given.out is not None and given.out.suffix != ".json":
        parser.error(f"--out {given.out}; expected a name that ends in .json; the table gets the same name with .md")
    return given


def main(arguments: list[str] | None = None) -> int:
    given = parse(arguments)
    settings: Row = {"width": 64, "steps": 400, "num": 1024, "das_steps": [150, 600], "das_batch": 64, "probe_tokens": 16_384}
    if given.quick:
        settings = {"width": 16, "steps": 60, "num": 64, "das_steps": [10, 20], "das_batch": 32, "probe_tokens": 512}
    settings["seed"] = given.seed
    facts = environment_facts()
    result = {
        "schema_version": 1,
        "benchmark": "baselines",
        "settings": settings | {"chain": CHAIN, "rank": RANK, "site": SITE},
        "machine": {"cpu": facts["cpu"], "torch": torch.__version__, "python": platform.python_version()},
        **measure(**settings),
    }
    print(render(result))
    if given.out is not None:
        write_json(given.out, result)
        write_text(given.out.with_suffix(".md"), render(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
