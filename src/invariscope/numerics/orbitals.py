"""Orbitals: the orbits of a permutation group on pairs of points, whose indicators span every matrix that the group leaves alone.

A matrix W commutes with all permutations of a group exactly where it is constant on orbitals. So the orbitals' 0/1 indicators
are an orthogonal basis of the commutant, and a projection on it is one mean an orbital (Higman 1975, *Coherent configurations*).
Only generators are needed.

>>> found = orbitals([(1, 2, 0), (1, 0, 2)], 3)
>>> found.num, found.labels.tolist(), found.sizes.tolist()
(2, [[0, 1, 1], [1, 0, 1], [1, 1, 0]], [3, 6])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from invariscope.errors import ConfigError, ShapeError

__all__ = ["Orbitals", "orbitals"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Orbitals:
    """Orbits on pairs of points.

    Args:
        labels: the orbital of each pair, [n, n], numbered as they appear row by row.
        sizes: pairs an orbital, [num].
    """

    labels: Int[Tensor, "n n"]
    sizes: Int[Tensor, "num"]

    @property
    def num(self) -> int:
        """How many there are: the dimension of the commutant."""
        return len(self.sizes)

    def indicator(self, orbital: int) -> Bool[Tensor, "n n"]:
        """Which pairs belong to one."""
        return self.labels == orbital

    def means(self, matrices: Float[Tensor, "... n n"]) -> Float[Tensor, "... num"]:
        """The mean of each orbital: coordinates of the projection on the commutant.

        Raises:
            ShapeError: for matrices of another size.
        """
        if matrices.shape[-2:] != self.labels.shape:
            raise ShapeError(
                f"matrices of shape {list(matrices.shape)}",
                expected=f"[..., {len(self.labels)}, {len(self.labels)}]",
                do="check n",
            )
        flat = matrices.flatten(-2)
        sums = flat.new_zeros(*flat.shape[:-1], self.num)
        sums.index_add_(-1, self.labels.flatten().to(flat.device), flat)
        return sums / self.sizes.to(sums)

    def matrix(self, coordinates: Float[Tensor, "... num"]) -> Float[Tensor, "... n n"]:
        """The matrix that has one value an orbital."""
        return coordinates[..., self.labels.to(coordinates.device)]


def orbitals(generators: Sequence[Sequence[int]], size: int) -> Orbitals:
    """The orbitals of the group that some permutations of ``size`` points generate.

    Args:
        generators: each p sends point i to p[i]. size: n.

    Raises:
        ConfigError: for a generator that is no permutation of n points.

    Notes:
        Each pair takes the smallest label that it can reach, by a generator or by the label itself (pointer jumping); it ends
        when nothing changes, after about log n rounds.
    """
    points = torch.arange(size)
    moves = []
    for number, generator in enumerate(generators):
        move = torch.as_tensor(list(generator), dtype=torch.long)
        if move.shape != points.shape or not torch.equal(move.sort().values, points):
            raise ConfigError(
                f"generator {number}, {list(generator)[:12]}",
                expected=f"a permutation of 0 ... {size - 1}",
                do="name every point once",
            )
        moves.append(move)
    labels = torch.arange(size * size).view(size, size)
    while True:
        before = labels
        for move in moves:
            # A pair and its image have one label: the smaller of both, at both places.
            image = labels[move][:, move]
            least = torch.minimum(labels, image)
            labels = least.clone()
            labels[move[:, None], move] = torch.minimum(labels[move[:, None], move], least)
        labels = labels.flatten()[labels]
        if torch.equal(labels, before):
            break
    _, numbered, sizes = labels.unique(return_inverse=True, return_counts=True)
    return Orbitals(labels=numbered.view(size, size), sizes=sizes)
