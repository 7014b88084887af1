"""Comparing cores: coordinates, spans and weights, each against what is known, beside its chance level."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch import Tensor, nn

from cores.hand_made import generator, orthogonal, random_core
from invariscope.cores import Core, compare_coordinates, projector_overlap, weight_cosine
from invariscope.errors import ShapeError, TooFewSamplesError, UnknownNameError
from invariscope.models import Transformer, TransformerConfig
from invariscope.numerics import cca_similarity


def axes(dim: int, *which: int) -> Core:
    basis = torch.eye(dim, dtype=torch.float64)[:, list(which)]
    return Core(read=basis, write=basis, mean=torch.zeros(dim).double(), singular_values=torch.ones(len(which)))


def test_coordinates_that_are_affine_images_of_one_another_are_the_same():
    z = torch.randn(400, 3, dtype=torch.float64, generator=generator())
    other = z @ torch.randn(3, 3, dtype=torch.float64, generator=generator(1)) + 5.0
    cca = compare_coordinates(z, other, num_permutations=50).cca
    assert cca.heldout == pytest.approx(1.0)
    assert cca.value == pytest.approx(1.0)
    assert cca.null_high < 0.3
    assert (cca.dims, cca.rank, cca.num_permutations) == ((3, 3), 3, 50)


def test_all_four_similarities_stand_beside_one_another():
    z = torch.randn(400, 2, dtype=torch.float64, generator=generator())
    stretched = z * torch.tensor([1.0, 6.0]) @ orthogonal(2)
    found = compare_coordinates(z, stretched, num_permutations=20)
    every = (found.cca, found.spearman, found.procrustes, found.cka)
    assert [one.name for one in every] == ["cca", "spearman", "procrustes", "cka"]
    # A stretch is no matter to the first two, and is to the others.
    assert [one.heldout for one in every[:2]] == pytest.approx([1.0, 1.0])
    for one in every[2:]:
        assert one.heldout is not None
        assert one.null_high < one.heldout < 0.9


def test_the_other_similarities_leave_cca_and_the_generator_as_they_were():
    z = torch.randn(100, 2, dtype=torch.float64, generator=generator())
    noisy = z + torch.randn(100, 2, dtype=torch.float64, generator=generator(1))
    one, other = generator(5), generator(5)
    assert compare_coordinates(z, noisy, num_permutations=3, generator=one).cca == cca_similarity(
        z, noisy, num_permutations=3, generator=other
    )
    assert torch.equal(one.get_state(), other.get_state())


def test_unrelated_coordinates_are_at_chance_held_out():
    a, b = (torch.randn(400, 3, dtype=torch.float64, generator=generator(seed)) for seed in (0, 1))
    cca = compare_coordinates(a, b, num_permutations=100).cca
    assert cca.heldout is not None
    assert cca.heldout <= cca.null_high
    assert cca.value > cca.null_mean  # in sample it flatters


def test_one_shared_direction_of_two_is_seen_as_one():
    source = generator()
    shared = torch.randn(2000, 1, dtype=torch.float64, generator=source)
    a, b = (torch.cat([shared, torch.randn(2000, 1, dtype=torch.float64, generator=source)], 1) for _ in range(2))
    cca = compare_coordinates(a, b, num_permutations=20).cca
    assert cca.heldout_components[0] == pytest.approx(1.0)
    assert cca.heldout_components[1] < 0.1


def test_groups_and_generator_are_passed_on():
    z = torch.randn(200, 2, dtype=torch.float64, generator=generator())
    noisy = z + torch.randn(200, 2, dtype=torch.float64, generator=generator(1))
    first, again, other = (
        compare_coordinates(z, noisy, num_permutations=10, generator=generator(seed)).cca for seed in (0, 0, 1)
    )
    assert first == again != other
    assert compare_coordinates(z, noisy, num_permutations=10).cca == first
    with pytest.raises(TooFewSamplesError, match="5 groups"):
        compare_coordinates(z, noisy, groups=torch.arange(200) % 10)


def test_different_numbers_of_rows_are_refused():
    with pytest.raises(ShapeError, match=r"\[30, 2\] and \[20, 2\]"):
        compare_coordinates(torch.randn(30, 2, generator=generator()), torch.randn(20, 2, generator=generator()))


def test_overlap_by_value_and_its_chance():
    one = projector_overlap(axes(8, 0, 1), axes(8, 1, 2))
    assert one.value == pytest.approx(0.5)
    assert one.components == pytest.approx((1.0, 0.0))
    assert one.null_mean == pytest.approx(2 / 8)
    assert one.null_low < one.null_mean < one.null_high
    assert projector_overlap(axes(8, 0, 1), axes(8, 0, 1)).value == pytest.approx(1.0)
    assert projector_overlap(axes(8, 0, 1), axes(8, 2, 3)).value == pytest.approx(0.0)
    uneven = projector_overlap(axes(8, 0), axes(8, 0, 1, 2, 3))
    assert (uneven.value, uneven.null_mean) == (pytest.approx(1 / 2), pytest.approx(2 / 8))


def test_overlap_does_not_depend_on_the_basis_of_either_span():
    a, b = random_core(9, 3, seed=0), random_core(9, 3, seed=1)
    mixed = dataclasses.replace(a, write=a.write @ (orthogonal(3) + 2), read=a.read @ torch.linalg.inv(orthogonal(3) + 2).T)
    turn = orthogonal(9, seed=4)
    turned = [dataclasses.replace(core, write=turn @ core.write, read=turn @ core.read) for core in (a, b)]
    for span in ("write", "read"):
        value = projector_overlap(a, b, span=span).value
        assert projector_overlap(mixed, b, span=span).value == pytest.approx(value)
        assert projector_overlap(*turned, span=span).value == pytest.approx(value)
    assert projector_overlap(a, b, span="write").value != pytest.approx(projector_overlap(a, b, span="read").value)


def test_overlap_across_dimensions_and_unknown_spans_are_refused():
    with pytest.raises(ShapeError, match="subspaces of 8 and 6 dimensions"):
        projector_overlap(axes(8, 0), axes(6, 0))
    with pytest.raises(UnknownNameError, match=r"unknown span 'writes'; .*nearest: write"):
        projector_overlap(axes(8, 0), axes(8, 1), span="writes")  # pyright: ignore[reportArgumentType]  # what is tested


def affine(weight: Tensor) -> nn.Module:
    """A weight matrix beside a vector that is the same everywhere."""
    module = nn.Module()
    module.weight, module.bias = nn.Parameter(weight), nn.Parameter(torch.full((5,), 100.0))
    return module


def test_weight_cosine_by_value_over_matrices_only():
    a, b = affine(torch.tensor([[1.0, 0.0], [0.0, 1.0]])), affine(torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
    assert weight_cosine(a, b) == pytest.approx(1 / 2)
    assert weight_cosine(a, a) == pytest.approx(1.0)


def test_gains_do_not_fake_a_cosine():
    config = TransformerConfig(vocab_size=4, context_length=4, width=32, num_heads=2, mlp_width=32, norm="pre", final_norm=True)
    a, b = (Transformer(config, generator=generator(seed)) for seed in (0, 1))
    num = sum(p.numel() for p in a.parameters() if p.ndim >= 2)
    assert abs(weight_cosine(a, b)) < 4 / math.sqrt(num)


def test_models_of_another_shape_are_refused():
    with pytest.raises(ShapeError) as caught:
        weight_cosine(affine(torch.ones(2, 2)), affine(torch.ones(3, 2)))
    assert caught.value.given.startswith("two models whose weights differ, such as weight [")
    assert caught.value.expected == "matrices of equal names and shapes"
