import itertools

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from invariscope.errors import ConfigError, ForeignFileError, NonFiniteError, ShapeError, TooFewSamplesError
from invariscope.numerics import QRFactor, factored_svd


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def stream(rows, chunks, *, centred, weights=None):
    factor = QRFactor(rows.shape[1], centred=centred)
    starts = [0, *torch.tensor(chunks).cumsum(0).tolist()]
    for start, stop in itertools.pairwise(starts):
        factor.update(rows[start:stop], None if weights is None else weights[start:stop])
        # Reading in between folds the buffer, so that chunkings really differ.
        if stop:
            factor.factor()
    return factor


@st.composite
def chunkings(draw, total):
    cuts = sorted(draw(st.lists(st.integers(0, total), max_size=4)))
    edges = [0, *cuts, total]
    return [b - a for a, b in itertools.pairwise(edges)]


@st.composite
def problems(draw):
    """H [n, D] and J [n, K, D] with ranks, means and weights of all kinds."""
    dim, num, outputs = draw(st.integers(2, 9)), draw(st.integers(2, 24)), draw(st.integers(1, 4))
    rank_h, rank_j = draw(st.integers(1, dim)), draw(st.integers(1, dim))
    seed = draw(st.integers(0, 10**6))
    activations = normal(num, rank_h, seed=seed) @ normal(rank_h, dim, seed=seed + 1) + 5 * normal(dim, seed=seed + 2)
    jacobians = (normal(num * outputs, rank_j, seed=seed + 3) @ normal(rank_j, dim, seed=seed + 4)).view(num, outputs, dim)
    weights = None
    if draw(st.booleans()):
        weights = torch.rand(num, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + 5)) * 3
    return activations, jacobians, weights, draw(chunkings(num)), draw(chunkings(num))


def projector(basis):
    q = torch.linalg.qr(basis).Q
    return q @ q.T


@settings(deadline=None, derandomize=True, max_examples=150)
@given(problems())
def test_streaming_equals_one_batch_equals_merged_equals_the_naive_svd(problem):
    activations, jacobians, weights, chunks_a, chunks_b = problem
    num, outputs, dim = jacobians.shape
    flat, flat_weights = jacobians.flatten(0, 1), None if weights is None else weights.repeat_interleave(outputs)

    # Naive: the N x NK matrix itself.
    w = torch.ones(num, dtype=torch.float64) if weights is None else weights
    mean = (w[:, None] * activations).sum(0) / w.sum()
    h = w.sqrt()[:, None] * (activations - mean)
    j = w.repeat_interleave(outputs).sqrt()[:, None] * flat
    u, sigma, v_transposed = torch.linalg.svd(h @ j.T, full_matrices=False)
    scale = max(float(h.norm() * j.norm()), 1e-300)

    cut = len(chunks_a) // 2
    middle = sum(chunks_a[:cut])
    halves = [
        stream(activations[:middle], chunks_a[:cut] or [0], centred=True, weights=None if weights is None else w[:middle]),
        stream(activations[middle:], chunks_a[cut:], centred=True, weights=None if weights is None else w[middle:]),
    ]
    lefts = {
        "one batch": stream(activations, [num], centred=True, weights=weights),
        "streamed": stream(activations, chunks_b, centred=True, weights=weights),
        "merged": QRFactor.merge(halves),
        "merged the other way round": QRFactor.merge(halves[::-1]),
    }
    rights = {
        "one batch": stream(flat, [num * outputs], centred=False, weights=flat_weights),
        "streamed": stream(flat, [outputs * chunk for chunk in chunks_a], centred=False, weights=flat_weights),
    }
    for name_left, left in lefts.items():
        assert left.num_rows == num
        assert left.total_weight == pytest.approx(float(w.sum()), rel=1e-12)
        assert torch.allclose(left.mean, mean, rtol=1e-10, atol=1e-10)
        assert torch.allclose(left.factor().T @ left.factor(), h.T @ h, rtol=1e-10, atol=1e-9)
        for name_right, right in rights.items():
            a, s, b = factored_svd(left.factor(), right.factor())
            padded = torch.zeros(max(dim, len(sigma)), dtype=torch.float64)
            padded[: len(sigma)] = sigma
            assert torch.allclose(s, padded[:dim], rtol=1e-8, atol=1e-12 * scale), (name_left, name_right)
            assert (padded[dim:] <= 1e-12 * scale).all()
            for k in range(1, min(dim, len(sigma)) + 1):
                following = float(sigma[k]) if k < len(sigma) else 0.0
                # Where two singular values nearly agree, or one is rounding, the subspace is not determined by the data.
                if sigma[k - 1] < 1e-4 * sigma[0] or sigma[k - 1] < 1e-8 * scale or following > 0.9 * sigma[k - 1]:
                    continue
                for ours, naive in ((left.factor().T @ a, h.T @ u), (right.factor().T @ b, j.T @ v_transposed.T)):
                    assert torch.allclose(projector(ours[:, :k]), projector(naive[:, :k]), atol=1e-8)


