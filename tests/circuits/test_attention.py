"""The routing of a model that routes is perfect, that of one that does not is at chance, and chance is what it is said to be."""

import math

import pytest
import torch

from circuits.hand_built import PAPER, SMALL, circuit, generator, tokens_of, unknowing
from invariscope.circuits import attention_maps, attention_routing
from invariscope.errors import ConfigError, ReiterableError, ShapeError, TooFewSamplesError
from invariscope.tasks import AssignAdd


def routing(model, task, pool="train", num=300):
    return attention_routing(model, task, [task.sample(num, generator=generator(), pool=pool)], generator=generator())


SHARES = ("attn1_equal_to_operands", "attn2_equal_to_values", "attn2_equal_among_numbers", "number_to_own_variable")


@pytest.mark.parametrize("task", [SMALL, PAPER])
def test_the_circuit_routes(task):
    found = routing(circuit(task), task)
    for name in SHARES:
        share = getattr(found, name)
        assert share.overall.value == 1.0, name
        assert share.overall.chance < 0.6, name
        assert all(kind is None or kind.value == 1.0 for kind in share.by_num_variables), name
    assert found.attn2_equal_among_numbers.by_num_variables[0] is None
    assert found.number_to_own_weight.value == pytest.approx(1.0, abs=1e-6)
    assert found.number_to_other_weight.value == pytest.approx(0.0, abs=1e-6)


def test_chance_is_counted():
    found = routing(unknowing(), SMALL)
    assert found.attn1_equal_to_operands.overall.chance == pytest.approx(1 / math.comb(SMALL.sequence_length, 2))
    # Three assigned numbers, of which one or two are meant.
    assert found.attn2_equal_among_numbers.overall.chance == pytest.approx(1 / 3)
    # The second and the third number see two and three variables.
    assert found.number_to_own_variable.overall.chance == pytest.approx((1 / 2 + 1 / 3) / 2)


def test_random_attention_is_at_chance():
    # Each of many untrained models ranks tokens in an order of its own.
    found = [routing(unknowing(seed=seed, width=32), SMALL, num=100) for seed in range(30)]
    own = sum(f.number_to_own_variable.overall.value for f in found) / 30
    among = sum(f.attn2_equal_among_numbers.overall.value for f in found) / 30
    assert own == pytest.approx(0.42, abs=0.08)
    assert among == pytest.approx(1 / 3, abs=0.06)
    assert sum(f.attn1_equal_to_operands.overall.value for f in found) / 30 < 0.05


def test_what_is_attended_most_counts_not_how_much():
    weak = circuit()
    with torch.no_grad():
        # Scores of layer 1 shrink to less than a nat: order stays, weights are nearly even.
        weak.blocks[0].attention.query_key_value.weight[: weak.config.width].mul_(0.02)
    found = routing(weak, SMALL)
    assert found.number_to_own_variable.overall.value == 1.0
    assert found.attn1_equal_to_operands.overall.value == 1.0
    assert 0.15 < found.number_to_own_weight.value < 0.5


def test_a_circuit_that_looks_one_place_too_early_is_wrong():
    wrong = circuit()
    with torch.no_grad():
        place = slice(SMALL.vocab_size, SMALL.vocab_size + SMALL.sequence_length)
        queries = wrong.blocks[0].attention.query_key_value.weight[: wrong.config.width]
        queries[place, place] = queries[place, place].roll(-1, 0)
    found = routing(wrong, SMALL)
    assert found.number_to_own_variable.overall.value < 0.9
    assert found.attn1_equal_to_operands.overall.value == 0.0


def test_kinds_are_split():
    found = routing(circuit(), SMALL, pool="1var-seen")
    zero, one, two = found.attn1_equal_to_operands.by_num_variables
    assert (zero, two) == (None, None)
    assert one == found.attn1_equal_to_operands.overall or one.value == 1.0


def test_maps_are_whole_patterns():
    model, tokens = unknowing(num_heads=2), tokens_of(SMALL, "train", 5)
    found = attention_maps(model, SMALL, tokens)
    assert found.first.shape == found.second.shape == (5, 2, SMALL.sequence_length, SMALL.sequence_length)
    assert torch.allclose(found.second.sum(-1), torch.ones(()), atol=1e-5)
    assert not bool(found.first.triu(1).any())
    drawn = attention_maps(circuit(), SMALL, tokens).first[0, 0, -1]
    assert drawn[list(SMALL.operand_positions)].tolist() == pytest.approx([0.5, 0.5], abs=1e-5)


def test_what_cannot_be_scored_is_refused():
    batch = SMALL.sample(50, generator=generator())
    with pytest.raises(ConfigError, match=r"a model of \[2, 2\] heads; expected one head a layer"):
        attention_routing(unknowing(num_heads=2), SMALL, [batch], generator=generator())
    with pytest.raises(ReiterableError):
        attention_routing(unknowing(), SMALL, iter([batch]), generator=generator())
    with pytest.raises(TooFewSamplesError, match="sums without a variable; expected some with one"):
        routing(unknowing(), SMALL, pool="0var-seen")
    one = SMALL.sample(1, generator=generator(), pool="1var-seen")
    with pytest.raises(TooFewSamplesError, match="sequences of a single sum"):
        attention_routing(unknowing(), SMALL, [one], generator=generator())
    lone = AssignAdd(modulus=7, num_variables=2, min_assignments=1, max_assignments=1, forbidden=(), mixture=(1, 1, 0))
    with pytest.raises(TooFewSamplesError, match="no assigned number sees two variables"):
        routing(unknowing(lone), lone, pool="1var-seen")
    with pytest.raises(ShapeError):
        attention_maps(unknowing(), SMALL, torch.zeros(2, 3, dtype=torch.long))
