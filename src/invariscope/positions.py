"""Which tokens of a sequence a site is read, edited or scored at.

Positions are **unpadded** coordinates: 0 is the first real token of a row, ``last`` its last real token, so left and right
padding select the same tokens. Rows come out flattened in (row, token) order. ``marked`` are the tokens that the batch itself
marks, a different one in every row: :func:`positions_of` turns it into that mask.

>>> valid = torch.tensor([[False, True, True], [True, True, True]])
>>> select_positions("last", valid=valid).tolist(), select_positions(0, valid=valid).tolist()
([[0, 2], [1, 2]], [[0, 1], [1, 0]])
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from invariscope.batch import Batch
from invariscope.errors import PositionError, ShapeError

__all__ = ["Positions", "Rows", "describe_positions", "parse_positions", "positions_of", "rows_of", "select_positions"]

Positions: TypeAlias = "Literal['last', 'all', 'marked'] | int | slice | Bool[Tensor, 'B T']"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """What is known about each selected row of a batch: one entry a row, in (b, t) order.

    Args:
        b: the sequence of each row, counted from 0 over everything read so far, [n].
        t: the token of each row in unpadded coordinates, [n].
        targets: the correct output, [n].
        probabilities: the exact law of the output, [n, V].
        labels, groups: those of the sequence, [n]; groups are the sequences themselves where the batch has none.
        weights: weight of the row, [n]; None means that all weigh the same.
        choices: token ids of the answer classes of the row's sequence, [n, C, A], padded by -1.
    """

    b: Int[Tensor, "n"]
    t: Int[Tensor, "n"]
    targets: Int[Tensor, "n"] | None = None
    probabilities: Float[Tensor, "n V"] | None = None
    labels: Int[Tensor, "n"] | None = None
    groups: Int[Tensor, "n"]
    weights: Float[Tensor, "n"] | None = None
    choices: Int[Tensor, "n C A"] | None = None

    @property
    def num(self) -> int:
        """The number of rows."""
        return self.b.shape[0]

    @staticmethod
    def concatenate(parts: list[Rows]) -> Rows:
        """All rows of ``parts``, one after the other; an optional field survives only where every part has it.

        ``choices`` with fewer alternatives than others are padded by -1.

        Raises:
            ShapeError: for ``choices`` of different numbers of classes.
        """

        def join(name: str) -> Tensor | None:
            values = [getattr(part, name) for part in parts]
            if any(value is None for value in values):
                return None
            return torch.cat(_padded_choices(values) if name == "choices" else values)

        fields = ("b", "t", "targets", "probabilities", "labels", "groups", "weights", "choices")
        return Rows(**{name: join(name) for name in fields})  # pyright: ignore[reportArgumentType]


def _padded_choices(parts: list[Tensor]) -> list[Tensor]:
    classes = sorted({part.shape[1] for part in parts})
    if len(classes) > 1:
        raise ShapeError(
            f"rows with choices between {' and between '.join(map(str, classes))} classes",
            expected="one number of classes",
            do="give batches of one set of pairs",
        )
    width = max(part.shape[2] for part in parts)
    return [torch.nn.functional.pad(part, (0, width - part.shape[2]), value=-1) for part in parts]


def describe_positions(positions: Positions) -> str | int:
    """``positions`` as a JSON value, for provenance and for messages."""
    if isinstance(positions, str | int):
        return positions
    if isinstance(positions, slice):
        return ":".join("" if part is None else str(part) for part in (positions.start, positions.stop, positions.step))
    return f"mask{list(positions.shape)}"


def parse_positions(described: str | int) -> Positions:
    """The positions that :func:`describe_positions` wrote.

    Raises:
        PositionError: for a mask, which belongs to one batch.

    >>> parse_positions(describe_positions(slice(1, -1))), parse_positions("last"), parse_positions(3)
    (slice(1, -1, None), 'last', 3)
    """
    if isinstance(described, int):
        return described
    if described == "last" or described == "all" or described == "marked":
        return described
    if not re.fullmatch(r"(-?[0-9]+)?(:(-?[0-9]+)?){2}", described):
        raise PositionError(
            f"the positions {described!r} of a core",
            expected="'last', 'all', 'marked', an int or a slice",
            do="pass positions=, since a mask belongs to one batch",
        )
    return slice(*(int(part) if part else None for part in described.split(":")))


def positions_of(batch: Batch, positions: Positions) -> Positions:
    """``positions`` on ``batch``: its own mask where they are ``marked``, else as they are.

    Raises:
        PositionError: where the batch marks no token, or none in some row.

    >>> batch = Batch(inputs={"tokens": torch.tensor([[5, 6]])}, marked=torch.tensor([[True, False]]))
    >>> positions_of(batch, "marked").tolist(), positions_of(batch, "last")
    ([[True, False]], 'last')
    """
    if not isinstance(positions, str) or positions != "marked":
        return positions
    if batch.marked is None:
        raise PositionError(
            "positions 'marked' on a batch that marks no token",
            expected="Batch.marked, a Boolean mask [B, T]",
            do="give batches with marked=, as EncodedPairs.batches does, or other positions",
        )
    without = (~batch.marked.any(1)).nonzero()
    if len(without):
        raise PositionError(
            f"positions 'marked' on a batch that marks no token in row {int(without[0])}",
            expected="at least one marked token in every row",
            do="mark a token in every row, or leave the row out",
        )
    return batch.marked


def select_positions(
    positions: Positions,
    *,
    valid: Bool[Tensor, "B T"] | None = None,
    shape: tuple[int, int] | None = None,
    device: torch.device | str | None = None,
) -> Int[Tensor, "n 2"]:
    """Padded (b, t) indices of the selected tokens, in (b, t) order.

    Args:
        positions: ``last``, ``all``, an int or a slice in unpadded coordinates (negative ones count from the last real token),
            or a Boolean mask of the batch's own padded shape. ``marked`` is known to a batch only, see :func:`positions_of`.
        valid: True on real tokens, [B, T].
        shape: (B, T), where there is no ``valid``.
        device: of the indices; None: that of ``valid``, else the CPU.

    Raises:
        PositionError: where a row has no such token, where padding is selected, or where nothing is.

    >>> select_positions(slice(1, None), shape=(2, 3)).tolist()
    [[0, 1], [0, 2], [1, 1], [1, 2]]
    """
    if valid is None:
        assert shape is not None, "select_positions needs valid= or shape="
        valid = torch.ones(shape, dtype=torch.bool)
    if valid.dtype != torch.bool:
        raise PositionError(
            f"valid of type {valid.dtype}",
            expected="a Boolean tensor, True on real tokens",
            do="pass attention_mask.bool(), or valid != 0",
        )
    if isinstance(positions, str) and positions == "marked":
        raise PositionError(
            "positions 'marked' without a batch that marks them",
            expected="the mask of one batch",
            do="pass positions_of(batch, 'marked')",
        )
    valid = valid.to(device)
    lengths = valid.sum(1)
    ordinal = valid.long().cumsum(1) - 1  # unpadded coordinate of each real token
    if isinstance(positions, Tensor):
        chosen = _check_mask(positions, valid)
    elif isinstance(positions, slice):
        chosen = valid & _in_slice(ordinal, lengths, positions)
    elif isinstance(positions, str) and positions == "all":
        chosen = valid
    elif (isinstance(positions, int) and not isinstance(positions, bool)) or positions == "last":
        chosen = valid & (ordinal == _one_a_row(positions, lengths)[:, None])
    else:
        raise PositionError(
            f"positions {positions!r}" if isinstance(positions, str) else f"positions of type {type(positions).__name__}",
            expected="'last', 'all', 'marked', an int, a slice or a Boolean mask",
            do="count from the first real token with 0, 1, ... or from the last with -1, -2, ...",
        )
    index = chosen.nonzero()
    if not len(index):
        raise PositionError(
            f"positions {describe_positions(positions)!r} on a batch of shape {list(valid.shape)}, which select no token",
            expected="at least one token",
            do="check the positions against the sequences' lengths",
        )
    return index


def _check_mask(mask: Tensor, valid: Tensor) -> Tensor:
    if mask.dtype != torch.bool or mask.shape != valid.shape:
        raise PositionError(
            f"a mask of shape {list(mask.shape)} and type {mask.dtype}",
            expected=f"a Boolean mask of the batch's own padded shape {list(valid.shape)}",
            do="build the mask for this batch",
        )
    padding = (mask.to(valid.device) & ~valid).nonzero()
    if len(padding):
        raise PositionError(
            f"a mask that selects padding, first at {padding[0].tolist()}",
            expected="real tokens only",
            do="combine the mask with batch.valid",
        )
    return mask.to(valid.device)


def _one_a_row(position: int | str, lengths: Tensor) -> Tensor:
    offset = -1 if isinstance(position, str) else position
    wanted = offset + lengths if offset < 0 else torch.full_like(lengths, offset)
    short = ((wanted < 0) | (wanted >= lengths)).nonzero()
    if len(short):
        row = int(short[0])
        raise PositionError(
            f"position {position!r} in row {row}, which has {int(lengths[row])} real tokens",
            expected="a token that every row has",
            do="choose a smaller index, a slice, or leave the short rows out",
        )
    return wanted


def _in_slice(ordinal: Tensor, lengths: Tensor, positions: slice) -> Tensor:
    try:
        positions.indices(0)
    except (TypeError, ValueError) as error:
        raise PositionError(
            f"positions {positions}, a slice that Python refuses: {error}",
            expected="whole numbers or None, and a step that is not zero",
            do="give slice(start, stop) or slice(start, stop, step)",
        ) from None
    chosen = torch.zeros_like(ordinal, dtype=torch.bool)
    for length in lengths.unique().tolist():
        inside = torch.zeros(ordinal.shape[1] + 1, dtype=torch.bool, device=ordinal.device)
        inside[list(range(*positions.indices(length)))] = True
        chosen |= inside[ordinal.clamp_min(0)] & (lengths == length)[:, None]
    return chosen


def rows_of(batch: Batch, index: Int[Tensor, "n 2"], *, first_row: int = 0) -> Rows:
    """What ``batch`` knows about the tokens at ``index``.

    Targets and probabilities have P entries a sequence. P = T: entry t belongs to token t of the padded batch. P = 1: the
    entry belongs to every selected token of its sequence. Otherwise P must be the number of tokens selected in each
    sequence, and they belong together in order.

    Args:
        batch: the batch.
        index: padded (b, t) indices, as :func:`select_positions` gives them.
        first_row: how many sequences came before this batch.

    Raises:
        ShapeError: where P is none of the three.
    """
    b, t = index.unbind(1)
    unpadded = t
    if batch.valid is not None:
        unpadded = (batch.valid.long().cumsum(1) - 1)[b, t]

    def at(value: Tensor | None, name: str) -> Tensor | None:
        if value is None:
            return None
        num = value.shape[1]
        if num == batch.length:
            return value[b, t]
        if num == 1:
            return value[b, 0]
        counts = torch.bincount(b, minlength=batch.num_rows)
        if bool((counts[counts > 0] == num).all()):
            starts = counts.cumsum(0) - counts
            return value[b, torch.arange(len(b), device=b.device) - starts[b]]
        raise ShapeError(
            f"{name} with {num} entries a sequence, and {counts.unique().tolist()} tokens selected in each",
            expected=f"1, {batch.length} (one a token) or as many entries as tokens are selected",
            do="select the task's loss positions, or give one target a token",
        )

    counts = torch.bincount(b, minlength=batch.num_rows)
    groups = b + first_row if batch.groups is None else batch.groups[b]
    return Rows(
        b=b + first_row,
        t=unpadded,
        targets=at(batch.targets, "targets"),
        probabilities=at(batch.probabilities, "probabilities"),
        labels=None if batch.labels is None else batch.labels[b],
        groups=groups,
        weights=None if batch.weights is None else batch.weights[b] / counts[b],
        choices=None if batch.choices is None else batch.choices[b],
    )
