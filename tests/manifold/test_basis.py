"""Selectors: their counts and names for every kind of task, projections, and the paper's basis inside the commutant."""

import pytest
import torch

from invariscope.errors import ConfigError
from invariscope.manifold.basis import orbital_selectors, paper_selectors
from invariscope.tasks import Symmetry
from invariscope.tasks.blocks import AssociativeRecall, ConditionalRetrieval, Ngram
from manifold.models import generator, manifold_of

SYMMETRIC = AssociativeRecall(num_blocks=2, num_rare=0, num_common=3, rare_share=0.0, symmetric=True)
DIRECTED = AssociativeRecall(num_blocks=2, num_rare=0, num_common=3, rare_share=0.0)
RING = AssociativeRecall(num_blocks=2, num_rare=5, placement="offsets", num_positions=7)


@pytest.mark.parametrize(
    ("task", "between", "two", "three"),
    [
        (AssociativeRecall(num_blocks=2, num_rare=6), 14, 70, 294),
        (Ngram(num_blocks=2, num_rare=6), 26, 130, 546),
        (ConditionalRetrieval(num_blocks=2, num_rare=3), 48, 240, 1008),
        (SYMMETRIC, 15, 75, 315),
    ],
)
def test_dimensions_by_orbitals(task, between, two, three):
    assert manifold_of(task, readout="direct").selectors.num == between
    assert manifold_of(task, readout="direct").dim == two
    assert manifold_of(task, readout="direct", num_layers=3).dim == three


def test_a_directed_relation_has_eight_orbitals_between_tokens():
    names = manifold_of(DIRECTED).selectors.names
    tokens = [name for name in names if name.split("(")[0] in ("identity", "C", "Cᵀ", "ones")]
    assert sorted(tokens) == sorted(
        ["identity(0, 0)", "identity(1, 1)", "C(0, 1)", "Cᵀ(1, 0)", "ones(0, 0)", "ones(0, 1)", "ones(1, 0)", "ones(1, 1)"]
    )


def test_names_say_what_they_select():
    names = manifold_of(AssociativeRecall(num_blocks=2, num_rare=6)).selectors.names
    assert len(set(names)) == len(names)
    assert {"identity", "ones", "same(1, 0)", "diff(0, 1)", "token-label(1)", "label-token(0)"} <= set(names)
    selectors = manifold_of(RING).selectors
    shift = selectors.matrices[selectors.names.index("shift(-1)"), 5:, 5:]
    # Rows are the query's label: it meets the key's label one before.
    assert torch.equal(shift, torch.eye(7, dtype=torch.float64).roll(-1, 1))
    assert bool((shift.nonzero()[:, 1] == (shift.nonzero()[:, 0] - 1) % 7).all())
    assert set(manifold_of(SYMMETRIC).selectors.names) > {"identity", "C", "ones"}
    three = AssociativeRecall(num_blocks=2, num_rare=5, placement="offsets", num_positions=3)
    assert manifold_of(three).selectors.names[4:] == ("shift(0)", "shift(+1)", "shift(-1)")


def test_the_paper_s_basis_lies_in_the_commutant_and_has_its_size():
    for relation, sizes in ((None, 19), (torch.tensor([[0, 1], [1, 0], [2, 3], [3, 2]]), 28)):
        between, answers = paper_selectors(6, 7, 2, relation, inverse=False)
        # Two layers of one head: a block, four blocks, and four answers.
        assert between.num * 5 + answers.num * 4 == sizes
    relation = SYMMETRIC.relation
    ring = AssociativeRecall(
        num_blocks=2, num_rare=0, num_common=3, rare_share=0.0, symmetric=True, placement="offsets", num_positions=7
    )
    between, answers = orbital_selectors(ring.symmetry, 6, 7, relation)
    for whole, ours in zip((between, answers), paper_selectors(6, 7, 3, relation), strict=True):
        torch.testing.assert_close(whole.blocks(whole.coordinates(ours.matrices)), ours.matrices)


def test_coordinates_are_those_of_the_orthogonal_projection():
    between, _ = paper_selectors(5, 7, 2)
    blocks = torch.randn(3, 12, 12, generator=generator(), dtype=torch.float64)
    projected = between.blocks(between.coordinates(blocks))
    inner = (blocks - projected).flatten(1) @ between.matrices.flatten(1).T
    torch.testing.assert_close(inner, torch.zeros_like(inner))
    some = torch.randn(4, between.num, generator=generator(1), dtype=torch.float64)
    torch.testing.assert_close(between.coordinates(between.blocks(some)), some)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ConfigError, match=r"selectors without \['two'\]; expected of identity"):
        paper_selectors(5, 7, 2)[0].without(["two"])
    with pytest.raises(ConfigError, match=r"shift\(\+1\) between 5 tokens .* 3 labels, centred, .* expected more than 3 labels"):
        paper_selectors(5, 3, 2)
    with pytest.raises(ConfigError, match=r"the selectors identity, C, .* which depend on each other"):
        paper_selectors(2, 6, 2, torch.tensor([[0, 1], [1, 0]]))
    with pytest.raises(ConfigError, match=r"generator 0 of 2 tokens and 1 labels; expected 3 tokens and 1 labels"):
        orbital_selectors(Symmetry(generators=(((1, 0), (0,)),)), 3, 1)
