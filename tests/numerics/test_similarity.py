import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from invariscope.errors import ConfigError, NonFiniteError, RankError, ShapeError, TooFewSamplesError
from invariscope.numerics import CCA, cca_similarity, fit_cca
from invariscope.numerics.resampling import group_blocks, permuted_blocks, split_groups


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=generator(seed))


def related(num, dim_a, dim_b, seed=0):
    a = normal(num, dim_a, seed=seed)
    return a, 0.7 * a @ normal(dim_a, dim_b, seed=seed + 1) + normal(num, dim_b, seed=seed + 2)


def test_planted_correlations_come_back():
    # Orthonormal columns without a mean: the sample covariances are exact.
    q = torch.linalg.qr(torch.cat([torch.ones(40, 1, dtype=torch.float64), normal(40, 5)], 1)).Q[:, 1:]
    a = q[:, :2]
    b = torch.stack([0.3 * q[:, 0] + (1 - 0.09) ** 0.5 * q[:, 2], 0.9 * q[:, 1] + (1 - 0.81) ** 0.5 * q[:, 3], q[:, 4]], 1)
    fit = fit_cca(a @ normal(2, 2, seed=4) + 3, b @ normal(3, 3, seed=5) - 8)
    assert fit.correlations.tolist() == pytest.approx([0.9, 0.3], abs=1e-12)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 1000))
def test_agrees_with_numpy_on_whitened_covariances(dim_a, dim_b, seed):
    a, b = related(60, dim_a, dim_b, seed)
    covariance = np.cov(np.concatenate([a.numpy(), b.numpy()], 1).T)
    covariance = np.atleast_2d(covariance)

    def inverse_root(matrix):
        values, vectors = np.linalg.eigh(matrix)
        return vectors @ np.diag(values**-0.5) @ vectors.T

    white = inverse_root(covariance[:dim_a, :dim_a]) @ covariance[:dim_a, dim_a:] @ inverse_root(covariance[dim_a:, dim_a:])
    fit = fit_cca(a, b)
    assert fit.correlations.numpy() == pytest.approx(np.linalg.svd(white, compute_uv=False), abs=1e-9)
    # The variates have variance 1, are uncorrelated, and correlate as said.
    u, v = (x.numpy() for x in fit.variates(a, b))
    rank = min(dim_a, dim_b)
    together = np.atleast_2d(np.cov(np.concatenate([u, v], 1).T))
    assert together[:rank, :rank] == pytest.approx(np.eye(rank), abs=1e-9)
    assert together[rank:, rank:] == pytest.approx(np.eye(rank), abs=1e-9)
    assert together[:rank, rank:] == pytest.approx(np.diag(fit.correlations.numpy()), abs=1e-9)
    assert fit.score(a, b).numpy() == pytest.approx(fit.correlations.numpy(), abs=1e-9)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(st.integers(0, 1000), st.integers(1, 3), st.integers(1, 3))
def test_blind_to_affine_maps_and_symmetric(seed, dim_a, dim_b):
    a, b = related(80, dim_a, dim_b, seed)
    map_a, map_b = (normal(d, d, seed=seed + 10) + 3 * torch.eye(d, dtype=torch.float64) for d in (dim_a, dim_b))
    plain = cca_similarity(a, b, generator=generator(seed), num_permutations=3)
    moved = cca_similarity(a @ map_a + 4, b @ map_b - 1, generator=generator(seed), num_permutations=3)
    swapped = cca_similarity(b, a, generator=generator(seed), num_permutations=3)
    for other in (moved, swapped):
        assert other.components == pytest.approx(plain.components, abs=1e-8)
        assert other.heldout_components == pytest.approx(plain.heldout_components, abs=1e-7)
    assert moved.null_components == pytest.approx(plain.null_components, abs=1e-7)


def test_signs_follow_the_convention():
    fit = fit_cca(*related(50, 3, 4))
    assert (fit.directions_a.gather(0, fit.directions_a.abs().argmax(0)[None]) > 0).all()
    assert (fit.score(*related(50, 3, 4)) > 0).all()


def test_similar_to_itself():
    a = normal(200, 3)
    similarity = cca_similarity(a, a @ normal(3, 3, seed=7) + 2, generator=generator())
    assert similarity.value == pytest.approx(1, abs=1e-10)
    assert similarity.heldout == pytest.approx(1, abs=1e-10)
    assert similarity.null_high < 0.35
    assert similarity.null_low <= similarity.null_mean <= similarity.null_high


def test_the_null_of_independent_data_contains_the_value():
    inside = 0
    for seed in range(60):
        similarity = cca_similarity(
            normal(200, 3, seed=seed), normal(200, 2, seed=500 + seed), generator=generator(seed), num_permutations=100
        )
        assert similarity.heldout is not None
        inside += similarity.null_low <= similarity.heldout <= similarity.null_high
    assert inside >= 53


def test_block_shuffles_keep_the_null_honest_where_rows_of_a_sequence_are_alike():
    groups = torch.arange(40).repeat_interleave(10)
    inside = {"groups": 0, "rows": 0}
    for seed in range(40):
        # Independent sides, but each nearly constant inside a sequence.
        a, b = (normal(40, 1, seed=s).repeat_interleave(10, 0) + 0.1 * normal(400, 1, seed=s + 1000) for s in (seed, seed + 5000))
        for name, given_groups in (("groups", groups), ("rows", None)):
            similarity = cca_similarity(a, b, generator=generator(seed), groups=given_groups, num_permutations=60)
            assert similarity.heldout is not None
            inside[name] += similarity.heldout <= similarity.null_high
    assert inside["groups"] >= 36
    assert inside["rows"] <= 25


