"""Procrustes: by value, against scipy, as a metric."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import pytest
import scipy.linalg
import scipy.spatial
import torch
from hypothesis import given, settings

from invariscope.errors import RankError, ShapeError, TooFewSamplesError
from invariscope.numerics import fit_procrustes, procrustes, procrustes_similarity
from invariscope.numerics.halves import split_halves


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@settings(deadline=None, derandomize=True, max_examples=30)
@given(seed=st.integers(0, 1000), dim=st.integers(1, 4))
def test_agrees_with_scipys_disparity(seed: int, dim: int):
    a, b = normal(20, dim, seed=seed) + 3, normal(20, dim, seed=seed + 1)
    b = b + a
    # scipy fits a scale on top, which leaves the residual 1 - rho^2.
    _, _, disparity = scipy.spatial.procrustes(a.numpy(), b.numpy())
    assert procrustes(a, b) ** 2 == pytest.approx(1 - disparity, abs=1e-10)


def test_the_map_is_scipys_and_predicts_what_was_turned():
    a = normal(30, 3)
    turn = torch.linalg.qr(normal(3, 3, seed=1)).Q
    b = 2.5 * (a - a.mean(0)) @ turn + 4.0
    fit = fit_procrustes(a, b)
    expected, _ = scipy.linalg.orthogonal_procrustes((a - a.mean(0)).numpy(), (b - b.mean(0)).numpy())
    assert fit.rotation.numpy() == pytest.approx(expected, abs=1e-10)
    assert torch.allclose(fit.rotation, turn, atol=1e-10)
    assert torch.allclose(fit.predict(a), b, atol=1e-10)
    assert fit.scale_b / fit.scale_a == pytest.approx(2.5)
    assert fit.score(a, b) == pytest.approx(1.0)


def test_score_is_one_minus_the_normalised_squared_distance():
    a, b = normal(30, 2), normal(30, 3, seed=1)
    fit = fit_procrustes(a, b)
    left = (a - fit.mean_a) / fit.scale_a @ fit.rotation
    right = (b - fit.mean_b) / fit.scale_b
    narrow = (a - fit.mean_a) / fit.scale_a
    distance = narrow.square().sum() + right.square().sum() - 2 * (left * right).sum()
    assert fit.score(a, b) == pytest.approx(1 - float(distance / (narrow.square().sum() + right.square().sum())))
    assert fit.score(a, b) == pytest.approx(fit.similarity)


def test_a_narrow_side_is_one_filled_up_with_zeros():
    a, b = normal(25, 2), normal(25, 4, seed=1)
    padded = torch.cat([a, torch.zeros(25, 2).double()], 1)
    assert procrustes(a, b) == pytest.approx(procrustes(padded, b))


@settings(deadline=None, derandomize=True, max_examples=60)
@given(seed=st.integers(0, 10_000), dim=st.integers(1, 3))
def test_its_angle_obeys_the_triangle_inequality(seed: int, dim: int):
    shared = normal(12, dim, seed=seed)
    x, y, z = (shared + normal(12, dim, seed=seed + k) for k in (1, 2, 3))
    xy, yz, xz = (math.acos(procrustes(*pair)) for pair in ((x, y), (y, z), (x, z)))
    assert xz <= xy + yz + 1e-12


def test_stretching_one_direction_is_seen():
    a = normal(300, 2)
    stretched = a * torch.tensor([1.0, 4.0])
    found = procrustes_similarity(a, stretched, generator=torch.Generator().manual_seed(0), num_permutations=5)
    assert found.heldout == pytest.approx(5 / math.sqrt(2 * 17), abs=0.03)


def test_held_out_is_fitted_on_one_part_and_scored_on_the_other():
    a, b = normal(80, 2), normal(80, 2, seed=1)
    b = b + a
    found = procrustes_similarity(a, b, generator=torch.Generator().manual_seed(4), num_permutations=3)
    halves = split_halves(a, b, generator=torch.Generator().manual_seed(4))
    fit = fit_procrustes(halves.a_fit, halves.b_fit)
    assert found.heldout == pytest.approx(fit.score(halves.a_test, halves.b_test))
    assert found.value == pytest.approx(fit.similarity)


def test_messages():
    a = normal(10, 2)
    with pytest.raises(RankError, match="b that does not vary; expected coordinates that vary; look at what was read"):
        fit_procrustes(a, torch.full((10, 2), 0.3))
    with pytest.raises(TooFewSamplesError, match="1 rows to fit a rotation on; expected at least 2"):
        fit_procrustes(a[:1], a[:1])
    with pytest.raises(ShapeError, match="rows of 2 and 1 dimensions; expected 2 and 2, as fitted; score"):
        fit_procrustes(a, a).score(a, a[:, :1])
