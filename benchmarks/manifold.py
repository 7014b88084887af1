"""What an exact step in the manifold's coordinates costs, beside one sampled step of the full model.

Recall on slots, n = 8 pairs, two layers of one head with a trained readout, vocabularies of 32, 128 and 512 tokens:

* ``reduced``: natural gradient of the exact population loss in all coordinates, and a step (``iv.manifold.descend``).
* ``sampled``: one step of gradient descent of the full model on a batch of 256 drawn sequences: drawing, forward, backward, step.

A second table follows the flow of 625 initial conditions at once in the two coordinates of the induction circuit.

One thread, CPU time, in turns, the median of the rounds.

    python benchmarks/manifold.py                     the committed settings (about a minute)
    python benchmarks/manifold.py --out FILE.json     also writes FILE.json, and the tables as FILE.md
"""

from __future__ import annotations

import os

# Before torch is imported: it reads them once.
if __name__ == "__main__":
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")

import argparse
import statistics
from pathlib import Path
from typing import Any

import torch
from bench_tools import seconds

from invariscope.manifold import Competition, descend, expected_gradient, flow, random_point, set_weights
from invariscope.models.disentangled import Disentangled
from invariscope.storage import environment_facts, write_json, write_text
from invariscope.tasks.blocks import AssociativeRecall

BLOCKS, BATCH, RATE = 8, 256, 1.0
VOCABULARIES = (32, 128, 512)
MARKS = {32: 3.0, 128: 15.0, 512: 100.0}
"""How many times as fast the reduced step is to be."""
POINTS = 25
STEPS = 20
"""Of the reduced descent that is measured: one alone finds the caches full of the full model's weights."""


def compare(vocabulary: int, rounds: int) -> dict[str, Any]:
    task = AssociativeRecall(num_blocks=BLOCKS, num_rare=vocabulary, num_slots=BLOCKS + 1)
    competition = Competition.of(task, causal=True)
    generator = torch.Generator().manual_seed(0)
    theta = random_point(competition.manifold, generator, std=0.1)
    model = set_weights(Disentangled(competition.manifold.config, generator=generator), competition.manifold, theta)
    parameters = dict(model.named_parameters())

    def reduced() -> None:
        descend(competition.loss, theta, learning_rate=RATE, steps=STEPS)

    def sampled() -> None:
        gradient, _ = expected_gradient(model, [task.sample(BATCH, generator=generator)])
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter -= 1e-6 * gradient[name]

    reduced()
    sampled()
    times: dict[str, list[float]] = {"reduced": [], "sampled": []}
    for _ in range(rounds):
        # `descend` evaluates the point that it ends at too.
        times["reduced"].append(seconds(reduced) / (STEPS + 1))
        times["sampled"].append(seconds(sampled))
    found = {name: statistics.median(values) for name, values in times.items()}
    return {
        "vocabulary": vocabulary,
        "coordinates": competition.manifold.dim,
        "weights": sum(parameter.numel() for parameter in parameters.values()),
        **{f"{name}_milliseconds": 1e3 * value for name, value in found.items()},
        "times": found["sampled"] / found["reduced"],
        "mark": MARKS.get(vocabulary),
    }


def follow() -> dict[str, Any]:
    task = AssociativeRecall(num_blocks=BLOCKS, num_rare=64, num_slots=BLOCKS + 1)
    competition = Competition.of(task, readout="direct")
    axis = torch.linspace(0.01, 1.0, POINTS, dtype=torch.float64)
    points = competition.point({})[None].repeat(POINTS**2, 1)
    alpha, beta = (competition.coordinates_of(circuit) for circuit in ("alpha", "beta"))
    points[:, alpha] = axis.repeat_interleave(POINTS)[:, None]
    points[:, beta] = axis.repeat(POINTS)[:, None]
    frozen = [index for index in range(competition.manifold.dim) if index not in {*alpha, *beta}]
    found = None

    def work() -> None:
        nonlocal found
        found = flow(competition.loss, points, until_loss=0.5, longest=1e6, frozen=frozen)

    spent = seconds(work)
    assert found is not None
    return {"points": POINTS**2, "seconds": spent, "steps": len(found.times), "reached": int((found.losses[-1] <= 0.5).sum())}


def render(result: dict[str, Any]) -> str:
    lines = [
        "| vocabulary | weights | coordinates | reduced step, ms | sampled step of 256, ms | times as fast |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in result["steps"]:
        mark = f" (mark {row['mark']:.0f})" if row["mark"] else ""
        lines.append(
            f"| {row['vocabulary']} | {row['weights']} | {row['coordinates']} | {row['reduced_milliseconds']:.2f} | "
            f"{row['sampled_milliseconds']:.1f} | {row['times']:.1f}{mark} |"
        )
    followed, machine = result["flow"], result["machine"]
    return "\n".join(
        [
            f"Recall of {BLOCKS} pairs, two layers, causal, trained readout; one thread, CPU time, median of "
            f"{result['rounds']} rounds.",
            "",
            *lines,
            "",
            f"{followed['points']} initial conditions of the induction circuit followed at once until the loss is .5: "
            f"{followed['seconds']:.1f} CPU s in {followed['steps']} steps; {followed['reached']} get there.",
            "",
            f"Measured on {machine['cpu']}, {machine['num_usable_cores']} cores, torch {machine['torch']}.",
            "",
        ]
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two vocabularies, few rounds")
    parser.add_argument("--rounds", type=int, help="how often each is measured")
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    rounds = options.rounds or (3 if options.quick else 9)
    facts = environment_facts()
    result = {
        "schema_version": 1,
        "benchmark": "manifold",
        "rounds": rounds,
        "steps": [compare(vocabulary, rounds) for vocabulary in (VOCABULARIES[:2] if options.quick else VOCABULARIES)],
        "flow": follow(),
        "machine": {"cpu": facts["cpu"], "num_usable_cores": facts["num_usable_cores"], "torch": torch.__version__},
    }
    print(render(result))
    if options.out is not None:
        write_json(options.out, result)
        write_text(options.out.with_suffix(".md"), render(result))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
