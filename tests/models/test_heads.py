"""Folded matrices are those that the model multiplies with."""

import pytest
import torch

from circuits.hand_built import SMALL, tokens_of, unknowing
from invariscope.errors import ConfigError
from invariscope.models import head_weights, query_key, value_output
from invariscope.models.heads import score_scale
from invariscope.sites import read_sites


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("head", [0, 1, 2])
def test_the_matrices_are_the_models_own(layer, head):
    model = unknowing(num_heads=3, head_width=5, width=12)
    sites = [f"blocks.{layer}.{name}" for name in ("resid_pre", "attn_pattern", "attn_heads")]
    tokens = tokens_of(SMALL, "train", 4)
    with torch.no_grad(), read_sites(model, sites) as seen:
        model(tokens)
    x = seen[sites[0]].view(4, -1, 12).double()
    scores = x @ query_key(model, layer, head) @ x.transpose(1, 2) / score_scale(model, layer)
    scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    pattern = seen[sites[1]].view(4, -1, 3, x.shape[1])[:, :, head].double()
    assert torch.allclose(scores.softmax(-1), pattern, atol=1e-6)
    heads = seen[sites[2]].view(4, -1, 3, 5)[:, :, head].double()
    moved = heads @ head_weights(model, layer, head).output
    assert torch.allclose(pattern @ x @ value_output(model, layer, head), moved, atol=1e-6)


def test_they_need_no_gradient_and_are_float64():
    found = query_key(unknowing(), 0)
    assert (found.requires_grad, found.dtype) == (False, torch.float64)


def test_which_head_must_be_said():
    model = unknowing(num_heads=2)
    with pytest.raises(ConfigError, match=r"layer 1, which has 2 heads; expected which head is meant; give head="):
        query_key(model, 1)
    with pytest.raises(ConfigError, match="head 2 of 2; expected from 0 to 1"):
        value_output(model, 0, 2)
    with pytest.raises(ConfigError, match="layer 2 of a model of 2"):
        value_output(model, 2)
