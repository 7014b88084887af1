"""Selectors: the small matrices between two blocks of the stream that a task's symmetries leave alone, with names.

A weight block [D, D] between two paths of a disentangled transformer says how tokens and position labels of the query meet those
of the key. Where the data law is symmetric under a group, the blocks that the group leaves alone form a vector space, the
commutant, and the loss's gradient at a point in it lies in it (Theorem 1 of arXiv:2607.11875). Two bases of it:

* ``orbitals``: the indicators of the group's orbits on pairs, an orthogonal basis whatever the group
  (:mod:`invariscope.numerics.orbitals`).
* ``paper``: for one class of tokens, centred, on a ring of labels: identity and the relation C between tokens, powers of the
  shift M between labels. The paper has M, ..., M^(k-1); layers after the first need their inverses too. With them it lies in the
  commutant, and is all of it on a ring of 2 k labels. On a longer one labels of different blocks meet by accident, in ways that
  only further powers of M tell apart, so that a share of the gradient lies outside (pairs, two layers, a direct readout, random
  points: .09 at 5 labels, .04 at 8, .01 at 16, .001 at 64). It vanishes with the size of the ring; without inverses it stays.

Names are ``identity``, ``C``, ``Cᵀ``, ``ones`` between tokens; ``same(j, k)`` and ``diff(j, k)`` between token j and token k of a
block in the same slot or another one; ``shift(m)`` between labels m apart (key minus query); ``token-label`` and ``label-token``
between both. Where tokens have classes, their numbers stand in brackets.

Legend of shapes: V tokens, P labels, D = V + P, c selectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from invariscope.errors import ConfigError
from invariscope.numerics.orbitals import Orbitals, orbitals
from invariscope.tasks import Symmetry

__all__ = ["Selectors", "orbital_selectors", "paper_selectors"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Selectors:
    """Matrices that span a space, with names.

    Args:
        names: of each. matrices: [c, R, D] in float64; R = D between streams, R = V where rows are answers.
    """

    names: tuple[str, ...]
    matrices: Float[Tensor, "c R D"]

    @property
    def num(self) -> int:
        """c."""
        return len(self.names)

    @property
    def gram(self) -> Float[Tensor, "c c"]:
        """Inner products; for orbitals the diagonal of their sizes."""
        flat = self.matrices.flatten(1)
        return flat @ flat.T

    def coordinates(self, blocks: Float[Tensor, "... R D"]) -> Float[Tensor, "... c"]:
        """Coordinates of the orthogonal projection of each block."""
        inner = blocks.double().flatten(-2) @ self.matrices.flatten(1).T
        gram = self.gram
        diagonal = gram.diagonal()
        if torch.equal(gram, torch.diag(diagonal)):
            return inner / diagonal
        return torch.linalg.solve(gram, inner.flatten(0, -2).T).T.view(inner.shape)

    def blocks(self, coordinates: Float[Tensor, "... c"]) -> Float[Tensor, "... R D"]:
        """The blocks with these coordinates."""
        return (coordinates.double() @ self.matrices.flatten(1)).unflatten(-1, self.matrices.shape[1:])

    def without(self, names: Sequence[str]) -> Selectors:
        """Those that have none of these names.

        Raises:
            ConfigError: for a name that none has.
        """
        missing = [name for name in names if name not in self.names]
        if missing:
            raise ConfigError(f"selectors without {missing}", expected=f"of {', '.join(self.names)}", do="correct the names")
        kept = [index for index, name in enumerate(self.names) if name not in names]
        return Selectors(names=tuple(self.names[index] for index in kept), matrices=self.matrices[kept])


def orbital_selectors(
    symmetry: Symmetry, vocab_size: int, num_labels: int, relation: Int[Tensor, "m 2"] | None = None
) -> tuple[Selectors, Selectors]:
    """The commutant between streams, and between answers and a stream.

    Args:
        symmetry: whose generators permute tokens, and position labels.
        vocab_size, num_labels: V and P.
        relation: (token, partner) pairs, for the name C.

    Raises:
        ConfigError: for generators of other sizes.
    """
    moves = []
    for number, (tokens, labels) in enumerate(symmetry.generators):
        if (len(tokens), len(labels)) != (vocab_size, num_labels):
            raise ConfigError(
                f"generator {number} of {len(tokens)} tokens and {len(labels)} labels",
                expected=f"{vocab_size} tokens and {num_labels} labels, as the model has",
                do="take symmetry and model from one task",
            )
        moves.append((*tokens, *(vocab_size + label for label in labels)))
    found = orbitals(moves, vocab_size + num_labels)
    names = _names(found, vocab_size, relation)
    every = torch.nn.functional.one_hot(found.labels, found.num).permute(2, 0, 1).double()
    of_answers = [index for index in range(found.num) if bool(every[index, :vocab_size].any())]
    return (
        Selectors(names=names, matrices=every),
        Selectors(names=tuple(names[index] for index in of_answers), matrices=every[of_answers, :vocab_size]),
    )


def paper_selectors(
    vocab_size: int, num_labels: int, block_size: int, relation: Int[Tensor, "m 2"] | None = None, *, inverse: bool = True
) -> tuple[Selectors, Selectors]:
    """The paper's basis for centred one-hots and labels on a ring: T = {I, C}, P = {I, M, ..., M^(k-1)}, and M's inverses.

    Args:
        vocab_size, num_labels: V and P. block_size: k. relation: (token, partner) pairs, for C.
        inverse: whether the inverses of M belong to it; layers after the first need them.

    Raises:
        ConfigError: where they depend on each other, as all shifts of a ring do once they are centred: their sum is zero.
    """
    V, P = vocab_size, num_labels
    names, matrices = ["identity"], [_padded(torch.eye(V, dtype=torch.float64) - 1 / V, V + P, 0)]
    if relation is not None:
        C = torch.zeros(V, V, dtype=torch.float64)
        C[relation[:, 0], relation[:, 1]] = 1.0
        centre = torch.eye(V, dtype=torch.float64) - 1 / V
        names.append("C")
        matrices.append(_padded(centre @ C @ centre, V + P, 0))
    num_tokens = len(names)
    for power in range(-(block_size - 1) if inverse else 0, block_size):
        names.append(f"shift({power:+d})" if power else "shift(0)")
        shift = torch.eye(P, dtype=torch.float64).roll(power, 1) - 1 / P
        matrices.append(_padded(shift, V + P, V))
    stacked = torch.stack(matrices)
    if int(torch.linalg.matrix_rank(stacked.flatten(1))) < len(names):
        raise ConfigError(
            f"the selectors {', '.join(names)} between {V} tokens and between {P} labels, centred, which depend on each other",
            expected=f"more than {len(names) - num_tokens} labels, and a relation that is not the identity's complement",
            do="take a longer ring or a larger vocabulary, or basis='orbitals'",
        )
    return (
        Selectors(names=tuple(names), matrices=stacked),
        Selectors(names=tuple(names[:num_tokens]), matrices=stacked[:num_tokens, :V]),
    )


def _padded(block: Tensor, size: int, start: int) -> Tensor:
    matrix = torch.zeros(size, size, dtype=torch.float64)
    matrix[start : start + len(block), start : start + len(block)] = block
    return matrix


def _names(found: Orbitals, vocab_size: int, relation: Tensor | None) -> tuple[str, ...]:
    """A readable name of each orbital, unique."""
    labels, size = found.labels, len(found.labels)
    # The orbits on points are the diagonal's labels.
    points = list(dict.fromkeys(labels.diagonal().tolist()))
    kind = [points.index(int(label)) for label in labels.diagonal()]
    token_kinds = max(kind[:vocab_size]) + 1
    related = set() if relation is None else {tuple(pair) for pair in relation.tolist()}
    first: dict[int, tuple[int, int]] = {}
    for index, label in enumerate(labels.flatten().tolist()):
        first.setdefault(label, divmod(index, size))
    alike: dict[tuple[int, int], list[int]] = {}
    for label, (i, j) in first.items():
        alike.setdefault((kind[i], kind[j]), []).append(label)
    names: dict[int, str] = {}
    ring = _is_ring(labels[vocab_size:, vocab_size:])
    for (a, b), group in alike.items():
        for label in sorted(group, key=lambda label: int(found.sizes[label])):
            i, j = first[label]
            if a < token_kinds and b < token_kinds:
                where = "" if token_kinds == 1 else f"({a}, {b})"
                name = _between_tokens(i, j, related, alone=len(group) == 1) + where
            elif a >= token_kinds and b >= token_kinds:
                name = (
                    f"shift({_signed(j - i, size - vocab_size)})"
                    if ring
                    else _between_labels(label, group, found, a, b, token_kinds)
                )
            else:
                token, label_kind = (a, b) if a < token_kinds else (b, a)
                which = [str(token)] if token_kinds > 1 else []
                which += [str(label_kind - token_kinds)] if max(kind) > token_kinds else []
                name = ("token-label" if a < token_kinds else "label-token") + (f"({', '.join(which)})" if which else "")
            names[label] = name
    ordered = [names[label] for label in range(found.num)]
    # What a group leaves apart that these names do not: numbered.
    return tuple(
        name if ordered.count(name) == 1 else f"{name} #{ordered[:index].count(name)}" for index, name in enumerate(ordered)
    )


def _is_ring(block: Int[Tensor, "P P"]) -> bool:
    """Whether turning is all that labels allow: one orbital a difference."""
    at = torch.arange(len(block))
    return len(block) > 2 and len(block.unique()) == len(block) and torch.equal(block, block[0][(at - at[:, None]) % len(block)])


def _between_tokens(i: int, j: int, related: set[tuple[int, ...]], *, alone: bool) -> str:
    if i == j:
        return "identity"
    if alone:
        return "ones"
    return "C" if (i, j) in related else "Cᵀ" if (j, i) in related else "ones"


def _between_labels(label: int, group: list[int], found: Orbitals, a: int, b: int, token_kinds: int) -> str:
    smallest = min(group, key=lambda one: int(found.sizes[one]))
    where = f"({a - token_kinds}, {b - token_kinds})"
    return ("same" if label == smallest else "diff") + where


def _signed(shift: int, size: int) -> str:
    shift %= size
    shift = shift - size if shift > size // 2 else shift
    return f"{shift:+d}" if shift else "0"
