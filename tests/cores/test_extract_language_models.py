"""Extraction from language models: narrow types, parts in processes of their own, and a module that is no causal model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from invariscope.batch import Batch, text_inputs
from invariscope.cores import Moments, collect_moments, validate_core
from invariscope.cores.metrics import accuracy, auc
from invariscope.errors import ShapeError
from invariscope.numerics.subspaces import principal_angles
from invariscope.sites import margin
from tiny_language_models import tiny_model

SITE = "blocks.1.resid_post"
MARGIN = margin(positive=[3], negative=[4])
WORKER = """
import sys
from pathlib import Path
from cores.test_extract_language_models import moments_of, prompts
moments_of("llama", prompts()[int(sys.argv[1]) :: 2]).save(Path(sys.argv[2]))
"""


def prompts(num: int = 24, batch_size: int = 4) -> list[Batch]:
    drawn = torch.Generator().manual_seed(0)
    rows = [torch.randint(1, 50, (5 + i % 4,), generator=drawn).tolist() for i in range(num)]
    return [Batch(inputs=text_inputs(rows[start : start + batch_size])) for start in range(0, num, batch_size)]


def moments_of(family: str, batches: list[Batch], dtype: torch.dtype = torch.float32) -> Moments:
    model = tiny_model(family).to(dtype)
    return collect_moments(model, batches, sites=[SITE], objective=MARGIN, positions="last")[SITE]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 0.05), (torch.float16, 0.01)])
@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_models_of_narrow_types_give_factors_in_float64(family, dtype, tolerance):
    narrow, wide = moments_of(family, prompts(), dtype), moments_of(family, prompts(), torch.float64)
    core = narrow.core(1)
    assert core.read.dtype == core.write.dtype == narrow.singular_values.dtype == torch.float64
    assert float((core.read.T @ core.write - 1).abs().max()) < 1e-12
    assert narrow.singular_values[0] == pytest.approx(float(wide.singular_values[0]), rel=tolerance)
    assert float(principal_angles(core.write, wide.core(1).write).max()) < 4 * tolerance


def test_parts_from_two_processes_are_one_pass(tmp_path: Path):
    files = [tmp_path / f"{part}.safetensors" for part in (0, 1)]
    tests = Path(__file__).parents[1]
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER, str(part), str(file)], cwd=tests, stderr=subprocess.PIPE, text=True)
        for part, file in enumerate(files)
    ]
    for worker in workers:
        _, said = worker.communicate(timeout=300)
        assert worker.returncode == 0, said
    merged, whole = Moments.merge([Moments.load(file) for file in files]), moments_of("llama", prompts())
    assert merged.num_samples == whole.num_samples == 24
    assert torch.allclose(merged.mean, whole.mean, atol=1e-10, rtol=0)
    assert torch.allclose(merged.singular_values, whole.singular_values, atol=1e-10, rtol=0)
    assert torch.allclose(merged.core(1).read, whole.core(1).read, atol=1e-8, rtol=0)
    assert merged.provenance == whole.provenance


def encoder_and_batches() -> tuple[torch.nn.Module, list[Batch]]:
    """A random sentence encoder under a linear classifier; the label is whether the first word is an even token."""
    import transformers

    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 50}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.BertForSequenceClassification(transformers.BertConfig(**shape, num_labels=2))
    drawn = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.3, generator=drawn)
    ids = torch.randint(1, 50, (64, 7), generator=drawn)
    batches = [Batch(inputs={"input_ids": part, "attention_mask": torch.ones_like(part)}) for part in ids.split(16)]
    with torch.no_grad():
        answers = [model.eval()(**batch.inputs).logits for batch in batches]
    above = torch.cat([found[:, 1] - found[:, 0] for found in answers]).median()
    labels = [(found[:, 1] - found[:, 0] > above).long() for found in answers]
    return model, [
        Batch(inputs=batch.inputs, targets=part[:, None].expand(-1, 7), labels=part)
        for batch, part in zip(batches, labels, strict=True)
    ]


def everywhere(output) -> Tensor:
    """One answer a text, given at each of its seven tokens, since it may be read at any."""
    return output.logits[:, None].expand(-1, 7, -1)


def test_an_encoder_is_named_by_its_submodules():
    model, batches = encoder_and_batches()
    answer = margin(positive=[1], negative=[0])
    site = "module:bert.encoder.layer.1"
    moments = collect_moments(model, batches, sites=[site], objective=answer, positions=0, logits_of=everywhere)[site]
    core = moments.core(1)
    effects = validate_core(
        core,
        model,
        batches,
        metrics=(accuracy(), auc(answer)),
        controls=moments.controls(1, generator=torch.Generator().manual_seed(0), num_random=2),
        logits_of=everywhere,
    )
    assert effects["model", "full", "auc"].value == 1
    # The classifier reads the first token's last state through a tanh: keep and flip follow from one direction of it.
    assert effects["core", "keep", "auc"].value > 0.9
    assert effects["core", "flip", "auc"].value < 0.2
    assert effects["random", "keep", "auc"].value < effects["core", "keep", "auc"].value


def test_a_core_of_another_width_is_refused_by_its_numbers():
    core = moments_of("llama", prompts(8)).core(1)
    embedding, head = torch.nn.Embedding.from_pretrained(torch.eye(50, 16)), torch.nn.utils.skip_init(torch.nn.Linear, 16, 50)
    torch.nn.init.ones_(head.weight)
    narrow = torch.nn.Sequential(embedding, head)
    texts = [Batch(inputs={"input": torch.ones(4, 3, dtype=torch.long)}, labels=torch.tensor([0, 1, 0, 1]))]
    with pytest.raises(ShapeError, match=r"expected \[\.\.\., 32\]; read them at the core's own site 'blocks.1.resid_post'"):
        validate_core(core, narrow, texts, metrics=(auc(MARGIN),), site="module:0", force=True)
