"""The short forward is the plain one at the last token, with every hook."""

import pytest
import torch

from circuits.hand_built import SMALL, generator, tokens_of, unknowing
from invariscope.batch import Batch
from invariscope.circuits.forward import answer_logits, answers, merged, read_last
from invariscope.errors import ReiterableError, ShapeError, TooFewSamplesError
from invariscope.sites import read_sites


def test_logits_and_sites_are_those_of_the_plain_forward():
    model, tokens = unknowing(mlp_width=(8, 24), num_heads=2), tokens_of(SMALL, "train", 8)
    sites = [name for name in model.site_names() if name != "embed"]
    with torch.no_grad(), read_sites(model, sites, positions="last") as seen:
        plain = model(tokens)[:, -1]
    with torch.no_grad():
        assert torch.allclose(answer_logits(model, tokens), plain, atol=1e-6)
    found = read_last(model, tokens, sites)
    for site in sites:
        assert torch.allclose(found[site], seen[site], atol=1e-6), site
    assert torch.equal(answers(model, tokens), plain.argmax(1))


def test_chunks_do_not_matter(monkeypatch):
    model, tokens = unknowing(), tokens_of(SMALL, "train", 9)
    whole = read_last(model, tokens, ["blocks.1.mlp_pre"])["blocks.1.mlp_pre"]
    monkeypatch.setattr("invariscope.circuits.forward.CHUNK", 4)
    assert torch.allclose(read_last(model, tokens, ["blocks.1.mlp_pre"])["blocks.1.mlp_pre"], whole, atol=1e-6)


def test_the_model_is_left_as_it_was():
    model = unknowing().train()
    read_last(model, tokens_of(SMALL, "train", 2), ["blocks.1.mlp_pre"])
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())


def test_batches_become_one():
    a, b = (SMALL.sample(3, generator=generator(seed)) for seed in (0, 1))
    whole = merged([a, b])
    assert torch.equal(whole.inputs["tokens"], torch.cat([a.inputs["tokens"], b.inputs["tokens"]]))
    assert whole.targets is not None
    assert whole.targets.shape == (6, 1)


def test_what_is_no_batches_is_refused():
    batch = SMALL.sample(3, generator=generator())
    with pytest.raises(ReiterableError, match="can be read only once"):
        merged(iter([batch]))
    with pytest.raises(ReiterableError, match="one Batch where batches are read"):
        merged(batch)
    with pytest.raises(TooFewSamplesError, match="no batch"):
        merged([])
    with pytest.raises(ShapeError, match="a batch without targets, labels, groups; expected batches of AssignAdd"):
        merged([Batch(inputs=batch.inputs)])
