"""What the circuit writes can be read after it is written and not before."""

import pytest

from circuits.hand_built import PAPER, SMALL, circuit, generator, unknowing
from invariscope.circuits import binding_probes
from invariscope.errors import ConfigError, TooFewSamplesError
from invariscope.tasks import AssignAdd

TASK = AssignAdd(modulus=13, num_variables=4, num_pads=2)
"""With enough different sums."""


@pytest.fixture(scope="module", name="found")
def probes():
    batches = [TASK.sample(1500, generator=generator(), pool="2var-seen")]
    return binding_probes(circuit(TASK), TASK, batches, generator=generator(), num_permutations=2)


def test_a_number_knows_its_variable_after_layer_1(found):
    assert found.own_variable_after.score.value == 1.0
    assert found.own_variable_before.score.value < 0.35
    assert found.own_variable_before.score.chance == pytest.approx(0.25, abs=0.05)
    assert found.own_variable_after.null_high < 0.4


def test_equals_knows_the_numbers_after_layer_2(found):
    assert found.operands_after.score.value > 0.9
    assert found.operands_before.score.value < 0.1


def test_equals_knows_the_sum_after_the_mlp(found):
    assert found.sum_after.score.value > 0.95
    assert found.sum_before.score.value < 0.3
    assert found.sum_after.null_high < 0.3


def test_sums_of_numbers_are_left_out():
    batches = [
        TASK.sample(600, generator=generator(), pool="2var-seen"),
        TASK.sample(600, generator=generator(), pool="0var-seen"),
    ]
    a, b = (
        binding_probes(unknowing(TASK), TASK, part, generator=generator(), num_permutations=1) for part in (batches, batches[:1])
    )
    assert a.operands_after.score == b.operands_after.score


def test_the_papers_layout_is_read_too():
    task = AssignAdd(modulus=13, num_variables=4, min_assignments=2, layout="paper")
    batches = [task.sample(800, generator=generator(), pool="2var-seen")]
    found = binding_probes(circuit(task), task, batches, generator=generator(), num_permutations=1)
    assert found.own_variable_after.score.value == 1.0


def test_what_is_refused():
    few = [SMALL.sample(200, generator=generator(), pool="2var-seen")]
    with pytest.raises(TooFewSamplesError, match=r"different sums of 2 variables; expected at least 50"):
        binding_probes(circuit(), SMALL, few, generator=generator())
    with pytest.raises(ConfigError, match="token_embedding"):
        binding_probes(circuit(), PAPER, few, generator=generator())
