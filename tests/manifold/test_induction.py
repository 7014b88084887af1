"""Coordinates of ordinary transformers: exact on weights written by hand, nothing on untrained ones, nulls as drawn."""

from __future__ import annotations

import pytest
import torch

from invariscope.batch import Batch
from invariscope.errors import ConfigError, ShapeError, TooFewSamplesError
from invariscope.manifold import induction_coordinates
from invariscope.models import Transformer, TransformerConfig
from manifold.induction_models import (
    MATCH,
    MEMORY,
    OUTPUT,
    PLACES,
    PREVIOUS,
    RELATION,
    VOCABULARY,
    deep,
    induction_model,
    seeded,
)
from tiny_language_models import tiny_model


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
