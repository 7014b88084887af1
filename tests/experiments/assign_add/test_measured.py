"""How several seeds become one number."""

import dataclasses

import pytest

from experiments.assign_add.tiny_study import STUDY, frozen_arms, ideal, sure
from invariscope.experiments.assign_add.measured import Evidence, measure_frozen, measure_leak, measure_pools, of_most
from invariscope.storage.claims import Mark

MARK = Mark(kind="at_most", target=0.1)


def evidence(seeds, arms=()):
    return Evidence(config=STUDY, seeds=tuple(seeds), independence=tuple(arms))


@pytest.mark.parametrize(
    ("values", "larger", "expected"),
    [
        ((0.3,), True, 0.3),
        ((0.9, 0.1), True, 0.1),
        ((5, 1, 4, 2, 3), True, 2),
        ((5, 1, 4, 2, 3), False, 4),
        (tuple(range(10)), True, 2),
    ],
)
def test_four_seeds_in_five_reach_it(values, larger, expected):
    assert of_most([sure(value) for value in values], larger_is_better=larger).value == expected


def test_the_worst_pool_of_a_kind_counts():
    found = ideal(0)
    lowered = tuple(dataclasses.replace(one, trained=sure(0.5)) if one.pool == "2var-held" else one for one in found.accuracies)
    numbers = {
        kind: measure_pools(evidence([dataclasses.replace(found, accuracies=lowered)]), kind, MARK).value
        for kind in ("held", "seen-bad", "held-bad")
    }
    assert numbers == {"held": 0.5, "seen-bad": 0.999, "held-bad": 0.999}


def test_the_leak_is_a_difference_with_the_interval_of_both():
    found = measure_leak(evidence([ideal(0)]))
    assert found is not None
    assert found.value == pytest.approx(0.029)
    assert "0.9990 and 0.9700" in found.note
    unordered = dataclasses.replace(STUDY, task=dataclasses.replace(STUDY.task, split="unordered"))
    assert measure_leak(Evidence(config=unordered, seeds=(), independence=())) is None


def test_a_training_that_never_gets_there_counts_twice_its_length():
    found = measure_frozen(
        evidence([ideal(0)], frozen_arms([0], addition=None)), "addition", "nothing", "untrained addition", None
    )
    assert found is not None
    assert found.value == 200 / 10
    assert "never against 10" in found.note
