"""Heads of language models attend as the models do, family by family; others are refused."""

from __future__ import annotations

import pytest
import torch

from invariscope.errors import ConfigError
from invariscope.models import linear_parts
from models.folded_heads import check_against_the_model
from tiny_language_models import FAMILIES, tiny_model

LINEAR = [name for name in FAMILIES if not name.startswith(("gemma", "qwen3"))]


@pytest.mark.parametrize("family", LINEAR)
def test_the_heads_of_a_language_model_attend_as_it_does(family):
    model = tiny_model(family, attention="eager")
    if family == "mistral":
        # Shorter than its window, beyond which scores are not looked at.
        model.config.sliding_window = 16
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.normal_(1.0 if "norm" in name or "ln_" in name else 0.0, 0.2, generator=generator)
        parts = linear_parts(model)
        check_against_the_model(parts, model, 1, norm=True, centred=family.startswith("gpt"))


@pytest.mark.parametrize("family", ["qwen3", "gemma2", "gemma3"])
def test_heads_with_norms_of_their_own_are_refused(family):
    with pytest.raises(ConfigError, match="whose heads have norms of their own; expected heads that are linear maps, as of gpt2"):
        linear_parts(tiny_model(family))
