"""Neurons that were built as circles are found as circles; untrained ones are not."""

import math

import pytest
import torch

from circuits.hand_built import ANGLES, PAPER, SMALL, circuit, generator, unknowing
from invariscope.circuits import fourier_neurons, neuron_table
from invariscope.errors import ConfigError, ShapeError
from invariscope.sites import read_sites
from invariscope.tasks import AssignAdd


@pytest.mark.parametrize("task", [SMALL, PAPER])
def test_the_circuits_neurons_have_one_frequency_each(task):
    model = circuit(task)
    table = neuron_table(model, task, generator())
    found = fourier_neurons(model, task, table, generator())
    assert found.num_active == 3 * ANGLES
    assert found.median_share.value == pytest.approx(1.0, abs=1e-6)
    assert found.mean_share.value == pytest.approx(1.0, abs=1e-6)
    assert found.energy_weighted_share == pytest.approx(1.0, abs=1e-6)
    assert found.amplitude_ratio == pytest.approx(1.0, abs=1e-6)
    assert found.phase_agreement.value == pytest.approx(1.0, abs=1e-6)
    assert found.output_share == pytest.approx(1.0, abs=1e-6)
    assert sorted(k for k, _ in found.frequencies) == [1, 2, 3]
    assert sum(share for _, share in found.frequencies) == pytest.approx(1.0)
    # The built phase of neuron 3: j = 3, the first frequency.
    assert found.shares.phases[3].tolist() == pytest.approx([2 * math.pi * 3 / ANGLES] * 2, abs=1e-5)
    assert found.median_share.chance < found.baseline_high < 1.0


def test_the_table_is_what_the_model_computes():
    model = unknowing()
    table = neuron_table(model, SMALL, generator(), num_contexts=1)
    operands = torch.cartesian_prod(torch.arange(7), torch.arange(7))
    tokens = SMALL.compose(operands, (False, False), generator=generator()).inputs["tokens"]
    with torch.no_grad(), read_sites(model, "blocks.1.mlp_pre", positions="last") as seen:
        model(tokens)
    assert table.shape == (24, 7, 7)
    assert torch.allclose(table[:, 2, 5], seen["blocks.1.mlp_pre"][2 * 7 + 5], atol=1e-6)


def test_contexts_are_averaged():
    model = unknowing()
    g = generator()
    one, two = (neuron_table(model, SMALL, g, num_contexts=1) for _ in range(2))
    assert torch.allclose(neuron_table(model, SMALL, generator(), num_contexts=2), (one + two) / 2, atol=1e-6)


def test_output_phases_that_do_not_add_are_seen():
    model = circuit()
    with torch.no_grad():
        # The answer c becomes -c: phases turn the other way.
        model.unembedding.weight.copy_(model.unembedding.weight[(-torch.arange(7)) % 7])
    found = fourier_neurons(model, SMALL, neuron_table(model, SMALL, generator()), generator())
    assert found.median_share.value == pytest.approx(1.0, abs=1e-6)
    assert found.phase_agreement.value == pytest.approx(0.0, abs=0.2)


def test_untrained_neurons_are_near_the_random_sums():
    task = AssignAdd(modulus=31, num_variables=4, num_pads=2)
    model = unknowing(task, width=64, mlp_width=(0, 64))
    found = fourier_neurons(model, task, neuron_table(model, task, generator(), num_contexts=8), generator())
    assert found.median_share.value < found.baseline_high + 0.05
    assert abs(found.phase_agreement.value) < 0.4
    assert found.shares.frequencies.unique().numel() > 5


def test_three_operands_have_three_axes():
    task = AssignAdd(modulus=5, num_variables=4, num_operands=3, mixture=(1, 1, 1, 1))
    model = unknowing(task)
    table = neuron_table(model, task, generator(), num_contexts=1)
    assert table.shape == (24, 5, 5, 5)
    assert fourier_neurons(model, task, table, generator()).shares.phases.shape == (24, 3)


def test_what_is_refused():
    model = unknowing()
    with pytest.raises(ConfigError, match="0 contexts of 49 sums; expected at least one context"):
        neuron_table(model, SMALL, generator(), num_contexts=0)
    with pytest.raises(ShapeError, match=r"a table of shape \[3, 7, 7\]; expected \[24, 7, 7\]"):
        fourier_neurons(model, SMALL, torch.zeros(3, 7, 7), generator())
    with pytest.raises(ConfigError, match="0 neurons that vary with the operands"):
        fourier_neurons(model, SMALL, torch.zeros(24, 7, 7), generator())
    with pytest.raises(ConfigError, match="a final norm"):
        fourier_neurons(unknowing(final_norm=True), SMALL, torch.zeros(24, 7, 7), generator())
