"""How MLP2 adds: each hidden unit turns with one frequency of every operand, and writes the same frequency of the sum.

Networks that add modulo N hold numbers as points on circles (Nanda et al., arXiv:2301.05217). A unit's pre-activation over the
operands is then ``A cos(2 pi k n / N + alpha) + B cos(2 pi k m / N + beta)`` with A near B, and its weights on the answers are
``cos(2 pi k c / N + gamma)`` with gamma = alpha + beta. :func:`neuron_table` computes pre-activations at every sum of numbers,
:func:`fourier_neurons` holds them against that form. That a unit is a *sum* of functions of n and of m is no evidence: with
attention fixed it always is. One frequency is; what random sums reach stands beside
(:func:`invariscope.numerics.random_additive_baseline`).

Legend of shapes: M neurons, N the modulus, k operands.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from invariscope.circuits.checks import check_model
from invariscope.circuits.forward import read_last
from invariscope.errors import ConfigError, ShapeError
from invariscope.estimate import Estimate
from invariscope.models import Transformer
from invariscope.models.heads import block_of
from invariscope.numerics import (
    FourierShares,
    OutputPhases,
    estimate_mean,
    output_phases,
    random_additive_baseline,
    single_frequency_shares,
)
from invariscope.numerics.resampling import quantile_interval
from invariscope.sites import frozen
from invariscope.tasks import AssignAdd

__all__ = ["FourierNeurons", "enough_neurons", "fourier_neurons", "neuron_table"]

LEAST_NEURONS = 2
"""That vary with the operands."""
USED_SHARE = 0.02
"""Share of all neurons' energy from which a frequency counts as used."""
MAX_SUMS = 2**20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FourierNeurons:
    """MLP2's neurons by frequency.

    Args:
        shares: of every neuron: energy by frequency, best frequency, phases and amplitudes.
        outputs: phase of every neuron's weights on the answers at that frequency.
        active: neurons that vary with the operands, [M]; all that follows is about them.
        median_share, mean_share: of the share of energy that a neuron's best frequency carries. Chance: mean of random sums of
            two functions.
        energy_weighted_share: the same mean, each neuron weighed by its energy.
        baseline_high: 97.5 % quantile of a random sum's best share.
        amplitude_ratio: median of the smaller amplitude over the larger one; 1: operands enter alike.
        phase_agreement: mean of cos(gamma - alpha - beta); 1: what is written is the sum. Chance: 0.
        output_share: mean share of the energy of the weights on the answers at that frequency.
        frequencies: those with at least 2 % of the neurons' energy, with that share, largest first.
    """

    shares: FourierShares
    outputs: OutputPhases
    active: Bool[Tensor, "M"]
    median_share: Estimate
    mean_share: Estimate
    energy_weighted_share: float
    baseline_high: float
    amplitude_ratio: float
    phase_agreement: Estimate
    output_share: float
    frequencies: tuple[tuple[int, float], ...]

    @property
    def num_active(self) -> int:
        """How many neurons vary with the operands."""
        return int(self.active.sum())


def neuron_table(
    model: Transformer, task: AssignAdd, generator: torch.Generator, *, num_contexts: int = 2
) -> Float[Tensor, "M N N"]:
    """MLP2's pre-activations at ``=`` of every sum of numbers, averaged over random contexts.

    Args:
        model, task: with an MLP in the second layer.
        generator: of the contexts. num_contexts: how many each sum is put into.

    Returns:
        [M, N, N], one axis of length N an operand, on the CPU.

    Raises:
        ConfigError: for a model that does not fit the task, no context, or more than 2^20 sums.
    """
    check_model(model, task, mlp=True)
    modulus, num_operands = task.modulus, task.num_operands
    if num_contexts < 1 or modulus**num_operands > MAX_SUMS:
        raise ConfigError(
            f"{num_contexts} contexts of {modulus**num_operands} sums",
            expected=f"at least one context, and at most {MAX_SUMS} sums",
            do="give a context, or fewer operands",
        )
    operands = torch.cartesian_prod(*[torch.arange(modulus)] * num_operands).view(-1, num_operands)
    site = "blocks.1.mlp_pre"
    total = torch.zeros(())
    for _ in range(num_contexts):
        batch = task.compose(operands, (False,) * num_operands, generator=generator)
        total = total + read_last(model, batch.inputs["tokens"], [site])[site]
    return (total / num_contexts).T.reshape(-1, *[modulus] * num_operands)


def enough_neurons(table: Float[Tensor, "M N N"]) -> bool:
    """Whether as many neurons of a :func:`neuron_table` vary with the operands as :func:`fourier_neurons` needs."""
    return int(single_frequency_shares(table).active().sum()) >= LEAST_NEURONS


def fourier_neurons(
    model: Transformer, task: AssignAdd, table: Float[Tensor, "M N N"], generator: torch.Generator, *, num_random: int = 1000
) -> FourierNeurons:
    """Hold MLP2's neurons against one frequency each.

    Args:
        model, task: without a norm before the unembedding.
        table: of :func:`neuron_table`.
        generator: of the bootstrap over neurons and of the random sums. num_random: how many random sums.

    Raises:
        ConfigError: for a model that does not fit, or whose neurons do not vary at all. ShapeError: for a table of another model.
    """
    check_model(model, task, linear=True, mlp=True)
    width = model.config.layer("mlp_width", 1)
    expected = [width, *[task.modulus] * task.num_operands]
    if list(table.shape) != expected:
        raise ShapeError(f"a table of shape {list(table.shape)}", expected=f"{expected}", do="make it with neuron_table")
    shares = single_frequency_shares(table)
    active = shares.active()
    if int(active.sum()) < LEAST_NEURONS:
        raise ConfigError(
            f"{int(active.sum())} neurons that vary with the operands",
            expected=f"at least {LEAST_NEURONS}",
            do="train the model first",
        )
    with frozen(model), torch.no_grad():
        # What a neuron adds to the logits: a basis vector through both matrices.
        block = block_of(model, 1)
        written = block.mlp_output.weight.double().T @ model.unembedding.weight.double().T
    outputs = output_phases(shares, written.cpu())
    baseline = random_additive_baseline(task.modulus, num_random, generator, num_operands=task.num_operands)
    best = shares.best_shares[active]
    chance = float(baseline.mean())
    energies = shares.energy_by_frequency()
    order = energies.argsort(descending=True)
    return FourierNeurons(
        shares=shares,
        outputs=outputs,
        active=active,
        median_share=_median(best, chance, generator),
        mean_share=estimate_mean(best, generator=generator, unit="share of energy", chance=chance),
        energy_weighted_share=shares.energy_weighted_share,
        baseline_high=float(torch.quantile(baseline, 0.975)),
        amplitude_ratio=float(shares.amplitude_ratios[active].median()),
        phase_agreement=estimate_mean(outputs.differences[active].cos(), generator=generator, unit="cosine", chance=0.0),
        output_share=float(outputs.shares[active].mean()),
        frequencies=tuple((int(k) + 1, float(energies[k])) for k in order if energies[k] >= USED_SHARE),
    )


def _median(values: Float[Tensor, "n"], chance: float, generator: torch.Generator) -> Estimate:
    num = len(values)
    drawn = values[torch.randint(num, (1000, num), generator=generator)].median(1).values
    low, high = quantile_interval(drawn, 0.95)
    return Estimate(
        value=float(values.median()),
        low=low,
        high=high,
        num=num,
        unit="share of energy",
        method=f"bootstrap over {num} neurons",
        chance=chance,
    )
