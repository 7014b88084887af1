"""The circuit that other tests stand on solves the task."""

import pytest
import torch

from circuits.hand_built import PAPER, SMALL, circuit, generator, unknowing


@pytest.mark.parametrize("task", [SMALL, PAPER])
def test_the_circuit_is_right_on_every_pool(task):
    model = circuit(task)
    for pool in task.pools:
        batch = task.sample(300, generator=generator(), pool=pool)
        assert torch.equal(model(batch.inputs["tokens"])[:, -1].argmax(1), batch.targets[:, 0])


def test_initial_weights_know_nothing():
    batch = SMALL.sample(500, generator=generator())
    right = unknowing()(batch.inputs["tokens"])[:, -1].argmax(1) == batch.targets[:, 0]
    assert float(right.double().mean()) < 0.3
