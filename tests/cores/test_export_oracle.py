"""The recipes for other tools, run by those tools: `make oracle`."""

from __future__ import annotations

import re
import runpy

import pytest
import torch
import transformers

from cores.hand_made import random_core
from invariscope.cores.export import RECIPES_NAME, export_steering
from invariscope.sites import edit_site
from tiny_language_models import save_tiny_folder

pytestmark = pytest.mark.oracle

LAYER, PROMPT = 1, "the old key and the new lamp"


@pytest.fixture(params=["llama-grouped", "gemma3"])
def folder(request, tmp_path):
    return save_tiny_folder(tmp_path / "model", family=request.param)


@pytest.fixture
def core():
    return random_core(32, 2)


@pytest.fixture
def tokenizer(folder):
    return transformers.AutoTokenizer.from_pretrained(folder)


def wanted(folder, core, ids) -> torch.Tensor:
    """What the plain model says with the core flipped, which must not be what it says anyway."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad():
        plain = model(ids).logits
        with edit_site(model, f"blocks.{LAYER}.resid_post", core.flip, positions="all"):
            flipped = model(ids).logits
    assert not torch.allclose(plain, flipped, atol=0.1)
    return flipped


def run_recipe(heading: str, core, tmp_path, monkeypatch, **given) -> torch.Tensor:
    """The logits that the recipe leaves behind, run from a file as its text says."""
    steering = export_steering(core, tmp_path / "steering", layer=LAYER)
    text = (steering / RECIPES_NAME).read_text("utf-8")
    first, recipe = (re.search(r"```python\n(.*?)```", part, re.DOTALL)[1] for part in (text, text.split(f"## {heading}\n")[1]))
    script = tmp_path / "recipe.py"
    script.write_text(first + recipe)
    monkeypatch.chdir(steering)
    return runpy.run_path(str(script), init_globals=given)["logits"].detach()


def test_transformer_lens_does_what_the_core_does(folder, core, tokenizer, tmp_path, monkeypatch):
    from transformer_lens.model_bridge import TransformerBridge

    model = TransformerBridge.boot_transformers(str(folder))
    tokens = tokenizer(PROMPT, return_tensors="pt")["input_ids"]
    found = run_recipe("TransformerLens", core, tmp_path, monkeypatch, model=model, tokens=tokens)
    assert found == pytest.approx(wanted(folder, core, tokens), abs=1e-3)


def test_nnsight_does_what_the_core_does(folder, core, tokenizer, tmp_path, monkeypatch):
    from nnsight import TransformersModel

    model = TransformersModel(str(folder), task="text-generation", tokenizer=tokenizer)
    tokens = tokenizer(PROMPT, return_tensors="pt")["input_ids"]
    found = run_recipe("nnsight", core, tmp_path, monkeypatch, model=model, prompt=PROMPT)
    assert found == pytest.approx(wanted(folder, core, tokens), abs=1e-3)