def test_the_null_repeats_the_whole_procedure():
    # Against the plain way: shuffle the rows, fit, score.
    a, b = related(120, 3, 2)
    groups = torch.arange(120) // 3
    similarity = cca_similarity(a, b, generator=generator(3), groups=groups, num_permutations=20)
    g = generator(3)
    heldout = split_groups(groups, 0.5, g)
    fits, tests = (a[~heldout], b[~heldout]), (a[heldout], b[heldout])
    blocks = [group_blocks(groups[~heldout]), group_blocks(groups[heldout])]
    scores = []
    for _ in range(20):
        first = permuted_blocks(blocks[0], len(fits[0]), g)
        second = permuted_blocks(blocks[1], len(tests[0]), g)
        scores.append(fit_cca(fits[0], fits[1][first]).score(tests[0], tests[1][second]).clamp_min(0))
    scores = torch.stack(scores)
    assert similarity.null_components == pytest.approx(scores.mean(0).tolist(), abs=1e-10)
    assert similarity.null_mean == pytest.approx(float(scores.mean()), abs=1e-10)
    assert similarity.null_high == pytest.approx(float(scores.mean(1).quantile(0.975)), abs=1e-10)


def test_the_value_is_fitted_on_one_part_and_scored_on_the_other():
    a, b = related(150, 2, 2)
    groups = torch.randint(0, 30, (150,), generator=generator(1))
    similarity = cca_similarity(a, b, generator=generator(2), groups=groups, heldout_share=0.4, num_permutations=5)
    heldout = split_groups(groups, 0.4, generator(2))
    fit = fit_cca(a[~heldout], b[~heldout])
    assert similarity.components == pytest.approx(fit.correlations.tolist())
    assert similarity.heldout_components == pytest.approx(fit.score(a[heldout], b[heldout]).tolist())
    assert similarity.value == pytest.approx(float(fit.correlations.mean()))
    assert (similarity.num_fit, similarity.num_heldout) == (int((~heldout).sum()), int(heldout.sum()))
    assert (similarity.name, similarity.dims, similarity.rank, similarity.num_permutations) == ("cca", (2, 2), 2, 5)


def test_in_sample_flatters_and_held_out_does_not():
    similarity = cca_similarity(normal(800, 40), normal(800, 40, seed=1), generator=generator(), num_permutations=10)
    assert similarity.value > 0.25
    assert similarity.heldout is not None
    assert similarity.heldout < 0.1


def test_held_out_correlations_below_zero_count_as_zero():
    seen = [
        cca_similarity(normal(40, 2, seed=s), normal(40, 2, seed=s + 100), generator=generator(s), num_permutations=5)
        for s in range(20)
    ]
    assert min(min(s.heldout_components) for s in seen) == 0.0
    assert min(min(s.null_components) for s in seen) >= 0.0


def test_a_variate_that_does_not_vary_scores_zero():
    fit = fit_cca(*related(30, 1, 1))
    assert fit.score(torch.ones(5, 1), normal(5, 1)).tolist() == [0.0]


def test_equal_seeds_give_equal_results_and_low_precision_input_is_upcast():
    a, b = (x.to(torch.bfloat16) for x in related(100, 2, 3))
    first = cca_similarity(a, b, generator=generator(), num_permutations=10)
    assert first == cca_similarity(a.double(), b.double(), generator=generator(), num_permutations=10)
    assert fit_cca(a, b).directions_a.dtype == torch.float64


def test_messages():
    a, b = related(60, 2, 3)
    with pytest.raises(ShapeError, match=r"shape \[60, 2\] and \[59, 3\]; expected the same number of rows.*read both"):
        fit_cca(a, b[1:])
    with pytest.raises(TooFewSamplesError, match=r"5 rows for coordinates of 2 and 3.*at least 6 rows.*give more samples"):
        fit_cca(a[:5], b[:5])
    with pytest.raises(RankError, match=r"b of shape.*column 1 is constant or a combination.*ask for a smaller rank"):
        fit_cca(a, torch.cat([b[:, :1], b[:, :1] * 2 + 1], 1))
    with pytest.raises(NonFiniteError, match=r"a of shape \[60, 2\]"):
        fit_cca(a / 0, b)
    with pytest.raises(ShapeError, match="rows of 3 and 2 dimensions; expected 2 and 3, as fitted; score"):
        fit_cca(a, b).score(b, a)
    with pytest.raises(TooFewSamplesError, match="1 rows to score; expected at least 2"):
        fit_cca(a, b).score(a[:1], b[:1])
    with pytest.raises(TooFewSamplesError, match=r"29 rows in 29 groups to be fitted.*expected at least 30 rows and 10 groups"):
        cca_similarity(a[:58], b[:58], generator=generator())
    with pytest.raises(TooFewSamplesError, match=r"in 3 groups to be fitted.*10 groups in either part; give more samples"):
        cca_similarity(a, b, generator=generator(), groups=torch.arange(60) // 10)
    with pytest.raises(TooFewSamplesError, match="to be held out"):
        cca_similarity(a, b, generator=generator(), heldout_share=0.1)
    with pytest.raises(ConfigError, match="0 permutations; expected at least 1; leave"):
        cca_similarity(a, b, generator=generator(), num_permutations=0)
    fit = fit_cca(a, b)
    with pytest.raises(ShapeError, match=r"directions_b of shape \[3, 2\] with a mean of shape \[2\]; expected \[2, 2\]"):
        CCA(
            mean_a=fit.mean_a,
            mean_b=fit.mean_a,
            directions_a=fit.directions_a,
            directions_b=fit.directions_b,
            correlations=fit.correlations,
        )
