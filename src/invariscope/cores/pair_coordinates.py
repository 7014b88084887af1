"""Coordinates of cores on the prompts of a table of pairs: what two cores have in common where their spaces have nothing.

Subspaces of two models, or of two widths, have no basis in common, so their overlap says nothing. The coordinates on the same
prompts can be compared all the same. Each core is read in its own model, tokeniser, site and positions, and a row of one belongs
to the row of the other that stands in the same prompt.

    a = read_pair_coordinates(core_a, load_language_model("smollm2-135m"), pairs)
    b = read_pair_coordinates(core_b, load_language_model("gemma3-270m"), pairs)
    print(compare_pair_coordinates(a, b).cca)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from invariscope.cores.compare import CoordinateComparison, compare_coordinates
from invariscope.cores.core import Core
from invariscope.cores.identify import core_coordinates
from invariscope.cores.validate import check_origin
from invariscope.errors import ConfigError, ShapeError
from invariscope.positions import Rows
from invariscope.tasks import PairSet

if TYPE_CHECKING:
    from invariscope.models.pretrained import LanguageModel

__all__ = ["PairCoordinates", "compare_pair_coordinates", "read_pair_coordinates"]

NAMED_TOKENS = ("last", "marked")
"""Positions that mean one word of a prompt however a tokeniser splits it; others count tokens."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairCoordinates:
    """The coordinates of one core on the prompts of a table.

    Args:
        values: [n, k] in float64, in the order of the prompts and of their tokens.
        rows: the prompt, token and group of each.
        pairs: the table. pieces: the tokens of each prompt, as texts.
        site, positions: of the core. notes: what was done to the texts.
    """

    values: Float[Tensor, "n k"]
    rows: Rows
    pairs: PairSet
    pieces: tuple[tuple[str, ...], ...]
    site: str
    positions: str | int
    notes: tuple[str, ...] = ()

    @property
    def num_prompts(self) -> int:
        """The number of prompts."""
        return len(self.pieces)

    @property
    def num_groups(self) -> int:
        """The number of groups that they are in."""
        return len(self.rows.groups.unique())


def read_pair_coordinates(
    core: Core, lm: LanguageModel, pairs: PairSet, *, batch_size: int = 64, force: bool = False
) -> PairCoordinates:
    """The coordinates of ``core`` on every prompt, at its own site and positions.

    Args:
        core: with its site and positions in its provenance.
        lm: the model that it was extracted from.
        pairs: the prompts; their answers only say where a prompt ends, as when a core is extracted.
        batch_size: prompts at a time.
        force: read a core of other weights all the same.

    Raises:
        ConfigError: for a core that knows no site or positions, or that came from other weights than these.
        PairsError: for pairs that this tokeniser cannot tell apart. PositionError: for a token that a prompt does not have.
        ShapeError: for a core of another width than the site.
    """
    made = core.provenance
    if not made.site or made.positions == "":
        raise ConfigError(
            "a core that does not know its site and positions",
            expected="a core whose provenance names both",
            do="extract it again with this library",
        )
    if not force:
        check_origin(core, lm.model)
    encoded = pairs.encode(lm.encode, pieces=lm.pieces, context_length=lm.context_length)
    values, rows = core_coordinates(core, lm.model, encoded.batches(batch_size))
    return PairCoordinates(
        values=values,
        rows=rows,
        pairs=pairs,
        pieces=tuple(tuple(lm.pieces(row.prompt)) for row in encoded.rows),
        site=made.site,
        positions=made.positions,
        notes=encoded.notes,
    )


def compare_pair_coordinates(
    a: PairCoordinates, b: PairCoordinates, *, generator: torch.Generator | None = None, num_permutations: int = 200
) -> CoordinateComparison:
    """Compare two cores on the same prompts; no group is split, shuffled or resampled in parts.

    Args:
        a, b: coordinates on one table.
        generator, num_permutations: as in :func:`compare_coordinates`.

    Raises:
        ShapeError: for two tables, for another number of tokens of some prompt, and for positions that count tokens in models
            that split the prompts differently.
        TooFewSamplesError, RankError: as :func:`compare_coordinates`.
    """
    _check_same_rows(a, b)
    return compare_coordinates(a.values, b.values, groups=a.rows.groups, generator=generator, num_permutations=num_permutations)


def _check_same_rows(a: PairCoordinates, b: PairCoordinates) -> None:
    if a.pairs != b.pairs:
        raise ShapeError(
            f"coordinates on {a.pairs.name} and on {b.pairs.name}, which are two tables",
            expected="coordinates on the same prompts",
            do="read both cores on one table",
        )
    last = "compare cores that are read at positions 'last' or 'marked'"
    if not torch.equal(a.rows.b, b.rows.b):
        nums = [torch.bincount(one.rows.b, minlength=len(one.pieces)).tolist() for one in (a, b)]
        at = next(i for i, (one, other) in enumerate(zip(*nums, strict=True)) if one != other)
        raise ShapeError(
            f"cores read at {a.positions!r} and at {b.positions!r}, which are {nums[0][at]} and {nums[1][at]} tokens of the "
            f"prompt {a.pairs.pairs[at].prompt!r}",
            expected="as many tokens of every prompt in both",
            do=last,
        )
    counted = [one.positions for one in (a, b) if one.positions not in NAMED_TOKENS]
    if not counted:
        return
    for pair, one, other in zip(a.pairs.pairs, a.pieces, b.pieces, strict=True):
        # Some tokenisers write the space before a word, some do not.
        if [piece.strip() for piece in one] != [piece.strip() for piece in other]:
            raise ShapeError(
                f"positions {counted[0]!r} in models that split the prompt {pair.prompt!r} differently: "
                f"{' '.join(map(repr, one))} and {' '.join(map(repr, other))}",
                expected="one splitting, so that tokens belong together",
                do=last,
            )
