"""Orbitals against brute force, their counts for known groups, projections, and what is no permutation."""

import itertools

import pytest
import torch

from invariscope.errors import ConfigError, ShapeError
from invariscope.numerics.orbitals import orbitals


def group(generators, size):
    """Every element, by closure."""
    found = {tuple(range(size))}
    pending = list(found)
    while pending:
        at = pending.pop()
        for one in generators:
            to = tuple(one[i] for i in at)
            if to not in found:
                found.add(to)
                pending.append(to)
    return found


GROUPS = {
    "symmetric": [(1, 0, 2, 3, 4), (1, 2, 3, 4, 0)],
    "cyclic": [(1, 2, 3, 4, 0)],
    "dihedral": [(1, 2, 3, 4, 0), (0, 4, 3, 2, 1)],
    "two parts": [(1, 0, 2, 3, 4), (0, 1, 3, 4, 2)],
    "trivial": [(0, 1, 2, 3, 4)],
}
NUMBERS = {"symmetric": 2, "cyclic": 5, "dihedral": 3, "two parts": 2 + 3 + 1 + 1, "trivial": 25}


@pytest.mark.parametrize("name", GROUPS)
def test_orbits_are_those_of_the_whole_group(name):
    found = orbitals(GROUPS[name], 5)
    elements = group(GROUPS[name], 5)
    for i, j in itertools.product(range(5), repeat=2):
        orbit = {(g[i], g[j]) for g in elements}
        label = int(found.labels[i, j])
        assert {tuple(pair) for pair in found.indicator(label).nonzero().tolist()} == orbit
        assert int(found.sizes[label]) == len(orbit)
    assert found.num == NUMBERS[name]


def test_large_cycles_take_few_rounds():
    size = 300
    found = orbitals([tuple((i + 1) % size for i in range(size))], size)
    assert found.num == size
    assert torch.equal(found.sizes, torch.full((size,), size))
    shift = (torch.arange(size) - torch.arange(size)[:, None]) % size
    assert torch.equal(found.labels, found.labels[0][shift])


def test_means_project_on_what_commutes():
    generator = torch.Generator().manual_seed(0)
    found = orbitals(GROUPS["two parts"], 5)
    matrices = torch.randn(3, 5, 5, generator=generator, dtype=torch.float64)
    projected = found.matrix(found.means(matrices))
    elements = [torch.eye(5, dtype=torch.float64)[list(g)] for g in group(GROUPS["two parts"], 5)]
    averaged = torch.stack([g @ matrices @ g.T for g in elements]).mean(0)
    torch.testing.assert_close(projected, averaged)
    torch.testing.assert_close(found.matrix(found.means(projected)), projected)


def test_what_is_no_permutation_is_refused():
    with pytest.raises(ConfigError, match=r"generator 1, \[0, 0, 2\]; expected a permutation of 0 ... 2"):
        orbitals([(1, 2, 0), (0, 0, 2)], 3)
    with pytest.raises(ShapeError, match=r"matrices of shape \[2, 2\]; expected \[..., 3, 3\]"):
        orbitals([(1, 2, 0)], 3).means(torch.zeros(2, 2))
