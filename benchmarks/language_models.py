"""What extraction at all layers of a language model costs, beside one forward and one backward of the model itself.

512 prompts of the balanced agreement set, the margin are - is, every block's output at the last token. Five ways:

* ``forward and backward``: what nobody can do without: the model once, frozen weights, logits at the last token only, the
  gradient of the margins' sum with respect to the embeddings. The unit of the others.
* ``extraction``: as the sweeps do it: keys and values of the prefix without gradients, the graph of the last token alone, two
  rows of the unembedding, and float64 factors of activations and Jacobians at every layer.
* ``without factors``: the same, but activations and Jacobians are thrown away.
* ``whole prompts``: ``collect_moments`` on the plain model: the graph of every token, all logits.
* ``one at a time``: the plain model prompt by prompt, all layers in one backward (on fewer prompts, scaled up).

Every measurement is a process of its own with one thread. Time is CPU time; peak memory is ``ru_maxrss`` less that of a process
that only loads the model and encodes the prompts.

    python benchmarks/language_models.py                      the committed settings (some minutes)
    python benchmarks/language_models.py --model FOLDER ...   another model
    python benchmarks/language_models.py --out FILE.json      also writes FILE.json, and the tables as FILE.md
"""

from __future__ import annotations

import os

# Before torch is imported: it reads them once.
if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import argparse
import dataclasses
import json
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from invariscope.batch import Batch
from invariscope.cores import collect_moments
from invariscope.cores.sweep_layers import layer_moments
from invariscope.cores.vocabulary import vocabulary_of
from invariscope.models import Downstream, LanguageModel, load_language_model, split_prefix
from invariscope.sites import choices, frozen, language_parts, site_gradients
from invariscope.storage import environment_facts, write_json, write_text
from invariscope.tasks import balanced_agreement

Row = dict[str, Any]

MARKS = {"extraction": ("at most", 1.2), "without factors": ("at most", 0.9), "one at a time": ("at least", 4.5)}
"""Of CPU seconds, in units of forward and backward; of the last, in units of extraction."""


def resid_posts(lm: LanguageModel) -> list[str]:
    return [f"blocks.{layer}.resid_post" for layer in range(lm.num_layers)]


def forward_backward(lm: LanguageModel, batches: list[Batch]) -> None:
    parts = language_parts(lm.model)
    embed: Any = lm.model.get_input_embeddings()
    for batch in batches:
        with frozen(lm.model), torch.enable_grad():
            start = embed(batch.inputs["input_ids"]).detach().requires_grad_()
            inputs = {name: batch.inputs[name] for name in ("attention_mask", "position_ids")}
            final = parts.base(inputs_embeds=start, use_cache=False, **inputs).last_hidden_state[:, -1]
            logits = parts.unembedding(final)
            answers = batch.choices
            assert answers is not None
            chosen = logits.gather(1, answers[:, :, 0])
            torch.autograd.grad((chosen[:, 1] - chosen[:, 0]).sum(), start)


def extraction(lm: LanguageModel, batches: list[Batch]) -> None:
    prefixed = [split_prefix(lm.model, batch) for batch in batches]
    found = layer_moments(lm.model, prefixed, choices(), range(lm.num_layers))
    for moments in found.values():
        moments.sides()


def without_factors(lm: LanguageModel, batches: list[Batch]) -> None:
    prefixed = [split_prefix(lm.model, batch) for batch in batches]
    few = vocabulary_of([choices()], prefixed)
    assert few is not None
    last = Downstream(lm.model, vocabulary=few.ids)
    for batch in prefixed:
        site_gradients(last, few.batch(batch), sites=resid_posts(lm), objective=choices(), positions="last")


def whole_prompts(lm: LanguageModel, batches: list[Batch]) -> None:
    collect_moments(lm.model, batches, sites=resid_posts(lm), objective=choices(), positions="last")


def one_at_a_time(lm: LanguageModel, batches: list[Batch]) -> None:
    for batch in batches:
        for row in range(batch.num_rows):
            one = batch.take(torch.tensor([row]))
            mask = one.inputs["attention_mask"][0].bool()
            bare = dataclasses.replace(
                one, inputs={name: value[:, mask] for name, value in one.inputs.items()}, valid=None, marked=None
            )
            site_gradients(lm.model, bare, sites=resid_posts(lm), objective=choices(), positions="last")


WAYS: dict[str, Callable[[LanguageModel, list[Batch]], None]] = {
    "forward and backward": forward_backward,
    "extraction": extraction,
    "without factors": without_factors,
    "whole prompts": whole_prompts,
    "one at a time": one_at_a_time,
}


def prepare(model: str, num: int, batch_size: int) -> tuple[LanguageModel, list[Batch]]:
    lm = load_language_model(model)
    pairs = balanced_agreement(num_train=num, num_heldout=12, seed=0).train
    return lm, pairs.encode(lm.encode, pieces=lm.pieces).batches(batch_size)


def peak_mebibytes() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def run_cell(way: str, model: str, num: int, batch_size: int) -> Row:
    torch.set_num_threads(1)
    lm, batches = prepare(model, num, batch_size)
    if way == "load":
        return {"peak": peak_mebibytes()}
    # Kernels, and whatever transformers sets up at the first call.
    WAYS["forward and backward"](lm, [batches[0].take(torch.arange(2))])
    WAYS[way](lm, [batches[0].take(torch.arange(2))])
    start = time.process_time()
    WAYS[way](lm, batches)
    return {"cpu_seconds": time.process_time() - start, "peak": peak_mebibytes()}