@settings(deadline=None, derandomize=True, max_examples=50)
@given(st.data(), st.integers(1, 8), st.integers(0, 20), st.booleans())
def test_the_factor_is_unique(data, dim, extra, centred):
    rows = normal(dim + 2 + extra, dim, seed=dim + 100 * extra) + 2
    first = stream(rows, data.draw(chunkings(len(rows))), centred=centred).factor()
    second = stream(rows.flip(0), data.draw(chunkings(len(rows))), centred=centred).factor()
    assert torch.allclose(first, second, atol=1e-10)
    assert (first.diagonal() > 0).all()
    assert torch.equal(first, first.triu())
    centre = rows - rows.mean(0) if centred else rows
    # Cholesky is the other way to the only upper triangle with a positive diagonal.
    assert torch.allclose(first, torch.linalg.cholesky(centre.T @ centre).T, atol=1e-8)


def test_merging_is_associative_and_leaves_its_parts():
    parts = [stream(normal(n, 4, seed=n), [n], centred=True) for n in (1, 3, 30)]
    before = [part.factor().clone() for part in parts]
    left = QRFactor.merge([QRFactor.merge(parts[:2]), parts[2]])
    right = QRFactor.merge([parts[0], QRFactor.merge(parts[1:])])
    assert torch.allclose(left.factor(), right.factor(), atol=1e-12)
    assert left.num_rows == right.num_rows == 34
    assert all(torch.equal(part.factor(), old) for part, old in zip(parts, before, strict=True))
    left.update(normal(5, 4))
    assert parts[0].num_rows == 1


def test_an_idle_worker_changes_nothing():
    factor = stream(normal(9, 3), [9], centred=True)
    merged = QRFactor.merge([QRFactor(3, centred=True), factor, QRFactor(3, centred=True)])
    assert torch.allclose(merged.factor(), factor.factor(), atol=1e-14)


def test_a_weight_counts_repetitions_and_zero_leaves_out():
    rows = normal(6, 3)
    repeated = stream(torch.cat([rows, rows[:2], rows[:2]]), [10], centred=True)
    weighted = QRFactor(3, centred=True)
    weighted.update(torch.cat([rows, 100 * rows]), torch.tensor([3.0, 3, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0]))
    assert torch.allclose(weighted.factor(), repeated.factor(), atol=1e-12)
    assert (weighted.num_rows, weighted.total_weight) == (12, 10.0)


def test_fewer_rows_than_dimensions_and_equal_rows():
    few = stream(normal(3, 7), [1, 2], centred=True).factor()
    assert few.shape == (7, 7)
    # Three rows about their mean span two directions.
    assert torch.equal(few[3:], torch.zeros(4, 7, dtype=torch.float64))
    assert torch.linalg.matrix_rank(few) == 2
    one = QRFactor(4, centred=True)
    one.update(torch.full((1, 4), 3.0))
    assert torch.equal(one.factor(), torch.zeros(4, 4, dtype=torch.float64))
    assert torch.allclose(one.mean, torch.full((4,), 3.0, dtype=torch.float64))


def test_a_large_mean_costs_no_precision():
    rows = normal(500, 3)
    plain, shifted = stream(rows, [500], centred=True), stream(rows + 1e5, [250, 250], centred=True)
    assert torch.allclose(plain.factor(), shifted.factor(), atol=1e-8)


def test_singular_values_of_ill_conditioned_rows_keep_their_digits():
    # A Gram matrix in float64 would lose everything below 1e-8 of the largest.
    spectrum = torch.tensor([1.0, 1e-5, 1e-10], dtype=torch.float64)
    rows = torch.linalg.qr(normal(60, 3)).Q * spectrum @ torch.linalg.qr(normal(3, 3, seed=1)).Q
    factor = stream(rows, [20, 20, 20], centred=False).factor()
    assert torch.allclose(torch.linalg.svdvals(factor), spectrum, rtol=1e-4)


def test_low_precision_input_is_taken_as_it_is():
    rows = normal(10, 2).to(torch.bfloat16)
    factor = stream(rows, [10], centred=True)
    assert factor.factor().dtype == torch.float64
    assert torch.allclose(factor.factor(), stream(rows.double(), [10], centred=True).factor())


