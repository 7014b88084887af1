"""The error of sketched Jacobians: its size is known for signs, and it falls like one over the square root of N s."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cores.hand_made import generator
from invariscope.batch import Batch
from invariscope.cores import SketchError, estimate_sketch_error
from invariscope.errors import ConfigError, RankError
from invariscope.sites import logits

NUM_OUTPUTS, DIM = 40, 6


class Readout(nn.Module):
    """Logits that read D activations by one matrix; three directions matter much, three little."""

    def __init__(self) -> None:
        super().__init__()
        matrix = torch.randn(DIM, NUM_OUTPUTS, dtype=torch.float64, generator=generator(1))
        scales = torch.tensor([4.0, 3.0, 2.0, 0.3, 0.2, 0.1], dtype=torch.float64)
        self.site, self.readout = nn.Identity(), nn.Parameter(scales[:, None] * matrix)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return self.site(states) @ self.readout


def states(num: int) -> list[Batch]:
    rows = torch.randn(num, 1, DIM, dtype=torch.float64, generator=generator())
    return [Batch(inputs={"states": part}) for part in rows.split(64)]


def error(num: int, sketch: int, num_repeats: int = 8, rank: int = 3) -> SketchError:
    return estimate_sketch_error(
        Readout(),
        states(num),
        site="module:site",
        rank=rank,
        objective=logits(normalise="centred"),
        sketch=sketch,
        num_repeats=num_repeats,
        generator=generator(2),
    )


def test_it_falls_like_one_over_the_square_root_of_samples_and_signs():
    base, signs, samples = error(64, 4), error(64, 64), error(1024, 4)
    for better in (signs, samples):
        for name in ("gram_error", "angle"):
            assert getattr(base, name) / getattr(better, name) == pytest.approx(4.0, rel=0.45)
    assert base.at(1024).gram_error == pytest.approx(base.gram_error / 4)
    assert 0 < samples.angle < samples.gram_error < 0.2


def test_the_gram_error_is_the_one_of_random_signs():
    # For constant J and signs v, Var(JᵀvvᵀJ) summed over entries is ||G||² + tr(G)² - 2 Σ_k |J_k|^4 with J_k the rows of J.
    J = Readout().readout.detach().T
    J = J - J.mean(0)
    gram = J.T @ J
    variance = gram.square().sum() + torch.trace(gram) ** 2 - 2 * J.square().sum(1).square().sum()
    expected = float((variance / (64 * 4)).sqrt() / gram.norm())
    assert error(64, 4, num_repeats=40).gram_error == pytest.approx(expected, rel=0.15)


def test_what_it_stands_on_is_said():
    found = error(70, 4, num_repeats=1, rank=2)
    assert (found.rank, found.sketch, found.num_samples, found.num_repeats) == (2, 4, 70, 1)
    assert found == error(70, 4, num_repeats=1, rank=2)


def test_messages():
    with pytest.raises(ConfigError, match="0 repetitions; expected at least 1; leave num_repeats"):
        error(64, 4, num_repeats=0)
    with pytest.raises(RankError):
        error(64, 4, rank=7)