def measure(**cell: str | int) -> Row:
    print(f"measuring {cell['way']}, batch {cell['batch_size']} ...", file=sys.stderr, flush=True)
    done = subprocess.run([sys.executable, __file__, "--cell", json.dumps(cell)], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"language_models.py: the process that measures {cell} ended with status {done.returncode}; see above")
    return json.loads(done.stdout.splitlines()[-1])


def compare(model: str, num: int, slow: int, batch_sizes: list[int]) -> Row:
    loaded = measure(way="load", model=model, num=num, batch_size=batch_sizes[0])["peak"]
    rows = []
    for batch_size in batch_sizes:
        common = {"model": model, "num": num, "batch_size": batch_size}
        cells = {way: measure(way=way, **common) for way in WAYS if way not in ("whole prompts", "one at a time")}
        unit = cells["forward and backward"]["cpu_seconds"]
        rows += [
            {
                "way": way,
                "batch_size": batch_size,
                "cpu_seconds": cell["cpu_seconds"],
                "over_unit": cell["cpu_seconds"] / unit,
                "peak_mebibytes": cell["peak"] - loaded,
            }
            for way, cell in cells.items()
        ]
    best = min((row for row in rows if row["way"] == "extraction"), key=lambda row: row["cpu_seconds"])
    unit = next(
        row["cpu_seconds"] for row in rows if (row["way"], row["batch_size"]) == ("forward and backward", best["batch_size"])
    )
    for way, count in (("whole prompts", num), ("one at a time", slow)):
        cell = measure(way=way, model=model, num=count, batch_size=min(best["batch_size"], count))
        seconds = cell["cpu_seconds"] * num / count
        rows.append(
            {
                "way": way,
                "batch_size": 1 if way == "one at a time" else best["batch_size"],
                "cpu_seconds": seconds,
                "over_unit": seconds / unit,
                "peak_mebibytes": cell["peak"] - loaded,
            }
        )
    ratios = {
        "extraction": best["over_unit"],
        "without factors": next(
            row["over_unit"] for row in rows if (row["way"], row["batch_size"]) == ("without factors", best["batch_size"])
        ),
        "one at a time": rows[-1]["cpu_seconds"] / best["cpu_seconds"],
    }
    return {"model": model, "best_batch_size": best["batch_size"], "rows": rows, "ratios": ratios}


def render(result: Row) -> str:
    """The result as Markdown: one table a model, and its ratios against their marks."""
    settings, machine = result["settings"], result["machine"]
    parts = []
    for found in result["models"]:
        header = ("way", "batch", f"CPU s, {settings['num']} prompts", "forward + backward = 1", "peak MiB beyond the model")
        lines = [header, ("---",) + ("---:",) * (len(header) - 1)]
        lines += [
            (
                row["way"],
                str(row["batch_size"]),
                f"{row['cpu_seconds']:.2f}",
                f"{row['over_unit']:.2f}",
                f"{row['peak_mebibytes']:.0f}",
            )
            for row in found["rows"]
        ]
        table = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
        ratios = found["ratios"]
        said = ", ".join(f"{name} {ratios[name]:.2f} (mark {kind} {target:g})" for name, (kind, target) in MARKS.items())
        parts.append(
            f"**{found['model']}**, all layers; best batch size {found['best_batch_size']}:\n\n{table}\n\n"
            f"At that batch size: {said}; the last as a multiple of extraction."
        )
    facts = f"Measured on {machine['cpu']}, one thread, torch {machine['torch']}, transformers {machine['transformers']}.\n"
    return "\n\n".join([*parts, facts])


def main(arguments: list[str] | None = None) -> int:
    from importlib.metadata import version

    parser = argparse.ArgumentParser(description=str(__doc__).split("\n\n", 1)[0])
    parser.add_argument("--model", nargs="+", default=["smollm2-135m", "gemma3-270m"], help="names, folders or .gguf files")
    parser.add_argument("--num", type=int, default=512, metavar="N", help="prompts, a multiple of 4 (512)")
    parser.add_argument("--slow", type=int, default=64, metavar="N", help="prompts one at a time, scaled up (64)")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[16, 64, 128], metavar="N")
    parser.add_argument("--quick", action="store_true", help="64 prompts, one batch size")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="where the result goes; the tables go beside it as .md")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.cell is not None:
        print(json.dumps(run_cell(**json.loads(given.cell))))
        return 0
    if given.out is not None and given.out.suffix != ".json":
        parser.error(f"--out {given.out}; expected a name that ends in .json; the tables get the same name with .md")
    if given.quick:
        given.num, given.slow, given.batch_sizes = 64, 12, [32]
    facts = environment_facts()
    result = {
        "schema_version": 1,
        "benchmark": "language_models",
        "settings": {"num": given.num, "slow": given.slow, "batch_sizes": given.batch_sizes},
        "machine": {
            "cpu": facts["cpu"],
            "torch": torch.__version__,
            "transformers": version("transformers"),
            "python": platform.python_version(),
        },
        "models": [compare(model, given.num, given.slow, given.batch_sizes) for model in given.model],
    }
    print(render(result))
    if given.out is not None:
        write_json(given.out, result)
        write_text(given.out.with_suffix(".md"), render(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
