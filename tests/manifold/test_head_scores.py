"""Scores of heads are the sums that they are said to be, with loops, and their nulls are what drawing gives."""

from __future__ import annotations

import itertools

import pytest
import torch

from invariscope.errors import ShapeError
from invariscope.manifold import induction_coordinates
from invariscope.models import linear_parts
from invariscope.numerics.matching import match_table
from manifold.induction_models import deep, seeded
from tiny_language_models import tiny_model


def test_they_are_the_plain_sums():
    """The formulas as written, with loops, in a model of several heads of several widths with norms and biases."""
    model = deep(norm="pre", final_norm=True, attention_bias=True)
    generator = seeded(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.3)
    found = induction_coordinates(model)
    with torch.no_grad():
        parts = linear_parts(model)
    x, u = parts.tokens, parts.unembedding

    def head(index):
        layer, number = parts.heads[index]
        one = parts.layers[layer]
        moved = (x @ one.value[number] + one.value_bias[number]) @ one.output[number]
        return one, number, moved

    for i, j in itertools.product(range(6), range(6)):
        if parts.heads[i][0] >= parts.heads[j][0]:
            assert found.beta.value[i, j].isnan()
            continue
        _, _, moved = head(i)
        one, number, _ = head(j)
        queries = x @ one.query[number] + one.query_bias[number]
        keys = moved @ one.key[number] + one.key_bias[number]
        table = one.scale * queries @ keys.T
        assert float(found.beta.value[i, j]) == pytest.approx(float(table.diagonal().mean()))
        assert float(found.beta.null_mean[i, j]) == pytest.approx(float(table.mean()))
        shuffled = torch.stack([table[torch.arange(12), torch.randperm(12, generator=generator)].mean() for _ in range(4000)])
        assert float(found.beta.null_std[i, j]) == pytest.approx(float(shuffled.std()), rel=0.1)
    for j in range(6):
        _, _, moved = head(j)
        assert float(found.gamma.value[j]) == pytest.approx(float((moved @ u).diagonal().mean()))
        assert float(found.gamma.null_mean[j]) == pytest.approx(float((moved @ u).mean()))
        one, number, _ = head(j)
        q, k = (parts.positions @ m[number] + b[number] for m, b in ((one.query, one.query_bias), (one.key, one.key_bias)))
        assert float(found.alpha.value[j]) == pytest.approx(float((one.scale * q @ k.T).diagonal(-1).mean()))


def test_the_null_of_places_is_what_drawing_gives():
    model = deep()
    found = induction_coordinates(model)
    with torch.no_grad():
        one = linear_parts(model).layers[0]
        p = model.position_embedding.double()
    scores, generator = one.scale * (p @ one.query[0]) @ (p @ one.key[0]).T, seeded(3)
    drawn = []
    for _ in range(4000):
        seen = [int(torch.randint(place + 1, (), generator=generator)) for place in range(1, 8)]
        drawn.append(scores[torch.arange(1, 8), seen].mean())
    drawn = torch.stack(drawn)
    assert float(found.alpha.null_mean[0]) == pytest.approx(float(drawn.mean()), abs=4 * float(drawn.std()) / 4000**0.5)
    assert float(found.alpha.null_std[0]) == pytest.approx(float(drawn.std()), rel=0.1)


def test_places_that_look_back_can_be_chosen():
    model = deep()
    found = induction_coordinates(model, places=torch.tensor([1, 4]))
    each = [induction_coordinates(model, places=torch.tensor([place])) for place in (1, 4)]
    for name in ("value", "null_mean"):
        one, other = (getattr(single.alpha, name) for single in each)
        assert torch.allclose(getattr(found.alpha, name), (one + other) / 2)
    variance = sum(single.alpha.null_std.square() for single in each) / 4
    assert torch.allclose(found.alpha.null_std.square(), variance)
    with pytest.raises(ShapeError, match=r"places of shape \[1\] and type torch.int64; expected one or more from 1 to 7"):
        induction_coordinates(model, places=torch.tensor([8]))


def test_without_a_mask_later_places_are_in_the_null():
    masked, free = deep(), deep(causal=False)
    one = induction_coordinates(free, places=torch.tensor([1])).alpha
    other = induction_coordinates(masked, places=torch.tensor([1])).alpha
    assert torch.equal(one.value, other.value)
    assert not torch.allclose(one.null_mean, other.null_mean)


def test_heads_that_share_keys_and_values_are_as_if_they_did_not():
    model = tiny_model("llama-grouped")
    found = induction_coordinates(model)
    with torch.no_grad():
        parts = linear_parts(model)
    assert [one.shared for one in parts.layers] == [2, 2, 2]
    x, below, above = parts.tokens, parts.layers[0], parts.layers[2]
    for i, j in itertools.product(range(4), range(4)):
        keys = x @ below.value[i] @ below.output[i] @ above.key[j]
        table = above.scale * (x @ above.query[j]) @ keys.T
        assert float(found.beta.value[i, 8 + j]) == pytest.approx(float(table.diagonal().mean()), rel=1e-6)
        expected = match_table(table).null_std
        assert float(found.beta.null_std[i, 8 + j]) == pytest.approx(float(expected), rel=1e-6)


def test_a_rotary_model_has_the_mean_score_at_an_offset():
    model = tiny_model("llama-grouped")
    found = induction_coordinates(model, num_offsets=6)
    with torch.no_grad():
        parts = linear_parts(model)
    one, x = parts.layers[1], parts.tokens
    queries, keys = x @ one.query[2], x @ one.key[2]

    def mean_score(offset):
        return float((one.scale * parts.rotary.turn(queries, 9) @ parts.rotary.turn(keys, 9 - offset).T).mean())

    others = torch.tensor([mean_score(offset) for offset in (0, 2, 3, 4, 5)])
    assert float(found.alpha.value[6]) == pytest.approx(mean_score(1), rel=1e-5)
    assert float(found.alpha.null_mean[6]) == pytest.approx(float(others.mean()), rel=1e-4)
    assert float(found.alpha.null_std[6]) == pytest.approx(float(others.std()), rel=1e-4)
