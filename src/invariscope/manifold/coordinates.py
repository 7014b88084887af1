"""The invariant manifold of a disentangled transformer: its coordinates, and how much of a weight or gradient lies outside.

Every weight of the model is a grid of blocks between paths of the stream, and the manifold has the same selectors in each block:

    L2 [x|a1] identity

is the coordinate in layer 2 by which a query matches what stands in path ``x`` (rows of W) with what layer 1 moved into ``a1``
at the key (columns), token by token. ``R [a2] identity`` is a coordinate of the output matrix, ``F1`` is of feed-forward maps.
Gradient descent that starts in the manifold stays there (Corollary 1 of arXiv:2607.11875), so a model of thousands of weights has
as few degrees of freedom as this has coordinates.

>>> from invariscope.tasks.blocks import AssociativeRecall
>>> task = AssociativeRecall(num_blocks=2, num_rare=5)
>>> config = DisentangledConfig(vocab_size=task.vocab_size, num_labels=task.num_labels, readout="direct")
>>> manifold = InductionManifold(config, task.symmetry)
>>> manifold.dim, manifold.names[0], manifold.names[-1]
(70, 'L1 [x|x] identity', 'L2 [a1|a1] diff(1, 1)')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from invariscope.errors import ConfigError, NonFiniteError, ShapeError, unknown_name
from invariscope.manifold.basis import Selectors, orbital_selectors, paper_selectors
from invariscope.models.disentangled import DisentangledConfig
from invariscope.tasks import Symmetry

__all__ = ["Coordinate", "InductionManifold"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinate:
    """One coordinate.

    Args:
        weight: the parameter. head: of ``key_query``, from 0. query, key: paths of the block; ``key`` alone for the readout.
        selector: its name.
    """

    weight: str
    head: int
    query: str
    key: str
    selector: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Grid:
    """One weight: a grid of blocks of equal selectors."""

    key: str
    shape: tuple[int, ...]
    heads: int
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    selectors: Selectors

    @property
    def size(self) -> int:
        return self.heads * max(len(self.rows), 1) * len(self.columns) * self.selectors.num

    def cut(self, weight: Tensor) -> Tensor:
        """[heads, rows, columns, R, D]."""
        height, width = self.selectors.matrices.shape[1:]
        return weight.double().view(self.heads, -1, height, len(self.columns), width).transpose(2, 3)


class InductionManifold:
    """The span of weights that a symmetric task never leaves.

    Args:
        config: of the model.
        symmetry: of the task: permutations of tokens and of position labels.
        relation: (token, partner) pairs of the task: names C, and for ``paper`` is an element of the basis.
        basis: ``orbitals``, or ``paper`` for centred one-hots and labels on a ring.
        block_size: k, for ``paper``. inverse: whether ``paper`` has the inverses of the shift.
        leave_out: selectors by name that are left out: to ask whether they are needed.

    Raises:
        ConfigError: for a symmetry that does not fit the model, or no symmetry at all. UnknownNameError: for another basis.
    """

    def __init__(
        self,
        config: DisentangledConfig,
        symmetry: Symmetry | None,
        *,
        relation: Int[Tensor, "m 2"] | None = None,
        basis: Literal["orbitals", "paper"] = "orbitals",
        block_size: int = 2,
        inverse: bool = True,
        leave_out: Sequence[str] = (),
    ) -> None:
        self.config = config
        V, P = config.vocab_size, config.num_labels
        if basis == "orbitals":
            if symmetry is None:
                raise ConfigError(
                    "a task without symmetry", expected="a group of renamings", do="take a placement other than fixed"
                )
            between, answers = orbital_selectors(symmetry, V, P, relation)
        elif basis == "paper":
            between, answers = paper_selectors(V, P, block_size, relation, inverse=inverse)
        else:
            raise unknown_name("basis", str(basis), ("orbitals", "paper"))
        if leave_out:
            between = between.without(leave_out)
            answers = answers.without([name for name in leave_out if name in answers.names])
        self.selectors, self.answer_selectors = between, answers
        H, grids = config.num_heads, []
        for layer in range(config.num_layers):
            paths, S = config.paths(layer), config.width(layer)
            grids.append(_Grid(key=f"key_query.{layer}", shape=(H, S, S), heads=H, rows=paths, columns=paths, selectors=between))
        for layer in range(config.num_layers - 1) if config.feed_forward != "none" else ():
            paths, S = config.paths(layer + 1), config.width(layer + 1)
            grids.append(_Grid(key=f"feed_forward.{layer}", shape=(S, S), heads=1, rows=paths, columns=paths, selectors=between))
        if config.readout == "trained":
            paths, S = config.paths(config.num_layers), config.width(config.num_layers)
            grids.append(_Grid(key="readout", shape=(V, S), heads=1, rows=("",), columns=paths, selectors=answers))
        self._grids = tuple(grids)
        self.layout = tuple(
            Coordinate(weight=grid.key, head=head, query=row, key=column, selector=name)
            for grid in grids
            for head in range(grid.heads)
            for row in grid.rows
            for column in grid.columns
            for name in grid.selectors.names
        )
        self.names = tuple(map(self._name, self.layout))

    @property
    def dim(self) -> int:
        """How many coordinates there are."""
        return len(self.layout)

    def index(self, name: str) -> int:
        """Where a coordinate stands.

        Raises:
            UnknownNameError: with the nearest names.
        """
        if name not in self.names:
            raise unknown_name("coordinate", name, self.names)
        return self.names.index(name)

    def _name(self, one: Coordinate) -> str:
        if one.weight == "readout":
            return f"R [{one.key}] {one.selector}"
        kind, layer = one.weight.split(".")
        head = f".{one.head}" if kind == "key_query" and self.config.num_heads > 1 else ""
        return f"{'L' if kind == 'key_query' else 'F'}{int(layer) + 1}{head} [{one.query}|{one.key}] {one.selector}"

    def coordinates(self, weights: nn.Module | Mapping[str, Tensor]) -> Float[Tensor, "dim"]:
        """Coordinates of the projection of a model's weights, or of gradients by the same names, in float64.

        Raises:
            ShapeError: for weights of other shapes, all of them listed.
            NonFiniteError: for weights that hold NaN or infinity, named.
        """
        found = self._checked(weights)
        return torch.cat([grid.selectors.coordinates(grid.cut(found[grid.key])).flatten() for grid in self._grids])

    def weights(self, coordinates: Float[Tensor, "dim"]) -> dict[str, Tensor]:
        """The weights with these coordinates, by the names of the model's parameters, in float64.

        Raises:
            ShapeError: for another number of coordinates.
        """
        if coordinates.shape != (self.dim,):
            raise ShapeError(f"coordinates of shape {list(coordinates.shape)}", expected=f"[{self.dim}]", do="give one a name")
        found, start = {}, 0
        for grid in self._grids:
            values = coordinates[start : start + grid.size].view(
                grid.heads, len(grid.rows), len(grid.columns), grid.selectors.num
            )
            blocks = grid.selectors.blocks(values)
            found[grid.key] = blocks.transpose(2, 3).reshape(grid.shape)
            start += grid.size
        return found

    def project(self, weights: nn.Module | Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The part of weights or gradients that lies in the manifold."""
        return self.weights(self.coordinates(weights))

    def offspan_share(self, weights: nn.Module | Mapping[str, Tensor]) -> float:
        """Norm of the part outside the manifold over the whole norm, in [0, 1]; 0 for zeros."""
        outside, whole = self.squared_norms(weights)
        return (outside / whole) ** 0.5 if whole > 0 else 0.0

    def squared_norms(self, weights: nn.Module | Mapping[str, Tensor]) -> tuple[float, float]:
        """Squared norm of the part outside, and of the whole."""
        found, inside = self._checked(weights), self.project(weights)
        outside = sum(float((found[key].double() - part).square().sum()) for key, part in inside.items())
        return outside, sum(float(found[key].double().square().sum()) for key in inside)

    def metric(self) -> Float[Tensor, "dim dim"]:
        """Inner products of the coordinates' directions: gradient descent on weights is, in coordinates, along the inverse of
        this times the gradient. For orbitals a diagonal of their sizes."""
        blocks = [
            grid.selectors.gram for grid in self._grids for _ in range(grid.size // grid.selectors.num) if grid.selectors.num
        ]
        return torch.block_diag(*blocks)

    def _checked(self, weights: nn.Module | Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        found = dict(weights.named_parameters()) if isinstance(weights, nn.Module) else weights
        wrong = [
            f"{grid.key} {list(found[grid.key].shape) if grid.key in found else 'missing'} for {list(grid.shape)}"
            for grid in self._grids
            if grid.key not in found or tuple(found[grid.key].shape) != grid.shape
        ]
        if wrong:
            raise ShapeError(
                ", ".join(wrong), expected="the weights of this manifold's model", do="use one configuration for both"
            )
        # Without this a diverged model would have the share 0, as one that never left.
        if lost := [grid.key for grid in self._grids if not bool(found[grid.key].isfinite().all())]:
            raise NonFiniteError(
                f"{', '.join(lost)} with NaN or infinity", expected="finite weights", do="look for where the training diverged"
            )
        return {key: value.detach() for key, value in found.items()}
