"""What every similarity of paired coordinates must do; each is one line in the list."""

from __future__ import annotations

from collections.abc import Callable

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from invariscope.errors import ConfigError, NonFiniteError, ShapeError, TooFewSamplesError
from invariscope.estimate import Similarity
from invariscope.numerics import cca_similarity, cka_similarity, procrustes_similarity, spearman_similarity

SIMILARITIES = {
    "cca": cca_similarity,
    "spearman": spearman_similarity,
    "procrustes": procrustes_similarity,
    "cka": cka_similarity,
}
every = pytest.mark.parametrize("similarity", SIMILARITIES.values(), ids=SIMILARITIES.keys())
Measure = Callable[..., Similarity]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator(seed))


def orthogonal(dim: int, seed: int = 0) -> torch.Tensor:
    return torch.linalg.qr(normal(dim, dim, seed=seed)).Q


def related(num: int, dim_a: int, dim_b: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    a = normal(num, dim_a, seed=seed)
    return a, a @ normal(dim_a, dim_b, seed=seed + 1) + 0.5 * normal(num, dim_b, seed=seed + 2)


@every
@settings(deadline=None, derandomize=True, max_examples=8)
@given(dim=st.integers(1, 4), seed=st.integers(0, 1000))
def test_of_itself_it_is_one_whatever_the_rotation_shift_and_scale(similarity: Measure, dim: int, seed: int):
    a = normal(100, dim, seed=seed)
    found = similarity(a, 3.0 * a @ orthogonal(dim, seed + 1) - 7.0, generator=generator(seed), num_permutations=10)
    assert found.value == pytest.approx(1.0, abs=1e-9)
    assert found.heldout is not None
    assert found.heldout == pytest.approx(1.0, abs=1e-9)
    assert found.null_low <= found.null_mean <= found.null_high < 1.0


@every
@settings(deadline=None, derandomize=True, max_examples=8)
@given(dims=st.tuples(st.integers(1, 3), st.integers(1, 3)), seed=st.integers(0, 1000))
def test_symmetric_and_blind_to_rotations(similarity: Measure, dims: tuple[int, int], seed: int):
    a, b = related(100, *dims, seed=seed)
    plain = similarity(a, b, generator=generator(seed), num_permutations=4)
    swapped = similarity(b, a, generator=generator(seed), num_permutations=1)
    turned = similarity(a @ orthogonal(dims[0], 5), b @ orthogonal(dims[1], 6), generator=generator(seed), num_permutations=4)
    for other in (swapped, turned):
        assert other.components == pytest.approx(plain.components, abs=1e-7)
        assert other.heldout_components == pytest.approx(plain.heldout_components, abs=1e-7)
    assert turned.null_mean == pytest.approx(plain.null_mean, abs=1e-7)
    assert swapped.dims == dims[::-1]


@every
def test_the_null_of_independent_data_contains_the_value(similarity: Measure):
    inside = 0
    for seed in range(30):
        a, b = normal(120, 3, seed=seed), normal(120, 2, seed=500 + seed)
        found = similarity(a, b, generator=generator(seed), num_permutations=50)
        assert found.heldout is not None
        inside += found.heldout <= found.null_high
        assert 0.0 <= found.heldout < 0.5
    assert inside >= 26


@every
def test_noise_lowers_it_and_the_interval_holds_the_value(similarity: Measure):
    a = normal(600, 2)
    clean, noisy = (a + level * normal(600, 2, seed=1) for level in (0.1, 1.0))
    high, low = (similarity(a, b, generator=generator(), num_permutations=20) for b in (clean, noisy))
    assert high.heldout is not None
    assert low.heldout is not None
    assert 0.95 < high.heldout < 1.0
    assert low.null_high < low.heldout < 0.85
    for found in (high, low):
        assert all(x[0] <= y <= x[1] for x, y in zip(found.heldout_intervals, found.heldout_components, strict=False))


@every
def test_all_say_what_they_stand_on(similarity: Measure):
    a, b = related(90, 3, 2)
    found = similarity(a, b, generator=generator(), num_permutations=7)
    assert found.name in SIMILARITIES
    assert SIMILARITIES[found.name] is similarity
    assert (found.num_fit, found.num_heldout, found.dims, found.num_permutations) == (45, 45, (3, 2), 7)
    assert len(found.components) == len(found.heldout_components) == len(found.null_components) == found.rank
    assert found.value == pytest.approx(sum(found.components) / found.rank)
    assert found.heldout == pytest.approx(sum(found.heldout_components) / found.rank)
    assert found == similarity(a, b, generator=generator(), num_permutations=7)
    low = similarity(a.bfloat16(), b.bfloat16(), generator=generator(), num_permutations=7)
    assert low == similarity(a.bfloat16().double(), b.bfloat16().double(), generator=generator(), num_permutations=7)


@every
def test_groups_are_kept_whole_in_the_split_and_in_the_null(similarity: Measure):
    groups = torch.arange(40).repeat_interleave(10)
    inside = {"groups": 0, "rows": 0}
    for seed in range(16):
        # Independent sides, but each nearly constant inside a sequence.
        a, b = (normal(40, 1, seed=s).repeat_interleave(10, 0) + 0.1 * normal(400, 1, seed=s + 1000) for s in (seed, seed + 5000))
        for name, given_groups in (("groups", groups), ("rows", None)):
            found = similarity(a, b, generator=generator(seed), groups=given_groups, num_permutations=40)
            assert found.heldout is not None
            inside[name] += found.heldout <= found.null_high
    assert inside["groups"] >= 13
    assert inside["rows"] <= 11


@every
def test_messages(similarity: Measure):
    a, b = related(60, 2, 3)
    with pytest.raises(ShapeError, match=r"shape \[60, 2\] and \[59, 3\]; expected the same number of rows.*read both"):
        similarity(a, b[1:], generator=generator())
    with pytest.raises(NonFiniteError, match=r"a of shape \[60, 2\]"):
        similarity(a / 0, b, generator=generator())
    with pytest.raises(TooFewSamplesError, match=r"expected at least 30 rows and 10 groups in either part; give more"):
        similarity(a[:58], b[:58], generator=generator())
    with pytest.raises(ConfigError, match="0 permutations; expected at least 1; leave"):
        similarity(a, b, generator=generator(), num_permutations=0)
