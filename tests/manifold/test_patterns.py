"""Induction by attention: a circuit written by hand attends as it must, and what is drawn is repeated."""

import pytest
import torch

from invariscope.errors import ConfigError
from invariscope.manifold import induction_patterns
from invariscope.manifold.patterns import repeated_tokens
from invariscope.models import Transformer
from manifold.induction_models import induction_model, seeded
from tiny_language_models import tiny_model


def test_sequences_are_repeated():
    rows = repeated_tokens(torch.tensor([4, 9]), num_sequences=3, period=5, generator=seeded(0))
    assert rows.shape == (3, 10)
    assert torch.equal(rows[:, :5], rows[:, 5:])
    assert set(rows.unique().tolist()) == {4, 9}


def test_the_heads_of_the_circuit_attend_as_they_must():
    model = induction_model(previous=40.0, match=80.0)
    found = induction_patterns(model, torch.arange(7), num_sequences=20, period=4, generator=seeded(1))
    rows = repeated_tokens(torch.arange(7), num_sequences=20, period=4, generator=seeded(1))
    distinct = [len(set(row.tolist())) == 4 for row in rows]
    assert found.heads == ((0, 0), (1, 0))
    assert float(found.previous[:, 0].min()) > 0.99
    # The first place sees itself alone, so that its token stands as if it came after itself: half of one query in four.
    assert found.induction[distinct, 1].tolist() == pytest.approx([7 / 8] * sum(distinct), abs=1e-3)
    assert sum(distinct) > 3
    assert float(found.induction[:, 0].max()) < 0.01
    assert found.even == pytest.approx((1 / 5 + 1 / 6 + 1 / 7 + 1 / 8) / 4)


def test_heads_that_do_not_tell_tokens_apart_attend_evenly():
    model = induction_model(previous=0.0, match=0.0)
    found = induction_patterns(model, torch.arange(7), num_sequences=2, period=4, generator=seeded(1))
    assert torch.allclose(found.induction, torch.full((2, 2), found.even, dtype=torch.float64))


def test_language_models_attend_as_transformers_says():
    model = tiny_model("llama-grouped", attention="eager")
    found = induction_patterns(model, torch.arange(1, 50), num_sequences=5, period=6, generator=seeded(2))
    rows = repeated_tokens(torch.arange(1, 50), num_sequences=5, period=6, generator=seeded(2))
    with torch.no_grad():
        pattern = torch.cat(model(rows, output_attentions=True).attentions, 1).double()
    expected = torch.stack([pattern[:, :, i, i - 5] for i in range(6, 12)]).mean(0)
    assert torch.allclose(found.induction, expected, atol=1e-6)
    assert torch.allclose(found.previous, pattern.diagonal(-1, 2, 3).mean(2), atol=1e-6)
    assert found.heads[4] == (1, 0)


def test_what_cannot_be_is_said():
    model = induction_model()
    assert isinstance(model, Transformer)
    with pytest.raises(ConfigError, match="8 sequences of 1 tokens repeated, drawn from 7; expected a sequence of two tokens"):
        induction_patterns(model, torch.arange(7), period=1, generator=seeded(0))
    with pytest.raises(ConfigError, match="expected 'eager', the only one that returns attention weights"):
        induction_patterns(tiny_model("llama"), torch.arange(7), period=3, generator=seeded(0))
