"""A study of seconds, and its findings; the language model is a stand-in of two layers."""

from __future__ import annotations

import functools
import tempfile

import torch

from invariscope.experiments.imir_transformers.config import Config
from invariscope.experiments.imir_transformers.findings import LanguageFindings, TrainingFindings
from invariscope.experiments.imir_transformers.language import compare_heads
from invariscope.experiments.imir_transformers.measure import training_job
from invariscope.manifold import induction_coordinates, induction_patterns
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.tasks.blocks import AssociativeRecall
from invariscope.training import TrainConfig
from tiny_language_models import tiny_model

TINY = Config(
    seeds=(3, 4),
    rare_shares=(0.5, 0.25),
    task=AssociativeRecall(num_blocks=2, num_rare=6, num_common=3, placement="fixed"),
    width=16,
    train=TrainConfig(steps=20, learning_rate=1e-2, eval_every=0, checkpoint_every=10),
    num_sequences=32,
    language_model="",
)


@functools.cache
def trainings() -> tuple[TrainingFindings, ...]:
    """Measured once a process."""
    with tempfile.TemporaryDirectory() as folder:
        return tuple(
            from_json_record(
                TrainingFindings, training_job(config=to_json_record(TINY), folder=folder, rare_share=share, seed=seed)
            )
            for share in TINY.rare_shares
            for seed in TINY.seeds
        )


@functools.cache
def language() -> LanguageFindings:
    """Of a tiny random model."""
    model = tiny_model("llama-grouped", attention="eager")
    tokens = torch.arange(1, 50)
    generator = torch.Generator().manual_seed(0)
    patterns = induction_patterns(model, tokens, num_sequences=4, period=8, generator=generator)
    from invariscope.batch import Batch, text_inputs

    rows = torch.randint(1, 50, (4, 16), generator=generator)
    found = induction_coordinates(model, tokens=tokens, batches=[Batch(inputs=text_inputs(rows.tolist()))])
    return compare_heads(found, patterns, name="tiny", generator=generator, num_bootstrap=100)
