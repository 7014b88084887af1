"""Theorems 2 and 3 from exact gradients, the surrogate, where burstiness hurts, and what is refused."""

import itertools

import pytest

from invariscope.errors import ConfigError
from invariscope.manifold import Competition, circuit_gradients, emergence_of_recall, relevance
from invariscope.tasks.blocks import AssociativeRecall


def recall(rare=1.0, fresh=0.0, blocks=4, **changes):
    fields = {"num_rare": 64, "num_common": 16, "num_slots": blocks + 1} | changes
    return AssociativeRecall(num_blocks=blocks, rare_share=rare, fresh_share=fresh, **fields)


def test_with_memory_the_gradient_is_multiplied_by_f():
    at = {"alpha": 0.5, "beta": 0.5, "gamma": 0.5, "delta": 12.0}
    base = circuit_gradients(Competition.of(recall()), at)
    for rare, fresh in itertools.product((0.05, 0.2, 0.5), (0.0, 0.3)):
        found = circuit_gradients(Competition.of(recall(rare, fresh)), at)
        for circuit in ("alpha", "beta"):
            assert found[circuit] / base[circuit] == pytest.approx(relevance(rare, fresh), rel=0.05)
        assert found["gamma"] / base["gamma"] == pytest.approx(relevance(rare, fresh), rel=0.2)
    # Without memory it is not.
    unlearnt = circuit_gradients(Competition.of(recall(0.05)), at | {"delta": 0.0})
    assert unlearnt["alpha"] / base["alpha"] > 0.5


def test_the_surrogate_gives_f_to_one_percent():
    at = {"alpha": 0.5, "beta": 0.5, "surrogate": 12.0}
    base = circuit_gradients(Competition.of(recall(), readout="direct"), at)
    found = circuit_gradients(Competition.of(recall(0.1, 0.2), readout="direct"), at)
    assert found["alpha"] / base["alpha"] == pytest.approx(relevance(0.1, 0.2), rel=0.01)
    times = [rare * emergence_of_recall(recall(rare), {"alpha": 0.1, "beta": 0.1, "surrogate": 8.0}) for rare in (1.0, 0.1, 0.01)]
    assert max(times) / min(times) < 1.05


def test_copies_strengthen_the_circuit_and_then_hurt():
    at = {"alpha": 0.1, "beta": 0.1, "gamma": 0.1}
    tasks = {copies: recall(blocks=12, num_rare=300, num_common=0, burstiness=copies) for copies in (1, 2, 3, 4)}
    found = {copies: circuit_gradients(Competition.of(task), at) for copies, task in tasks.items()}
    for copies, wanted in ((2, 1.9), (3, 2.5), (4, 3.1)):
        for circuit in ("alpha", "beta"):
            assert found[copies][circuit] / found[1][circuit] == pytest.approx(wanted, rel=0.1)
        assert found[copies]["gamma"] / found[1]["gamma"] == pytest.approx(copies, rel=0.1)
    pulls = [
        circuit_gradients(Competition.of(recall(blocks=16, num_rare=300, num_common=0, burstiness=copies)), at)["alpha"]
        for copies in (1, 2, 4, 8)
    ]
    assert [pull / pulls[0] for pull in pulls[1:]] == pytest.approx([1.89, 3.46, 5.53], rel=0.1)
    times = [
        emergence_of_recall(recall(blocks=8, num_common=0, burstiness=copies), {"alpha": 0.1, "beta": 0.1}, causal=True)
        for copies in (1, 2, 5)
    ]
    assert times[1] < times[0] < times[2]


def test_what_there_is_not_is_refused():
    with pytest.raises(ConfigError, match="delta in a model with readout 'trained' and 0 common pairs"):
        Competition.of(recall(num_common=0)).point({"delta": 1.0})
    with pytest.raises(ConfigError, match="placement = 'ring'; expected slots"):
        Competition.of(recall(placement="ring", num_slots=None))
    assert set(circuit_gradients(Competition.of(recall(num_common=0), readout="direct"), {"alpha": 1.0})) == {"alpha", "beta"}
