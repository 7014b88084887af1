"""Coordinates of ordinary transformers: exact on weights written by hand, nothing on untrained ones, nulls as drawn."""

from __future__ import annotations

import itertools

import pytest
import torch

from invariscope.batch import Batch
from invariscope.errors import ConfigError, ShapeError, TooFewSamplesError
from invariscope.manifold import induction_coordinates
from invariscope.models import Transformer, TransformerConfig
from invariscope.numerics.matching import match_table
from manifold.induction_models import MATCH, MEMORY, OUTPUT, PLACES, PREVIOUS, RELATION, VOCABULARY, induction_model
from tiny_language_models import tiny_model

DEEP = TransformerConfig(
    vocab_size=12, context_length=8, num_layers=3, width=16, num_heads=(2, 3, 1), head_width=(4, 8, 5), mlp_width=0
)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def deep(**fields) -> Transformer:
    import dataclasses

    return Transformer(dataclasses.replace(DEEP, embedding_std=1.0, **fields), generator=seeded(0))


def test_values_of_a_circuit_written_by_hand_are_those_that_were_written():
    found = induction_coordinates(induction_model(), RELATION)
    assert found.heads == ((0, 0), (1, 0))
    assert float(found.alpha.value[0]) == pytest.approx(PREVIOUS)
    assert float(found.beta.value[0, 1]) == pytest.approx(MATCH)
    assert float(found.gamma.value[1]) == pytest.approx(OUTPUT)
    assert float(found.delta.value) == pytest.approx(MEMORY)
    assert found.alpha.value[1] == 0
    assert found.beta.value.isnan().tolist() == [[True, False], [True, True]]


def test_nulls_are_what_is_known_of_them():
    found = induction_coordinates(induction_model(), RELATION)
    # Of a diagonal, shuffled partners get 1/n on the mean. Place i sees i + 1 places, and one of them is the one before.
    assert float(found.beta.null_mean[0, 1]) == pytest.approx(MATCH / VOCABULARY)
    assert float(found.gamma.null_mean[1]) == pytest.approx(OUTPUT / VOCABULARY)
    assert float(found.delta.null_mean) == pytest.approx(MEMORY / len(RELATION))
    chances = [1 / (place + 1) for place in range(1, PLACES)]
    assert float(found.alpha.null_mean[0]) == pytest.approx(PREVIOUS * sum(chances) / len(chances))
    variance = sum(chance * (1 - chance) for chance in chances)
    assert float(found.alpha.null_std[0]) == pytest.approx(PREVIOUS * variance**0.5 / len(chances))


def test_the_circuit_is_the_pair_that_was_written():
    found = induction_coordinates(induction_model(), RELATION)
    circuit = found.circuit()
    assert (circuit.previous, circuit.matching) == ((0, 0), (1, 0))
    assert (circuit.alpha, circuit.beta) == pytest.approx((float(found.alpha.excess[0]), float(found.beta.excess[0, 1])))
    assert str(circuit).startswith("heads 0.0 and 1.0: α 2.31 (+5.4 sd), β 4.29 (+6.0 sd), γ 3.43 (+6.0 sd)")
    assert found.circuit(least_z=100.0) is None
    assert float(found.matches()[0, 1]) == pytest.approx(circuit.alpha * circuit.beta)


@pytest.mark.parametrize("missing", ["previous", "match", "output"])
def test_without_one_of_the_three_there_is_no_circuit(missing):
    assert induction_coordinates(induction_model(**{missing: 0.0})).circuit() is None


def test_untrained_models_are_within_their_nulls():
    z = []
    for seed in range(20):
        config = TransformerConfig(vocab_size=40, context_length=16, num_layers=2, width=32, num_heads=2, mlp_width=0)
        found = induction_coordinates(Transformer(config, generator=seeded(seed)), torch.arange(40).view(20, 2))
        beta = found.beta.z[:2, 2:].flatten()
        z.append(torch.cat([found.alpha.z, beta, found.gamma.z, found.delta.z[None]]))
    z = torch.stack(z)
    assert z.abs().max() < 5
    assert abs(float(z.mean())) < 4 / z.numel() ** 0.5
    assert 0.7 < float(z.std()) < 1.5


