"""Fourier shares of neurons made by hand: known frequencies, phases, amplitudes, noise."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from invariscope.errors import ConfigError, NonFiniteError, ShapeError
from invariscope.numerics import fourier_basis, output_phases, random_additive_baseline, single_frequency_shares


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def wave(modulus: int, k: int, phase: float = 0.0) -> torch.Tensor:
    return torch.cos(2 * torch.pi * k * torch.arange(modulus, dtype=torch.float64) / modulus + phase)


def neuron(modulus: int, k: int, alpha: float, beta: float, a: float = 1.0, b: float = 1.0) -> torch.Tensor:
    return a * wave(modulus, k, alpha)[:, None] + b * wave(modulus, k, beta)


@pytest.mark.parametrize("modulus", [2, 3, 8, 59])
def test_the_basis_is_orthonormal_and_holds_the_waves(modulus: int):
    basis = fourier_basis(modulus)
    assert torch.allclose(basis.T @ basis, torch.eye(modulus, dtype=torch.float64), atol=1e-13)
    for k in range(1, (modulus + 1) // 2):
        assert torch.allclose(basis[:, 2 * k - 1], wave(modulus, k) * math.sqrt(2 / modulus))
        assert torch.allclose(basis[:, 2 * k], wave(modulus, k, -math.pi / 2) * math.sqrt(2 / modulus), atol=1e-13)
    if modulus % 2 == 0:
        assert torch.allclose(basis[:, -1], wave(modulus, modulus // 2) / math.sqrt(modulus))


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    modulus=st.integers(3, 20),
    k=st.integers(1, 10),
    alpha=st.floats(-3.1, 3.1),
    beta=st.floats(-3.1, 3.1),
    a=st.floats(0.1, 5.0),
    b=st.floats(0.1, 5.0),
)
def test_a_pure_neuron_is_recovered(modulus: int, k: int, alpha: float, beta: float, a: float, b: float):
    k = 1 + (k - 1) % max(1, (modulus - 1) // 2)
    found = single_frequency_shares(7.0 + neuron(modulus, k, alpha, beta, a, b)[None])
    assert int(found.frequencies) == k
    assert float(found.best_shares) == pytest.approx(1.0)
    assert found.phases[0].tolist() == pytest.approx([alpha, beta], abs=1e-9)
    assert found.amplitudes[0].tolist() == pytest.approx([a, b])
    assert float(found.amplitude_ratios) == pytest.approx(min(a, b) / max(a, b))
    assert float(found.energies) == pytest.approx(modulus**2 * (a**2 + b**2) / 2)
    assert found.shares.shape == (1, modulus // 2)


def test_the_middle_frequency_of_an_even_modulus():
    found = single_frequency_shares((3 * wave(8, 4)[:, None] - 2 * wave(8, 4))[None])
    assert int(found.frequencies) == 4
    assert float(found.best_shares) == pytest.approx(1.0)
    assert found.amplitudes[0].tolist() == pytest.approx([3.0, 2.0])
    assert found.phases[0].tolist() == pytest.approx([0.0, math.pi])


def test_shares_are_those_of_least_squares_on_explicit_waves():
    values = torch.randn(3, 7, 7, dtype=torch.float64, generator=generator())
    found = single_frequency_shares(values)
    centred = (values - values.mean((1, 2), keepdim=True)).flatten(1).T
    for k in (1, 2, 3):
        columns = [wave(7, k, phase) for phase in (0.0, 1.0)]
        design = torch.stack([x.flatten() for w in columns for x in (w[:, None].expand(7, 7), w.expand(7, 7))], dim=1)
        fitted = design @ torch.linalg.lstsq(design, centred).solution
        expected = fitted.pow(2).sum(0) / centred.pow(2).sum(0)
        assert found.shares[:, k - 1].tolist() == pytest.approx(expected.tolist())
    additive = values.mean(2, keepdim=True) + values.mean(1, keepdim=True)
    assert single_frequency_shares(additive).shares.sum(1).tolist() == pytest.approx([1.0] * 3)


def test_a_rotation_of_an_operand_turns_its_phase_and_nothing_else():
    values = torch.randn(5, 11, 11, dtype=torch.float64, generator=generator(1))
    before, after = single_frequency_shares(values), single_frequency_shares(values.roll(-1, dims=1))
    assert torch.allclose(before.shares, after.shares)
    assert torch.allclose(before.amplitudes, after.amplitudes)
    turned = after.phases - before.phases
    assert torch.cos(turned[:, 0] - 2 * torch.pi * before.frequencies / 11).tolist() == pytest.approx([1.0] * 5)
    assert turned[:, 1].tolist() == pytest.approx([0.0] * 5, abs=1e-9)


def test_a_multiplication_of_the_residues_permutes_the_frequencies():
    values = neuron(11, 2, 0.3, -0.4)[None] + 0.2 * torch.randn(1, 11, 11, dtype=torch.float64, generator=generator())
    times_three = 3 * torch.arange(11) % 11
    moved = single_frequency_shares(values[:, times_three][:, :, times_three])
    # v(3 n) turns with frequency 6, which is 11 - 6 = 5.
    assert int(moved.frequencies) == 5
    assert float(moved.best_shares) == pytest.approx(float(single_frequency_shares(values).best_shares))


def test_noise_lowers_the_share_as_its_variance_says():
    pure = torch.stack([neuron(59, 5, 0.1, 2.0)] * 20)
    noisy = pure + torch.randn(pure.shape, dtype=torch.float64, generator=generator())
    found = single_frequency_shares(noisy)
    assert found.frequencies.tolist() == [5] * 20
    assert float(found.best_shares.mean()) == pytest.approx(0.5, abs=0.02)
    assert found.phases.mean(0).tolist() == pytest.approx([0.1, 2.0], abs=0.05)


def test_neurons_that_do_not_vary_have_no_share_and_are_not_active():
    values = torch.stack([torch.full((5, 5), 0.1), neuron(5, 1, 0.0, 0.0).float(), 1e-3 * neuron(5, 2, 0.0, 0.0).float()])
    found = single_frequency_shares(values)
    assert found.shares[0].tolist() == [0.0, 0.0]
    assert float(found.energies[0]) == 0.0
    assert found.active().tolist() == [False, True, False]
    assert found.active(0.0).tolist() == [False, True, True]
    assert found.energy_weighted_share == pytest.approx(1.0)
    assert found.energy_by_frequency().tolist() == pytest.approx([1.0, 0.0], abs=1e-5)
    assert single_frequency_shares(values[:1]).energy_weighted_share == 0.0


def test_three_operands():
    waves = [scale * wave(7, 2, phase) for scale, phase in ((1.0, 0.2), (2.0, -1.0), (4.0, 3.0))]
    found = single_frequency_shares((waves[0][:, None, None] + waves[1][:, None] + waves[2])[None])
    assert float(found.best_shares) == pytest.approx(1.0)
    assert found.phases[0].tolist() == pytest.approx([0.2, -1.0, 3.0])
    assert found.amplitudes[0].tolist() == pytest.approx([1.0, 2.0, 4.0])
    assert float(found.energies) == pytest.approx(7**3 * 21 / 2)


def test_output_weights_of_the_summed_phase_differ_by_zero():
    phases = [(0.4, 0.9), (3.0, 2.0), (-2.5, -1.0)]
    found = single_frequency_shares(torch.stack([neuron(13, 4, *pair) for pair in phases]))
    out = output_phases(found, torch.stack([3.0 + wave(13, 4, sum(pair)) for pair in phases]))
    assert out.differences.tolist() == pytest.approx([0.0] * 3, abs=1e-9)
    assert out.shares.tolist() == pytest.approx([1.0] * 3)
    turned = output_phases(found, torch.stack([wave(13, 4, sum(pair) + 1.0) + wave(13, 2) for pair in phases]))
    assert turned.differences.tolist() == pytest.approx([1.0] * 3)
    assert turned.shares.tolist() == pytest.approx([0.5] * 3)
    assert turned.phases.tolist() == pytest.approx([2.3, 6.0 - 2 * math.pi, -2.5])


def test_the_relu_of_a_neuron_is_read_by_those_weights():
    hidden = neuron(13, 4, 0.4, 0.9).relu()
    n = torch.arange(13)
    at_sum = torch.zeros(13, dtype=torch.float64).index_add_(0, ((n[:, None] + n) % 13).flatten(), hidden.flatten())
    found = single_frequency_shares(neuron(13, 4, 0.4, 0.9)[None])
    assert float(output_phases(found, at_sum[None]).differences) == pytest.approx(0.0, abs=0.01)


def test_the_baseline_is_what_random_sums_reach():
    drawn = random_additive_baseline(59, 300, generator())
    assert drawn.shape == (300,)
    assert float(drawn.mean()) == pytest.approx(0.11, abs=0.01)
    assert torch.equal(drawn, random_additive_baseline(59, 300, generator()))
    tables = torch.randn(2, 300, 59, dtype=torch.float64, generator=generator(5))
    built = single_frequency_shares(tables[0][:, :, None] + tables[1][:, None])
    assert float(built.best_shares.mean()) == pytest.approx(float(drawn.mean()), abs=0.01)


def test_what_is_no_table_of_values_is_refused():
    with pytest.raises(ShapeError, match=r"values of shape \[2, 5, 4\]; expected \[M, N, N\] with N >= 3"):
        single_frequency_shares(torch.zeros(2, 5, 4))
    with pytest.raises(ShapeError, match=r"values of shape \[5\]"):
        single_frequency_shares(torch.zeros(5))
    with pytest.raises(NonFiniteError, match="values of shape"):
        single_frequency_shares(torch.full((1, 3, 3), math.nan))
    found = single_frequency_shares(torch.zeros(2, 5, 5))
    with pytest.raises(ShapeError, match=r"output weights of shape \[2, 4\] for 2 neurons modulo 5; expected \[2, 5\]"):
        output_phases(found, torch.zeros(2, 4))
    with pytest.raises(ConfigError, match="threshold = -1"):
        found.active(-1)
    with pytest.raises(ConfigError, match="modulus = 1"):
        fourier_basis(1)
    with pytest.raises(ConfigError, match="0 functions of 2 operands modulo 59"):
        random_additive_baseline(59, 0, generator())
