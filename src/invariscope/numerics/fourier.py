"""Fourier analysis on the integers modulo N: does a neuron turn with one frequency of each operand?

A network that adds modulo N may hold each number as a point on a few circles (Nanda et al., arXiv:2301.05217): the pre-activation
of a hidden neuron over the operands is then ``A cos(2 pi k n / N + alpha) + B cos(2 pi k m / N + beta)`` with one frequency k,
and its output weights over the sum c are ``cos(2 pi k c / N + alpha + beta)``. :func:`single_frequency_shares` projects each
neuron on the cosine and the sine of every frequency and says how much of its variance the best one carries. Any neuron that is a
sum ``f(n) + g(m)`` lies in the span of all frequencies together, so only the share of *one* is evidence; what such sums reach by
chance is :func:`random_additive_baseline` (.1 at N = 59).

Legend of shapes: M neurons, N the modulus, P operands, K = floor(N / 2) frequencies.

>>> n = torch.arange(7, dtype=torch.float64)
>>> wave = torch.cos(2 * torch.pi * 3 * n / 7 + 0.5)
>>> found = single_frequency_shares((2 * wave[:, None] + wave)[None] + 1.0)
>>> int(found.frequencies), round(float(found.best_shares), 6), [round(phase, 6) for phase in found.phases[0].tolist()]
(3, 1.0, [0.5, 0.5])
>>> round(float(found.amplitude_ratios), 6)
0.5
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from invariscope.errors import ConfigError, ShapeError
from invariscope.numerics.halves import safe_ratio
from invariscope.numerics.linalg import as_float64, no_autocast

__all__ = [
    "FourierShares",
    "OutputPhases",
    "fourier_basis",
    "output_phases",
    "random_additive_baseline",
    "single_frequency_shares",
]

# What float64 leaves of a constant after its mean is taken off is below this share of its length.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FourierShares:
    """What each of M neurons is made of, by frequency k = 1 .. K.

    Args:
        modulus: N.
        shares: [M, K], energy of the neuron on ``cos`` and ``sin`` of frequency k of every operand, over its energy; column 0 is
            k = 1. A row sums to the neuron's additive share, at most 1; a neuron that does not vary has zeros.
        energies: [M], sum of squares of the centred values over all N^P combinations of operands.
        frequencies: [M], the k with the largest share.
        phases: [M, P], at that frequency, in (-pi, pi]: operand p enters as ``A_p cos(2 pi k n_p / N + phase_p)``.
        amplitudes: [M, P], A_p >= 0, in the units of the values.
    """

    modulus: int
    shares: Float[Tensor, "M K"]
    energies: Float[Tensor, "M"]
    frequencies: Int[Tensor, "M"]
    phases: Float[Tensor, "M P"]
    amplitudes: Float[Tensor, "M P"]

    def __post_init__(self) -> None:
        num = len(self.energies)
        shapes = {name: list(getattr(self, name).shape) for name in ("shares", "frequencies", "phases", "amplitudes")}
        expected = {
            "shares": [num, self.modulus // 2],
            "frequencies": [num],
            "phases": [num, *shapes["amplitudes"][1:]],
            "amplitudes": [num, *shapes["phases"][1:]],
        }
        if shapes != expected:
            raise ShapeError(f"{shapes} of {num} neurons", expected=f"{expected}", do="make it with single_frequency_shares")

    @property
    def best_shares(self) -> Float[Tensor, "M"]:
        """The share of each neuron's own best frequency."""
        return self.shares.max(1).values

    @property
    def amplitude_ratios(self) -> Float[Tensor, "M"]:
        """The smallest amplitude over the largest among the operands, [M], in [0, 1]; 1: all enter alike."""
        return safe_ratio(self.amplitudes.min(1).values, self.amplitudes.max(1).values)

    @property
    def energy_weighted_share(self) -> float:
        """Mean of :attr:`best_shares`, each neuron weighed by its energy; 0 where nothing varies."""
        return float(safe_ratio((self.energies * self.best_shares).sum(), self.energies.sum()))

    def active(self, threshold: float = 0.01) -> Bool[Tensor, "M"]:
        """Which neurons vary with the operands: those with more than ``threshold`` times the mean energy.

        Raises:
            ConfigError: for a negative threshold.
        """
        if not 0 <= threshold < math.inf:
            raise ConfigError(f"threshold = {threshold}", expected="a finite number, at least 0", do="leave it at .01")
        return self.energies > threshold * self.energies.mean()

    def energy_by_frequency(self) -> Float[Tensor, "K"]:
        """Share of all energy that stands in neurons whose best frequency is k, [K]; sums to 1 (or 0 where nothing varies)."""
        sums = torch.zeros(self.shares.shape[1], dtype=self.energies.dtype, device=self.energies.device)
        sums.index_add_(0, self.frequencies - 1, self.energies)
        return safe_ratio(sums, self.energies.sum())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OutputPhases:
    """Phases of the output weights at each neuron's own frequency.

    Args:
        phases: [M], gamma in (-pi, pi]: the weights over the sum c hold ``cos(2 pi k c / N + gamma)``.
        differences: [M], gamma minus the sum of the operands' phases, wrapped into (-pi, pi]; 0 where the neuron adds.
        shares: [M], how much of the centred weights' energy that frequency carries.
    """

    phases: Float[Tensor, "M"]
    differences: Float[Tensor, "M"]
    shares: Float[Tensor, "M"]

    def __post_init__(self) -> None:
        shapes = [list(x.shape) for x in (self.phases, self.differences, self.shares)]
        if shapes != [[len(self.phases)]] * 3:
            raise ShapeError(f"phases, differences, shares of shapes {shapes}", expected="one length", do="use output_phases")


