"""Does the core grow with the model? The causal rank of one chain's core over widths, heads and layers, energy rules beside it.

The paper remarks that a core need not grow with its model. Small models are slower to learn, so all train for as long as the
study does; a model that has not learnt the chain says nothing about its core, and its divergence is printed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from invariscope.cores import by_energy, collect_moments, cross_entropy, divergence, rank_curve
from invariscope.cores.measure import measure_edits
from invariscope.cores.metrics import estimate_metric
from invariscope.experiments.markov_cores.analyse import TOLERANCE
from invariscope.experiments.markov_cores.config import Config
from invariscope.experiments.markov_cores.findings import SizeFindings
from invariscope.experiments.markov_cores.subjects import BATCH
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.tasks.task import SampledBatches, derive_seed
from invariscope.training import train

__all__ = ["SIZES_ARM", "size_job"]

SIZES_ARM = "twelve"
"""The arm whose chain and first seed the sizes are trained on."""


def size_job(*, config: dict[str, Any], folder: str, width: int, num_heads: int, num_layers: int) -> Any:
    """Train and measure one size, as a job of JSON values (:mod:`invariscope.parallel`)."""
    study = from_json_record(Config, config)
    task, seed = study.task(SIZES_ARM), study.arms()[SIZES_ARM].seeds[0]
    runs = Path(folder) / "runs" / f"size-{width}-{num_heads}-{num_layers}"
    model_config = study.sized_model(SIZES_ARM, width, num_heads, num_layers)
    [run] = train(task, model_config, study.train, seeds=[seed], folder=runs, engine="inline", progress=False)
    site = f"blocks.{num_layers - 1}.resid_mid"

    def batches(num: int, purpose: str, pool: str) -> SampledBatches:
        return SampledBatches(task, num, batch_size=BATCH, seed=derive_seed(SIZES_ARM, purpose), pool=pool)

    heldout = batches(study.evaluate_sequences, "heldout", "heldout")
    extraction = batches(study.extract_sequences, "extraction", "train")
    moments = collect_moments(run.model, extraction, sites=[site], positions="all")[site]
    curve = rank_curve(moments, run.model, heldout, metric=cross_entropy(exact=True), positions="all")
    metric = divergence()
    values, rows = measure_edits(run.model, heldout, {"full": None}, [metric], site=site, positions="all", outputs_at="all")
    generator = torch.Generator().manual_seed(derive_seed("sizes", width, num_heads, num_layers))
    return to_json_record(
        SizeFindings(
            width=width,
            num_heads=num_heads,
            num_layers=num_layers,
            sufficient=curve.sufficient(TOLERANCE),
            necessary=curve.necessary(TOLERANCE),
            scanned=len(curve.ranks),
            energy_99=moments.core(by_energy(0.99), "adjoint").rank,
            energy_999=moments.core(by_energy(0.999), "adjoint").rank,
            divergence=estimate_metric(metric, values["full", metric.name], rows, generator),
        )
    )
