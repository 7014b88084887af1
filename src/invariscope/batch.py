"""A batch: what goes into a model, and what is known about each row of it.

``inputs`` are the keyword arguments of ``model.forward``, so the same class serves our transformers (``tokens``) and Hugging
Face's (``input_ids``, ``attention_mask``, ``position_ids``). Everything else is optional knowledge: the right answers, the
exact law they come from, labels, groups that splits must not break, weights of an exact expectation, the answers a language model
chooses between, the token that a row is about. :func:`text_inputs` pads rows of token ids to the inputs of a language model.

>>> batch = Batch(inputs={"tokens": torch.tensor([[0, 1, 2]])}, targets=torch.tensor([[1, 2, 0]]))
>>> batch.num_rows, batch.length
(1, 3)
>>> text_inputs([[5, 6, 7], [8]])["input_ids"].tolist()
[[5, 6, 7], [0, 0, 8]]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from invariscope.errors import ConfigError, NonFiniteError, ObjectiveError, ReiterableError, ShapeError, unknown_name

__all__ = ["Batch", "check_batches", "check_finite", "text_inputs"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """Rows for a model, with what is known about them.

    Args:
        inputs: keyword arguments of ``model.forward``, each with a first axis of length B; the first tensor's two leading axes
            are [B, T].
        targets: the correct output at each loss position, [B, P]; P = 1 for one answer a row, P = T for one a token.
        probabilities: the exact law of the output at each loss position, [B, P, V], where the task knows it.
        valid: True on real tokens, False on padding, [B, T]; None: what an ``attention_mask`` [B, T] among the inputs says, and
            without one all are real.
        labels: class of the behaviour, [B].
        groups: template or subset, [B]; hold-out splits and bootstraps never break a group.
        weights: weight of each row in an exact expectation, [B]; they sum to 1 over the whole iterable.
        choices: token ids of the answer classes of each row, [B, C, A]: C classes of at most A alternative tokens, padded by -1.
            With two classes ``choices[:, 1]`` is the positive side of the margin and ``choices[:, 0]`` the negative one; which
            class is right, ``labels`` say.
        marked: True on the token that each row is about (a subject, say), [B, T]; selected by ``positions="marked"``.

    Raises:
        ShapeError: where two of them do not fit.
        ObjectiveError: for ``choices`` that are no token ids, or a class without any.
    """

    inputs: Mapping[str, Tensor]
    targets: Int[Tensor, "B P"] | None = None
    probabilities: Float[Tensor, "B P V"] | None = None
    valid: Bool[Tensor, "B T"] | None = None
    labels: Int[Tensor, "B"] | None = None
    groups: Int[Tensor, "B"] | None = None
    weights: Float[Tensor, "B"] | None = None
    choices: Int[Tensor, "B C A"] | None = None
    marked: Bool[Tensor, "B T"] | None = None

    def __post_init__(self) -> None:
        first = next(iter(self.inputs.values()), None) if isinstance(self.inputs, Mapping) else None
        if not isinstance(first, Tensor) or first.ndim < 2:
            shape = type(first).__name__ if not isinstance(first, Tensor) else list(first.shape)
            raise ShapeError(
                f"Batch inputs whose first entry is {shape}",
                expected="a mapping of names to tensors, the first of shape [B, T, ...]",
                do="pass the keyword arguments of model.forward, such as {'tokens': tokens}",
            )
        for name, value in self.inputs.items():
            if not isinstance(value, Tensor) or not value.ndim or value.shape[0] != self.num_rows:
                given = f"shape {list(value.shape)}" if isinstance(value, Tensor) else f"type {type(value).__name__}"
                raise ShapeError(
                    f"Batch input {name!r} of {given} with a first input of shape {list(first.shape)}",
                    expected=f"a tensor whose first axis has length {self.num_rows}",
                    do=f"give one row of {name} for each row of the inputs; bind what is no tensor to the model beforehand",
                )
        mask = self.inputs.get("attention_mask")
        if self.valid is None and mask is not None and mask.shape == (self.num_rows, self.length):
            # Otherwise padding would count as real wherever a caller forgot to say it twice.
            object.__setattr__(self, "valid", mask.bool())
        dims = {"targets": 2, "probabilities": 3, "valid": 2, "labels": 1, "groups": 1, "weights": 1, "choices": 3, "marked": 2}
        for name, ndim in dims.items():
            value = getattr(self, name)
            if value is None:
                continue
            if value.ndim != ndim or value.shape[0] != self.num_rows:
                raise ShapeError(
                    f"Batch {name} of shape {list(value.shape)} with inputs of shape {list(first.shape)}",
                    expected=f"{ndim} axes, the first of length {self.num_rows}",
                    do=f"give one row of {name} for each row of the inputs",
                )
        for name, do in (
            ("valid", "mark every token of the padded batch as real or padding"),
            ("marked", "mark tokens of the padded batch"),
        ):
            value = getattr(self, name)
            if value is not None and value.shape[1] != self.length:
                raise ShapeError(
                    f"Batch {name} of shape {list(value.shape)} with inputs of shape {list(first.shape)}",
                    expected=f"[{self.num_rows}, {self.length}]",
                    do=do,
                )
        if self.choices is not None:
            _check_choices(self.choices)

    @property
    def num_rows(self) -> int:
        """B, the number of rows."""
        return next(iter(self.inputs.values())).shape[0]

    @property
    def length(self) -> int:
        """T, the padded length."""
        return next(iter(self.inputs.values())).shape[1]

    def to(self, device: torch.device | str) -> Batch:
        """The same batch with every tensor on ``device``."""
        moved = {
            field.name: value.to(device)
            for field in dataclasses.fields(self)
            if isinstance(value := getattr(self, field.name), Tensor)
        }
        return dataclasses.replace(self, inputs={name: x.to(device) for name, x in self.inputs.items()}, **moved)

    def take(self, rows: Int[Tensor, "m"] | Bool[Tensor, "B"]) -> Batch:
        """The batch of some of its rows, in the given order."""
        chosen = {
            field.name: value[rows]
            for field in dataclasses.fields(self)
            if isinstance(value := getattr(self, field.name), Tensor)
        }
        return dataclasses.replace(self, inputs={name: x[rows] for name, x in self.inputs.items()}, **chosen)


def _check_choices(choices: Tensor) -> None:
    if choices.is_floating_point() or choices.dtype == torch.bool or choices.shape[1] < 2:
        raise ObjectiveError(
            f"Batch choices of shape {list(choices.shape)} and type {choices.dtype}",
            expected="whole numbers [B, C, A] of at least C = 2 classes",
            do="give the token ids of every class of each row, padded by -1",
        )
    if choices.is_meta:
        # Such a tensor has a shape and no values.
        return
    if bool((choices < -1).any()):
        raise ObjectiveError(
            f"Batch choices with the id {int(choices.min())}",
            expected="token ids from 0, and -1 where a class has fewer alternatives than another",
            do="check the ids, and pad with -1",
        )
    empty = (choices < 0).all(2).nonzero()
    if len(empty):
        row, class_ = empty[0].tolist()
        raise ObjectiveError(
            f"Batch choices without a token for class {class_} of row {row}",
            expected="at least one token id a class and row",
            do="give every class an answer in every row",
        )


def text_inputs(
    rows: Sequence[Sequence[int]], *, pad_id: int = 0, side: Literal["left", "right"] = "left"
) -> dict[str, Int[Tensor, "B T"]]:
    """Rows of token ids as a language model takes them: ``input_ids``, ``attention_mask`` and ``position_ids``, [B, T] each.

    Positions count real tokens from 0, so that padding moves no token's position; they are 0 on padding.

    Args:
        rows: token ids of each row, at least one a row.
        pad_id: what stands on padding; any id of the vocabulary will do, since the mask hides it.
        side: where padding stands. On the left every row ends at the last column.

    Raises:
        ShapeError: for no rows, or for one without tokens.
        ConfigError: for a padding id below 0. UnknownNameError: for another side.

    >>> inputs = text_inputs([[5, 6, 7], [8]], pad_id=9)
    >>> inputs["input_ids"].tolist(), inputs["attention_mask"].tolist(), inputs["position_ids"].tolist()
    ([[5, 6, 7], [9, 9, 8]], [[1, 1, 1], [0, 0, 1]], [[0, 1, 2], [0, 0, 0]])
    """
    if side not in ("left", "right"):
        raise unknown_name("padding side", str(side), ("left", "right"))
    if isinstance(pad_id, bool) or not isinstance(pad_id, int) or pad_id < 0:
        raise ConfigError(f"a padding id {pad_id!r}", expected="a token id, 0 or more", do="leave it at 0: padding is masked")
    empty = next((number for number, row in enumerate(rows) if not len(row)), None)
    if not len(rows) or empty is not None:
        raise ShapeError(
            "no rows of tokens" if empty is None else f"row {empty} without tokens",
            expected="rows of at least one token",
            do="leave empty prompts out",
        )
    length = max(len(row) for row in rows)
    ids = torch.full((len(rows), length), pad_id, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for number, row in enumerate(rows):
        place = slice(length - len(row), None) if side == "left" else slice(0, len(row))
        ids[number, place] = torch.as_tensor(list(row), dtype=torch.long)
        mask[number, place] = 1
    return {"input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(1) - 1).clamp_min(0) * mask}


def check_batches(batches: Iterable[Batch]) -> Iterable[Batch]:
    """Return ``batches`` if it can be read more than once, as every measurement here does.

    Raises:
        ReiterableError: for a generator or another iterator, with what to pass instead, for a single ``Batch``, and for what
            holds no batches at all.
    """
    if isinstance(batches, Batch):
        raise ReiterableError("one Batch where batches are read", expected="an iterable of batches", do="pass [batch]")
    if isinstance(batches, Iterator):
        raise ReiterableError(
            f"batches of type {type(batches).__name__}, which can be read only once",
            expected="something that starts anew at each loop: a list, a DataLoader, task.batches(...)",
            do="pass list(batches), or task.batches(num, batch_size=..., seed=...)",
        )
    if isinstance(batches, Tensor | Mapping) or not (hasattr(batches, "__iter__") or hasattr(batches, "__getitem__")):
        raise ReiterableError(
            f"{type(batches).__name__} where batches are read",
            expected="an iterable of batches",
            do="wrap the model's inputs: [Batch(inputs={'tokens': tokens})]",
        )
    return batches


def check_finite(name: str, tensor: Tensor) -> Tensor:
    """Return ``tensor`` if all of it is finite.

    Raises:
        NonFiniteError: naming the tensor, how many entries are not finite, and the first of them.
    """
    # A sum is finite only if every entry is (but may overflow): one pass in the usual case.
    if torch.isfinite(tensor.sum()):
        return tensor
    finite = torch.isfinite(tensor)
    if bool(finite.all()):
        return tensor
    bad = (~finite).nonzero()
    where = [int(i) for i in bad[0]]
    raise NonFiniteError(
        f"{name} of shape {list(tensor.shape)} with {len(bad)} entries that are NaN or infinite, the first at {where}",
        expected="finite numbers only",
        do="look at the model's weights and at the learning rate, or leave the rows out before measuring",
    )