def fourier_basis(modulus: int) -> Float[Tensor, "N N"]:
    """The real Fourier basis of functions on Z_N, orthonormal, one function a column, in float64.

    Column 0 is constant; columns 2k - 1 and 2k are ``cos(2 pi k n / N)`` and ``sin(2 pi k n / N)``, scaled by sqrt(2 / N). For an
    even N the last column is ``cos(pi n) / sqrt(N)``, whose sine is zero.

    Args:
        modulus: N >= 2.

    Raises:
        ConfigError: for a smaller modulus.

    >>> basis = fourier_basis(6)
    >>> torch.allclose(basis.T @ basis, torch.eye(6, dtype=torch.float64))
    True
    """
    if modulus < 2:
        raise ConfigError(f"modulus = {modulus}", expected="at least 2", do="give the number of residues")
    n = torch.arange(modulus, dtype=torch.float64)
    k = torch.arange(1, modulus // 2 + 1)
    # The product is reduced modulo N as an integer, so that large k and n cost no digits.
    angles = 2 * torch.pi / modulus * ((n.long()[:, None] * k) % modulus).double()
    pairs = torch.stack([angles.cos(), angles.sin()], dim=2).flatten(1) * math.sqrt(2 / modulus)
    basis = torch.cat([torch.full((modulus, 1), 1 / math.sqrt(modulus), dtype=torch.float64), pairs], dim=1)[:, :modulus]
    if modulus % 2 == 0:
        basis[:, -1] /= math.sqrt(2)
    return basis


def single_frequency_shares(values: Float[Tensor, "M N N"]) -> FourierShares:
    """How much of each neuron one frequency carries, and with which phase and amplitude each operand enters it.

    With v the centred values, ``share_k = |projection of v on {cos, sin(2 pi k n_p / N)}, p = 1 .. P|^2 / |v|^2``. The 2 P
    functions of a frequency are orthogonal, so the projection is exact.

    Args:
        values: [M, N, N], a neuron's value at every pair of operands (or [M, N, N, N] at every triple, and so on).

    Raises:
        ShapeError: where the operands' axes are not of one length >= 3. NonFiniteError: where an entry is not finite.

    Notes:
        Computed in float64 from the marginal means: a function of n alone meets only the mean of v over m.
    """
    ndim = values.ndim if isinstance(values, Tensor) else 3
    values = as_float64("values", values, ndim=max(ndim, 2))
    modulus, num_operands = values.shape[1], values.ndim - 1
    if set(values.shape[1:]) != {modulus} or modulus < 3:
        raise ShapeError(
            f"values of shape {list(values.shape)}",
            expected="[M, N, N] with N >= 3: one axis of length N an operand",
            do="give every neuron's value at every pair of operands",
        )
    axes = tuple(range(1, values.ndim))
    centred = values - values.mean(axes, keepdim=True)
    energies = centred.pow(2).sum(axes)
    energies = torch.where(energies > _ROUNDING**2 * values.pow(2).sum(axes), energies, 0.0)
    marginals = torch.stack([centred.mean([a for a in axes if a != axis]) if num_operands > 1 else centred for axis in axes], 1)
    cosines, sines = _coefficients(marginals)
    # A function of one operand is repeated N^(P-1) times over the others.
    found = (cosines**2 + sines**2).sum(1) * modulus ** (num_operands - 1)
    shares = safe_ratio(found, energies[:, None]).clamp(0.0, 1.0)
    best = shares.argmax(1)
    phases, amplitudes = _phases_and_amplitudes(cosines, sines, best, modulus)
    varies = (energies > 0)[:, None]
    return FourierShares(
        modulus=modulus,
        shares=shares,
        energies=energies,
        frequencies=best + 1,
        phases=torch.where(varies, phases, 0.0),
        amplitudes=torch.where(varies, amplitudes, 0.0),
    )


def output_phases(shares: FourierShares, weights: Float[Tensor, "M N"]) -> OutputPhases:
    """The phase of each neuron's output weights at its own frequency, beside the sum of its operands' phases.

    A ReLU of ``cos(x + alpha) + cos(y + beta)`` holds ``cos(x + y + alpha + beta)`` with a positive factor, so a neuron that
    helps to add has output weights of phase ``alpha + beta``.

    Args:
        shares: of the neurons' pre-activations.
        weights: [M, N], what a neuron adds to the logit of each residue.

    Raises:
        ShapeError: where the shape is not [M, N]. NonFiniteError: where an entry is not finite.
    """
    weights = as_float64("weights", weights, ndim=2)
    num, modulus = len(shares.energies), shares.modulus
    if weights.shape != (num, modulus):
        raise ShapeError(
            f"output weights of shape {list(weights.shape)} for {num} neurons modulo {modulus}",
            expected=f"[{num}, {modulus}]",
            do="multiply the MLP's output matrix with the unembedding of the residues",
        )
    best = shares.frequencies.to(weights.device) - 1
    centred = weights - weights.mean(1, keepdim=True)
    cosines, sines = _coefficients(centred[:, None])
    phases, _ = _phases_and_amplitudes(cosines, sines, best, modulus)
    power = (cosines**2 + sines**2)[:, 0].gather(1, best[:, None])[:, 0]
    differences = phases[:, 0] - shares.phases.to(weights.device).sum(1)
    return OutputPhases(
        phases=phases[:, 0],
        differences=_wrap(differences),
        shares=safe_ratio(power, centred.pow(2).sum(1)).clamp(0.0, 1.0),
    )


def random_additive_baseline(
    modulus: int, num: int, generator: torch.Generator, *, num_operands: int = 2
) -> Float[Tensor, "num"]:
    """The best single-frequency share of ``num`` sums ``f(n) + g(m)`` whose tables f and g are independent Gaussians.

    Args:
        modulus: N >= 3.
        num: how many functions.
        generator: of the tables.
        num_operands: P, how many tables are added.

    Returns:
        [num], whose mean is .1 at N = 59 with two operands.

    Raises:
        ConfigError: for a smaller modulus, or less than one function or operand.

    >>> round(float(random_additive_baseline(59, 2000, torch.Generator().manual_seed(0)).mean()), 1)
    0.1
    """
    if modulus < 3 or num < 1 or num_operands < 1:
        raise ConfigError(
            f"{num} functions of {num_operands} operands modulo {modulus}",
            expected="at least one of each, and a modulus of at least 3",
            do="use 1000 functions of two operands",
        )
    shape = (num, num_operands, modulus)
    tables = torch.randn(shape, generator=generator, device=generator.device, dtype=torch.float64)
    tables = tables - tables.mean(2, keepdim=True)
    cosines, sines = _coefficients(tables)
    return ((cosines**2 + sines**2).sum(1) / tables.pow(2).sum((1, 2))[:, None]).max(1).values


def _coefficients(functions: Float[Tensor, "M P N"]) -> tuple[Float[Tensor, "M P K"], Float[Tensor, "M P K"]]:
    """Coefficients on the orthonormal cosines and sines; the sine that is zero for an even N gets 0."""
    modulus = functions.shape[-1]
    with no_autocast(functions):
        found = functions @ fourier_basis(modulus).to(functions.device)[:, 1:]
    if modulus % 2 == 0:
        found = torch.cat([found, torch.zeros_like(found[..., :1])], dim=-1)
    return found[..., 0::2], found[..., 1::2]


def _phases_and_amplitudes(
    cosines: Float[Tensor, "M P K"], sines: Float[Tensor, "M P K"], best: Int[Tensor, "M"], modulus: int
) -> tuple[Float[Tensor, "M P"], Float[Tensor, "M P"]]:
    """Of ``A cos(2 pi k n / N + phase) = A cos(phase) cos(...) - A sin(phase) sin(...)`` at each row's own frequency."""
    index = best[:, None, None].expand(-1, cosines.shape[1], 1)
    c, s = cosines.gather(2, index)[..., 0], sines.gather(2, index)[..., 0]
    is_half = (2 * (best + 1) == modulus)[:, None]
    length = torch.where(is_half, 1.0, 2.0).to(c.dtype)
    # 0 - s, not -s: a sine of exactly 0 beside a negative cosine is the phase pi, not -pi.
    return torch.atan2(0.0 - s, c), (c**2 + s**2).mul(length / modulus).sqrt()


def _wrap(angles: Tensor) -> Tensor:
    """Angles in (-pi, pi]."""
    return torch.pi - torch.remainder(torch.pi - angles, 2 * torch.pi)