def test_memory_does_not_grow_with_the_rows():
    def numbers(factor):
        tensors = [value for value in vars(factor).values() if isinstance(value, torch.Tensor)] + factor._buffer
        return sum(tensor.untyped_storage().nbytes() // 8 for tensor in tensors)

    factor = QRFactor(5, centred=True)
    rows = normal(10_000, 5).float()
    sizes = []
    for _ in range(4):
        factor.update(rows)
        factor.update(rows[:1000])
        sizes.append(numbers(factor))
    assert max(sizes) <= 2 * 4096 * 6 + 36
    assert factor.num_rows == 44_000
    repeated = torch.cat([rows, rows[:1000]]).double()
    centred = repeated - repeated.mean(0)
    assert torch.allclose(factor.factor().T @ factor.factor(), 4 * centred.T @ centred, rtol=1e-9, atol=1e-6)


def test_rows_are_copied_and_detached():
    rows = normal(4, 2).requires_grad_()
    factor = QRFactor(2, centred=False)
    factor.update(rows)
    with torch.no_grad():
        expected = rows.T @ rows
        rows.zero_()
    assert not factor.factor().requires_grad
    assert torch.allclose(factor.factor().T @ factor.factor(), expected.detach(), atol=1e-12)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("num", [2, 20])
def test_state_round_trip_goes_on_where_it_stopped(centred, num):
    factor = stream(normal(num, 4), [num], centred=centred)
    again = QRFactor.from_state(factor.state())
    for one in (factor, again):
        one.update(normal(7, 4, seed=3), torch.rand(7, generator=torch.Generator().manual_seed(0)))
    assert (again.dim, again.centred, again.num_rows) == (4, centred, num + 7)
    assert again.total_weight == factor.total_weight
    assert torch.allclose(again.factor(), factor.factor(), atol=1e-13)
    assert all(value.is_contiguous() for value in factor.state().values())


def test_factored_svd_multiplies_back():
    left, right = normal(5, 5).triu(), normal(5, 5, seed=1).triu()
    a, sigma, b = factored_svd(left, right)
    assert torch.allclose(a * sigma @ b.T, left @ right.T, atol=1e-12)
    assert (sigma.diff() <= 0).all()
    # The balancing identity: X and Y have Y_k^T X_k = Sigma_k.
    assert torch.allclose((right.T @ b).T @ (left.T @ a), (a.T @ left @ right.T @ b).T, atol=1e-10)


def test_messages():
    factor = QRFactor(3, centred=True)
    with pytest.raises(ShapeError, match=r"rows of shape \[2, 4\] for a factor of dimension 3; expected \[n, 3\]; flatten"):
        factor.update(torch.ones(2, 4))
    with pytest.raises(ShapeError, match=r"rows of shape \[2, 2, 3\]"):
        factor.update(torch.ones(2, 2, 3))
    with pytest.raises(NonFiniteError, match=r"rows of shape \[2, 3\].*first at \[0, 1\]"):
        factor.update(torch.tensor([[0.0, float("inf"), 0], [0, 0, 0]]))
    with pytest.raises(ConfigError, match="smallest is -1; expected non-negative"):
        factor.update(torch.ones(2, 3), torch.tensor([1.0, -1.0]))
    with pytest.raises(ShapeError, match="1 weights for 2 rows; expected one weight a row"):
        factor.update(torch.ones(2, 3), torch.ones(1))
    # None of them left anything behind.
    assert factor.num_rows == 0
    for read in (factor.factor, lambda: factor.mean):
        with pytest.raises(TooFewSamplesError, match=r"seen 0 rows of total weight 0; expected at least one row.*update"):
            read()
    with pytest.raises(ConfigError, match="the mean of a factor that is not centred; expected centred=True; make"):
        QRFactor(3, centred=False).mean
    with pytest.raises(ShapeError, match="a factor of dimension 0; expected at least 1"):
        QRFactor(0, centred=True)
    with pytest.raises(TooFewSamplesError, match="no factors to merge; expected at least one; pass"):
        QRFactor.merge([])
    with pytest.raises(ShapeError, match=r"dimension 3 \(centred\) and 3 \(not centred\); expected one dimension.*merge only"):
        QRFactor.merge([factor, QRFactor(3, centred=False)])
    with pytest.raises(ShapeError, match=r"shape \[2, 2\] and \[3, 3\]; expected two square.*use the factors"):
        factored_svd(torch.eye(2), torch.eye(3))


def test_a_damaged_state_is_refused():
    state = stream(normal(5, 3), [5], centred=True).state()
    with pytest.raises(ForeignFileError, match=r"a factor's state without num_rows; expected the entries.*save it again"):
        QRFactor.from_state({name: value for name, value in state.items() if name != "num_rows"})
    with pytest.raises(ForeignFileError, match=r"a triangle of shape \[3, 4\]; expected a square matrix"):
        QRFactor.from_state({**state, "triangle": state["triangle"][1:]})
    with pytest.raises(NonFiniteError, match="triangle"):
        QRFactor.from_state({**state, "triangle": state["triangle"] * float("nan")})


@pytest.mark.parametrize("name", ["num_rows", "total_weight", "centred"])
def test_a_state_whose_numbers_are_none_is_refused(name: str):
    factor = QRFactor(2, centred=True)
    factor.update(torch.ones(3, 2))
    state = factor.state() | {name: torch.zeros(2)}
    with pytest.raises(ForeignFileError, match=f"whose {name} has 2 entries; expected one number"):
        QRFactor.from_state(state)
