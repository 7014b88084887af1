import math

import hypothesis.strategies as st
import pytest
import scipy.linalg
import scipy.stats
import torch
from hypothesis import given, settings

from invariscope.errors import ConfigError, NonFiniteError, RankError, ShapeError
from invariscope.numerics import (
    chance_overlap,
    fix_signs,
    orthonormal_basis,
    overlap,
    overlap_similarity,
    principal_angles,
    random_subspace,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=generator(seed))


dims = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(4, 9), st.integers(0, 1000))


def test_the_basis_is_nested_and_points_along_the_columns():
    matrix = normal(6, 4) * torch.tensor([1.0, 1e-6, 1e3, 1.0])
    basis = orthonormal_basis(matrix)
    assert torch.allclose(basis.T @ basis, torch.eye(4, dtype=torch.float64), atol=1e-12)
    for k in range(1, 5):
        assert torch.allclose(basis[:, :k], orthonormal_basis(matrix[:, :k]), atol=1e-12)
    assert ((basis * matrix).sum(0) > 0).all()


def test_the_basis_returns_in_the_callers_dtype_but_is_made_in_float64():
    matrix = normal(5, 2)
    matrix[:, 1] = matrix[:, 0] + 1e-5 * matrix[:, 1]
    single = matrix.float()
    assert orthonormal_basis(single).dtype == torch.float32
    assert torch.allclose(orthonormal_basis(single), orthonormal_basis(single.double()).float())
    assert orthonormal_basis(torch.tensor([[2], [0]])).dtype == torch.float64


def test_signs_make_the_largest_entry_positive_and_turn_the_read_side_too():
    write, read = normal(5, 8), normal(5, 8, seed=1)
    fixed_write, fixed_read = fix_signs(write, read)
    assert fixed_read is not None
    assert (fixed_write.gather(0, fixed_write.abs().argmax(0)[None]) > 0).all()
    assert torch.allclose(fixed_write @ fixed_read.T, write @ read.T)
    assert torch.equal(fix_signs(-write, -read)[0], fixed_write)
    assert torch.equal(fix_signs(fixed_write)[0], fixed_write)
    assert fix_signs(write)[1] is None


def test_ties_go_to_the_lowest_index():
    tied = torch.tensor([[0.1, 0.1], [-0.7, 0.7], [0.7 * (1 + 5e-10), -0.7 * (1 + 5e-10)]], dtype=torch.float64)
    assert torch.equal(fix_signs(tied)[0], torch.stack([-tied[:, 0], tied[:, 1]], 1))
    # Beyond 1e-9 it is no tie.
    apart = torch.tensor([[-0.7], [0.7 * (1 + 1e-8)]], dtype=torch.float64)
    assert torch.equal(fix_signs(apart)[0], apart)


def test_signs_keep_dtype_and_zero_columns():
    write = torch.tensor([[0.0, -2.0], [0.0, 1.0]], dtype=torch.float32)
    fixed, _ = fix_signs(write)
    assert fixed.dtype == torch.float32
    assert fixed.tolist() == [[0.0, 2.0], [0.0, -1.0]]


def test_random_subspaces_are_orthonormal_uniform_and_leave_the_global_generator():
    state = torch.get_rng_state()
    basis = random_subspace(7, 3, generator())
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.allclose(basis.T @ basis, torch.eye(3, dtype=torch.float64), atol=1e-12)
    assert torch.equal(basis, random_subspace(7, 3, generator()))
    # A coordinate of a uniform unit vector in 3 dimensions is uniform on [-1, 1] (Archimedes).
    g = generator(1)
    entries = [float(random_subspace(3, 2, g)[0, 1]) for _ in range(1500)]
    assert scipy.stats.kstest(entries, "uniform", args=(-1, 2)).pvalue > 0.01


@pytest.mark.parametrize("small", [0.0, 1e-12, 1e-9, 1e-5, 0.3])
@pytest.mark.parametrize("large", [0.3, 0.8, math.pi / 2 - 1e-7, math.pi / 2])
def test_angles_keep_their_digits(small, large):
    # Angles on either side of 45 degrees together: there scipy is off by 1e-8.
    turn = torch.linalg.qr(normal(6, 6)).Q
    axes = torch.eye(6, dtype=torch.float64)
    other = torch.stack([math.cos(t) * axes[:, i] + math.sin(t) * axes[:, i + 2] for i, t in enumerate((small, large))], 1)
    mix = torch.tensor([[1.0, 2.0], [0.5, -1.0]], dtype=torch.float64)
    angles = principal_angles(turn @ axes[:, :2] @ mix, turn @ other)
    assert angles.tolist() == pytest.approx([large, small], abs=1e-14)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(dims)
def test_angles_agree_with_scipy(case):
    ka, kb, dim, seed = case
    a, b = normal(dim, ka, seed=seed), normal(dim, kb, seed=seed + 1)
    expected = scipy.linalg.subspace_angles(a.numpy(), b.numpy())
    # Only where scipy's choice between sine and cosine does not matter.
    steady = (expected > 1e-3) & (expected < math.pi / 2 - 1e-3)
    assert principal_angles(a, b).numpy()[steady] == pytest.approx(expected[steady], abs=1e-10)
    assert principal_angles(b, a).numpy() == pytest.approx(principal_angles(a, b).numpy(), abs=1e-13)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(dims)