def test_they_are_the_plain_sums():
    """The formulas as written, with loops, in a model of several heads of several widths with norms and biases."""
    model = deep(norm="pre", final_norm=True, attention_bias=True)
    generator = seeded(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.3)
    found = induction_coordinates(model)
    from invariscope.models import linear_parts

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
    from invariscope.models import linear_parts

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
    from invariscope.models import linear_parts

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
    from invariscope.models import linear_parts

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


def test_a_mean_of_what_is_read_stands_in_for_embeddings():
    model = induction_model()
    tokens = torch.randint(VOCABULARY, (400, PLACES), generator=seeded(0))
    weights, read = (induction_coordinates(model, batches=batches) for batches in (None, [Batch(inputs={"tokens": tokens})]))
    # The mean token scores nothing with places here, so that places are all that α sees.
    assert float(read.alpha_read.value[0]) == pytest.approx(float(weights.alpha.value[0]))
    assert weights.alpha_read is None
    assert torch.equal(read.alpha.value, weights.alpha.value)
    assert read.previous is read.alpha_read
    assert weights.previous is weights.alpha
    assert torch.equal(read.beta.value.nan_to_num(), weights.beta.value.nan_to_num())
    rotary = tiny_model("llama-grouped")
    rows = torch.randint(1, 50, (4, 12), generator=seeded(1))
    found = induction_coordinates(rotary, batches=[Batch(inputs={"input_ids": rows})])
    plain = induction_coordinates(rotary)
    assert not torch.allclose(found.alpha_read.value, plain.alpha.value)
    assert torch.equal(found.gamma.value, plain.gamma.value)


def test_tokens_can_be_chosen():
    model = deep()
    some = torch.tensor([3, 1, 7, 5])
    found, other = induction_coordinates(model, tokens=some), induction_coordinates(model, tokens=some.flip(0))
    assert torch.allclose(found.beta.z.nan_to_num(), other.beta.z.nan_to_num())
    assert found.num_tokens == 4
    assert not torch.allclose(found.gamma.value, induction_coordinates(model).gamma.value)


def test_without_places_there_is_no_alpha_and_no_circuit():
    found = induction_coordinates(deep(positions="none"))
    assert found.alpha is None
    assert found.circuit() is None
    assert found.rows()[0][1] == ""
    with pytest.raises(ConfigError, match="a model without embeddings of positions; expected something that tells places apart"):
        found.matches()


def test_a_table_says_each_head():
    found = induction_coordinates(induction_model(), RELATION)
    assert found.rows() == [
        ("0.0", "3 (+5.4)", "", "0 (+0.0)"),
        ("1.0", "0 (+0.0)", "5 (+6.0) with 0.0", "4 (+6.0)"),
    ]
    assert "δ memory 2 (+" in found._repr_html_()
    assert "over 7 tokens" in found._repr_html_()


def test_what_does_not_fit_is_said():
    few = Transformer(TransformerConfig(vocab_size=5, num_outputs=3, context_length=4, width=8, num_heads=1), generator=seeded(0))
    with pytest.raises(ConfigError, match="a model of 5 tokens and 3 outputs; expected tokens as outputs"):
        induction_coordinates(few)
    with pytest.raises(ShapeError, match=r"relation of shape \[3\] and type torch.int64; expected token ids \[m, 2\] below 7"):
        induction_coordinates(induction_model(), torch.arange(3))
    with pytest.raises(ShapeError, match=r"tokens of shape \[0\]"):
        induction_coordinates(induction_model(), tokens=torch.zeros(0, dtype=torch.long))
    with pytest.raises(ConfigError, match="places of a rotary model; expected none: it tells offsets apart"):
        induction_coordinates(tiny_model("llama"), places=torch.tensor([1]))
    with pytest.raises(ConfigError, match="num_offsets = 3; expected 4 or more"):
        induction_coordinates(tiny_model("llama"), num_offsets=3)
    with pytest.raises(ShapeError, match=r"tokens of shape \[2\] and type torch.int64; expected token ids \[n\] below 7"):
        induction_coordinates(induction_model(), tokens=torch.tensor([0, 7]))
    with pytest.raises(TooFewSamplesError, match="1 pairs to be shuffled"):
        induction_coordinates(induction_model(), RELATION[:1])
    with pytest.raises(ConfigError, match="padded or of another length; expected sequences of one length"):
        induction_coordinates(
            induction_model(), batches=[Batch(inputs={"tokens": torch.zeros(1, length, dtype=torch.long)}) for length in (4, 5)]
        )
