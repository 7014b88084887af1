"""Moments: streaming, merged and naive agree; a rotation or a shift of the activations does what it must; files; messages."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from cores.hand_made import generator, orthogonal
from invariscope.cores import Moments, Provenance, by_energy, by_gap
from invariscope.cores.moments import PROJECTIONS
from invariscope.errors import (
    ConfigError,
    ForeignFileError,
    NonFiniteError,
    RankError,
    ShapeError,
    TooFewSamplesError,
    UnknownNameError,
)


def data(num: int, dim: int, outputs: int, seed: int, rank: int | None = None) -> tuple[Tensor, Tensor]:
    """Activations about a mean that is not zero and Jacobians, both in a subspace of the given rank."""
    source = generator(seed)
    rank = dim if rank is None else rank
    scales = torch.logspace(0, -1.5, rank, dtype=torch.float64)
    mix = orthogonal(dim, seed + 1)[:rank]
    activations = torch.randn(num, rank, dtype=torch.float64, generator=source) * scales @ mix + 3.0
    jacobians = torch.randn(num, outputs, rank, dtype=torch.float64, generator=source) * scales @ mix
    return activations, jacobians


def filled(activations: Tensor, jacobians: Tensor, weights: Tensor | None = None, **more: Provenance) -> Moments:
    moments = Moments(activations.shape[1], **more)
    moments.update(activations, jacobians, weights=weights)
    return moments


def projector(moments: Moments, rank: int, projection: str) -> Tensor:
    core = moments.core(rank, projection)
    return core.write @ core.read.T


def naive(activations: Tensor, jacobians: Tensor, weights: Tensor) -> tuple[Tensor, dict[str, Tensor], Tensor]:
    """σ / Σw, X and Y by the SVD of the N x N K matrix H Jᵀ itself, and the mean."""
    mean = weights @ activations / weights.sum()
    H = weights.sqrt()[:, None] * (activations - mean)
    J = (weights.sqrt()[:, None, None] * jacobians).flatten(0, 1)
    U, sigma, Vt = torch.linalg.svd(H @ J.T, full_matrices=False)
    return sigma / weights.sum(), {"X": H.T @ U, "Y": J.T @ Vt.T}, mean


def naive_projectors(sides: dict[str, Tensor], rank: int) -> dict[str, Tensor]:
    X, Y = sides["X"][:, :rank], sides["Y"][:, :rank]
    return {
        "activation": X @ torch.linalg.pinv(X),
        "adjoint": Y @ torch.linalg.pinv(Y),
        "oblique": X @ torch.linalg.inv(Y.T @ X) @ Y.T,
    }


@given(
    seed=st.integers(0, 10**6),
    num=st.integers(5, 40),
    dim=st.integers(2, 8),
    outputs=st.integers(1, 4),
    lost=st.integers(0, 4),
    chunk=st.integers(1, 17),
    parts=st.integers(1, 4),
    weighted=st.booleans(),
)
@settings(deadline=None, derandomize=True, max_examples=120)
def test_streamed_merged_one_batch_and_naive_agree(
    seed: int, num: int, dim: int, outputs: int, lost: int, chunk: int, parts: int, weighted: bool
):
    H, J = data(num, dim, outputs, seed, rank=max(1, dim - lost))
    weights = torch.rand(num, dtype=torch.float64, generator=generator(seed)) + 0.1 if weighted else torch.ones(num).double()
    given_weights = weights if weighted else None
    one = filled(H, J, given_weights)
    streamed = Moments(dim)
    for start in range(0, num, chunk):
        part = slice(start, start + chunk)
        streamed.update(H[part], J[part], weights=weights[part] if weighted else None)
    workers = [Moments(dim) for _ in range(parts)]
    owner = torch.randint(parts, (num,), generator=generator(seed))
    for i, worker in enumerate(workers):
        worker.update(H[owner == i], J[owner == i], weights=weights[owner == i] if weighted else None)
    merged = Moments.merge(workers)
    sigma, sides, mean = naive(H, J, weights)
    size = min(dim, len(sigma))
    # The best separated rank: at a degenerate one the projector is not unique.
    gaps = (sigma - torch.cat([sigma[1:], torch.zeros(1)]))[:size] / sigma[0]
    k = int(gaps.argmax()) + 1
    assume(float(gaps[k - 1]) > 0.02 and float(sigma[k - 1] / sigma[0]) > 1e-2)
    expected = naive_projectors(sides, k)
    for moments in (one, streamed, merged):
        assert moments.num_samples == num
        assert torch.allclose(moments.mean, mean, rtol=0, atol=1e-10)
        assert torch.allclose(moments.singular_values[:size], sigma[:size], rtol=0, atol=1e-8 * float(sigma[0]))
        for name in PROJECTIONS:
            assert torch.allclose(projector(moments, k, name), expected[name], rtol=0, atol=1e-8), name


def test_a_single_output_needs_no_axis_and_a_weight_of_two_is_the_row_twice():
    H, J = data(30, 5, 1, seed=0)
    assert torch.equal(filled(H, J).singular_values, filled(H, J[:, 0]).singular_values)
    twice = filled(torch.cat([H, H[:10]]), torch.cat([J, J[:10]]))
    weighted = filled(H, J, torch.cat([torch.full((10,), 2.0), torch.ones(20)]))
    assert torch.allclose(twice.singular_values, weighted.singular_values, atol=1e-12)
    assert torch.allclose(projector(twice, 2, "oblique"), projector(weighted, 2, "oblique"), atol=1e-10)


def test_weights_that_sum_to_one_give_the_spectrum_of_the_mean():
    H, J = data(30, 5, 2, seed=1)
    equal = filled(H, J, torch.full((30,), 1 / 30, dtype=torch.float64))
    assert torch.allclose(equal.singular_values, filled(H, J).singular_values, atol=1e-12)


def test_the_scale_of_many_samples_is_that_of_few():
    H, J = data(40, 4, 2, seed=2)
    repeated = filled(H.repeat(5, 1), J.repeat(5, 1, 1))
    assert torch.allclose(repeated.singular_values, filled(H, J).singular_values, atol=1e-12)


def test_activations_are_centred_and_jacobians_are_not():
    H, J = data(60, 5, 2, seed=3)
    base = filled(H, J)
    shifted = filled(H + torch.tensor([100.0, -7.0, 3.0, 0.0, 1.0]), J)
    assert torch.allclose(shifted.singular_values, base.singular_values, atol=1e-10)
    for name in PROJECTIONS:
        a, b = base.core(2, name), shifted.core(2, name)
        assert torch.allclose(a.read, b.read, atol=1e-9)
        assert torch.allclose(a.write, b.write, atol=1e-9)
        assert torch.allclose(b.mean - a.mean, torch.tensor([100.0, -7.0, 3.0, 0.0, 1.0]).double(), atol=1e-10)
    pushed = filled(H, J + 1.0)
    assert float((pushed.singular_values - base.singular_values).abs().max()) > 0.1


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_a_rotation_of_the_space_rotates_the_core_and_changes_nothing_else(projection: str):
    H, J = data(80, 7, 3, seed=4)
    turn = orthogonal(7, seed=9)
    base, turned = filled(H, J), filled(H @ turn.T, J @ turn.T)
    assert torch.allclose(turned.singular_values, base.singular_values, atol=1e-12)
    a, b = base.core(3, projection), turned.core(3, projection)
    assert torch.allclose(b.write @ b.read.T, turn @ a.write @ a.read.T @ turn.T, atol=1e-10)
    assert torch.allclose(b.mean, turn @ a.mean, atol=1e-12)
    # Signs are fixed by the largest entry, and so belong to the basis.
    assert torch.allclose(b.coordinates(H @ turn.T).abs(), a.coordinates(H).abs(), atol=1e-9)


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_oblique_cores_are_balanced(rank: int):
    moments = filled(*data(50, 6, 2, seed=5))
    sides = moments.sides()
    X, Y = sides.activation[:, :rank], sides.adjoint[:, :rank]
    assert torch.allclose(Y.T @ X, torch.diag(sides.scale[:rank]), atol=1e-10 * float(sides.scale[0]))
    core = moments.core(rank)
    assert core.provenance.projection == "oblique"
    assert torch.allclose(core.read.T @ core.write, torch.eye(rank).double(), atol=1e-10)
    assert torch.allclose(core.write.norm(dim=0), torch.ones(rank).double())
    P = core.write @ core.read.T
    assert torch.allclose(P @ P, P, atol=1e-10)
    assert float((P - P.T).abs().max()) > 1e-3


@pytest.mark.parametrize("projection", ["activation", "adjoint"])
def test_orthogonal_cores_are_nested_in_order(projection: str):
    moments = filled(*data(50, 6, 2, seed=6))
    large, small = moments.core(4, projection), moments.core(2, projection)
    assert torch.equal(large.read, large.write)
    assert torch.allclose(large.write.T @ large.write, torch.eye(4).double(), atol=1e-12)
    assert torch.allclose(large.write[:, :2], small.write, atol=1e-10)


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_the_largest_entry_of_a_write_column_is_positive(projection: str):
    write = filled(*data(50, 6, 2, seed=7)).core(4, projection).write
    assert bool((write.gather(0, write.abs().argmax(0)[None]) > 0).all())


def test_rank_rules_are_written_into_the_provenance():
    moments = filled(*data(50, 6, 2, seed=8), provenance=Provenance(site="here", objective="logits"))
    core = moments.core(by_energy(0.9), "adjoint")
    assert core.provenance.rank_rule == "energy 0.9"
    assert (core.provenance.site, core.provenance.objective, core.provenance.num_samples) == ("here", "logits", 50)
    assert "torch" in core.provenance.versions
    assert moments.core(by_gap()).provenance.rank_rule == "largest gap of the first 8"
    assert moments.core(2).provenance.rank_rule == "given"


def test_rank_above_the_data_is_refused():
    moments = filled(*data(50, 6, 2, seed=9, rank=3))
    with pytest.raises(RankError) as caught:
        moments.core(4)
    assert caught.value.given == "rank 4 of a site of dimension 6"
    assert caught.value.expected == "1 to 3: the data carry no more directions"
    assert "smaller rank" in caught.value.do


def test_oblique_singular_names_the_rank():
    scales = torch.tensor([1.0, 0.5, 1e-5], dtype=torch.float64)
    H, J = (torch.randn(40, 3, dtype=torch.float64, generator=generator(seed)) * scales for seed in (0, 1))
    moments = filled(H, J)
    with pytest.raises(RankError) as caught:
        moments.core(3)
    assert caught.value.given == "an oblique core of rank 3"
    assert caught.value.expected.startswith("at most 2: YᵀX is singular from 3 on")
    assert "projection='adjoint'" in caught.value.do
    assert moments.core(2).rank == 2
    assert moments.core(3, "adjoint").rank == 3


def test_unknown_projections_list_the_nearest():
    with pytest.raises(UnknownNameError, match=r"unknown projection 'oblik'; .*nearest: oblique"):
        filled(*data(20, 3, 1, seed=0)).core(1, "oblik")


@pytest.mark.parametrize("name", ["activations", "jacobians", "weights"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_is_named_and_changes_nothing(name: str, value: float):
    moments = filled(*data(20, 4, 2, seed=0))
    before = moments.singular_values.clone()
    parts = dict(zip(("activations", "jacobians"), data(5, 4, 2, seed=1), strict=True)) | {"weights": torch.ones(5).double()}
    parts[name].view(-1)[3] = value
    with pytest.raises(NonFiniteError, match=rf"{name} of shape .* with 1 entries that are NaN or infinite"):
        moments.update(**parts)
    assert moments.num_samples == 20
    assert torch.equal(moments.sides().singular_values, before)
    good = data(5, 4, 2, seed=1)
    moments.update(*good)
    assert moments.num_samples == 25


@pytest.mark.parametrize(
    ("activations", "jacobians"),
    [((5, 3), (5, 3)), ((5, 4), (4, 2, 4)), ((5, 4), (5, 2, 3)), ((5, 2, 4), (5, 4)), ((5, 4), (5,))],
)
def test_shapes_that_do_not_fit_are_both_in_the_message(activations: tuple[int, ...], jacobians: tuple[int, ...]):
    moments = Moments(4)
    with pytest.raises(ShapeError) as caught:
        moments.update(torch.zeros(activations), torch.zeros(jacobians))
    assert caught.value.given == f"activations of shape {list(activations)} with jacobians of shape {list(jacobians)}"
    assert caught.value.expected == "[n, 4] with [n, 4] or [n, K, 4]"
    assert moments.num_samples == 0


def test_negative_or_missing_weights_change_nothing():
    moments, (H, J) = Moments(4), data(5, 4, 2, seed=0)
    with pytest.raises(ConfigError, match="non-negative"):
        moments.update(H, J, weights=torch.tensor([1.0, 1.0, -1.0, 1.0, 1.0]))
    with pytest.raises(ShapeError, match="4 weights for 5 rows"):
        moments.update(H, J, weights=torch.ones(4))
    assert moments.num_samples == 0
    with pytest.raises(TooFewSamplesError):
        moments.core(1)


def test_merging_what_does_not_belong_together_is_refused():
    H, J = data(20, 4, 2, seed=0)
    here = Provenance(site="blocks.0.resid_mid", objective="a", model="1")
    one = filled(H, J, provenance=here)
    with pytest.raises(ConfigError) as caught:
        Moments.merge([one, filled(H, J, provenance=dataclasses.replace(here, objective="b", model="2"))])
    assert caught.value.given == "moments that differ in objective, model"
    assert "same measurement" in caught.value.do
    with pytest.raises(ShapeError, match=r"dimension 4 .* and 3"):
        Moments.merge([one, filled(H[:, :3], J[..., :3], provenance=here)])
    with pytest.raises(TooFewSamplesError, match="no moments to merge"):
        Moments.merge([])
    merged = Moments.merge([one, one])
    assert merged.provenance == here
    assert one.num_samples == 20


def test_merging_is_associative():
    parts = [filled(*data(15, 5, 2, seed=seed)) for seed in range(3)]
    left = Moments.merge([Moments.merge(parts[:2]), parts[2]])
    right = Moments.merge([parts[0], Moments.merge(parts[1:])])
    assert torch.allclose(left.singular_values, right.singular_values, atol=1e-12)
    assert torch.allclose(projector(left, 2, "oblique"), projector(right, 2, "oblique"), atol=1e-10)


def test_files_come_back_bit_for_bit(tmp_path: Path):
    provenance = Provenance(site="here", positions=-1, sketch=16, num_samples=3)
    moments = filled(*data(50, 6, 2, seed=0), provenance=provenance)
    moments.save(tmp_path / "moments.safetensors")
    loaded = Moments.load(tmp_path / "moments.safetensors")
    assert loaded.provenance == provenance
    assert loaded.num_samples == 50
    for field in dataclasses.fields(moments.sides()):
        assert torch.equal(getattr(loaded.sides(), field.name), getattr(moments.sides(), field.name))
    assert torch.equal(loaded.core(3).read, moments.core(3).read)
    loaded.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "moments.safetensors").read_bytes()
    more = data(9, 6, 2, seed=1)
    for each in (moments, loaded):
        each.update(*more)
    assert torch.allclose(loaded.singular_values, moments.singular_values, atol=1e-12)


def test_files_that_are_cut_or_foreign_are_refused_by_name(tmp_path: Path):
    path, moments = tmp_path / "moments.safetensors", filled(*data(50, 6, 2, seed=0))
    moments.save(path)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ForeignFileError, match=r"moments\.safetensors, which is cut off"):
        Moments.load(path)
    moments.core(2).save(path)
    with pytest.raises(ForeignFileError, match=r"moments\.safetensors, which holds a core; expected a moments"):
        Moments.load(path)


def test_an_update_after_a_core_counts():
    H, J = data(40, 4, 2, seed=0)
    moments = filled(H[:20], J[:20])
    first = moments.core(2)
    moments.update(H[20:], J[20:])
    assert torch.allclose(moments.singular_values, filled(H, J).singular_values, atol=1e-12)
    assert not torch.allclose(moments.core(2).mean, first.mean)