def test_overlap_is_symmetric_basis_free_and_the_sum_of_squared_cosines(case):
    ka, kb, dim, seed = case
    a, b = normal(dim, ka, seed=seed), normal(dim, kb, seed=seed + 1)
    value = overlap(a, b)
    assert value == pytest.approx(overlap(b, a), abs=1e-12)
    assert -1e-12 <= value <= 1 + 1e-12
    turn, mix = torch.linalg.qr(normal(dim, dim, seed=seed + 2)).Q, torch.linalg.qr(normal(ka, ka, seed=seed + 3)).Q
    assert overlap(turn @ a @ mix * 7, turn @ b) == pytest.approx(value, abs=1e-9)
    assert overlap(a, a @ mix) == pytest.approx(1, abs=1e-12)
    assert float(principal_angles(a, b).cos().square().sum()) / math.sqrt(ka * kb) == pytest.approx(value, abs=1e-9)


def test_random_pairs_overlap_by_chance():
    g = generator(3)
    values = [overlap(random_subspace(12, 2, g), random_subspace(12, 3, g)) for _ in range(600)]
    mean = sum(values) / len(values)
    error = torch.tensor(values).std().item() / math.sqrt(len(values))
    assert chance_overlap(2, 3, 12) == pytest.approx(math.sqrt(6) / 12)
    assert abs(mean - chance_overlap(2, 3, 12)) < 3 * error


def test_overlap_similarity_stands_beside_its_null():
    a, b = random_subspace(16, 3, generator(0)), random_subspace(16, 2, generator(1))
    similarity = overlap_similarity(a, b, generator=generator(2))
    assert similarity.value == pytest.approx(overlap(a, b))
    assert similarity.null_mean == chance_overlap(3, 2, 16)
    assert similarity.null_low < similarity.null_mean < similarity.null_high
    assert sum(similarity.null_components) / math.sqrt(6) == pytest.approx(similarity.null_mean, rel=0.05)
    assert sum(similarity.components) / math.sqrt(6) == pytest.approx(similarity.value)
    assert list(similarity.components) == sorted(similarity.components, reverse=True)
    assert (similarity.name, similarity.dims, similarity.rank, similarity.num_permutations) == ("overlap", (16, 16), 2, 2000)
    assert similarity.heldout is None
    assert overlap_similarity(b, a, generator=generator(2)).null_high == pytest.approx(similarity.null_high)


def test_the_null_interval_holds_95_percent_of_random_pairs():
    g = generator(5)
    null = overlap_similarity(random_subspace(10, 2, g), random_subspace(10, 2, g), generator=g, num_draws=4000)
    values = torch.tensor([overlap(random_subspace(10, 2, g), random_subspace(10, 2, g)) for _ in range(1000)])
    inside = ((values >= null.null_low) & (values <= null.null_high)).double().mean()
    assert 0.93 < float(inside) < 0.97


def test_the_null_of_lines_is_the_beta_law():
    g = generator(0)
    null = overlap_similarity(random_subspace(9, 1, g), random_subspace(9, 1, g), generator=g, num_draws=20_000)
    law = scipy.stats.beta(0.5, 4)
    assert null.null_low == pytest.approx(law.ppf(0.025), abs=3e-4)
    assert null.null_high == pytest.approx(law.ppf(0.975), rel=0.03)


def test_self_overlap_is_one_with_components_one():
    a = normal(8, 3)
    similarity = overlap_similarity(a, a, generator=generator(), num_draws=50)
    assert similarity.value == pytest.approx(1, abs=1e-12)
    assert similarity.components == pytest.approx((1, 1, 1), abs=1e-12)


def test_messages():
    with pytest.raises(ShapeError, match=r"4 and 5 dimensions \(shapes \[4, 2\] and \[5, 2\]\); expected one.*CCA"):
        overlap(normal(4, 2), normal(5, 2))
    for measure in (principal_angles, lambda a, b: overlap_similarity(a, b, generator=generator())):
        with pytest.raises(ShapeError, match="4 and 5 dimensions"):
            measure(normal(4, 2), normal(5, 2))
    with pytest.raises(RankError, match="rank 5 in 4 dimensions; expected 1 to 4; ask for a smaller rank"):
        random_subspace(4, 5, generator())
    with pytest.raises(RankError, match="5 columns in 4 dimensions; expected 1 to 4 columns"):
        orthonormal_basis(normal(4, 5))
    dependent = normal(5, 3)
    dependent[:, 2] = dependent[:, 0] - dependent[:, 1]
    with pytest.raises(RankError, match=r"shape \[5, 3\] whose column 2 adds no direction.*expected 3 ind.*ask for rank 2"):
        orthonormal_basis(dependent)
    with pytest.raises(RankError, match=r"column 0 adds no direction.*it is zero"):
        orthonormal_basis(torch.zeros(3, 1))
    with pytest.raises(NonFiniteError, match=r"matrix of shape \[1, 1\]"):
        orthonormal_basis(torch.tensor([[float("nan")]]))
    with pytest.raises(ShapeError, match=r"write of shape \[3, 2\] and read of shape \[3, 1\]; expected one shape; give"):
        fix_signs(normal(3, 2), normal(3, 1))
    with pytest.raises(RankError, match="ranks 3 and 9 in 8 dimensions; expected 1 to 8"):
        chance_overlap(3, 9, 8)
    with pytest.raises(ConfigError, match="0 draws; expected at least 1"):
        overlap_similarity(normal(4, 2), normal(4, 2), generator=generator(), num_draws=0)
