"""Objectives: the differentiable quantity of the logits whose Jacobian says which directions matter.

An :class:`Objective` maps the logits of n rows to K numbers a row. Three are built in: :class:`logits` (all of them, or chosen
tokens), :class:`margin` (one token set against another, the same in every row) and :class:`choices` (each row's own answers). The
choice is part of a core's provenance.

>>> import torch
>>> objective = margin(positive=[1], negative=[0])
>>> objective(torch.tensor([[2.0, 5.0, 0.0]]))
tensor([[3.]])
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from invariscope.errors import ObjectiveError, unknown_name
from invariscope.positions import Rows

__all__ = ["LogitsOf", "Objective", "choices", "class_logits", "logits", "logits_at", "margin", "output_logits"]

LogitsOf = Callable[[Any], Tensor]
Normalise = Literal["log_softmax", "centred", "raw"]


class Objective(Protocol):
    """K differentiable numbers a row.

    Attributes:
        num_outputs: K; 0 where K is the model's vocabulary.
        name: written into provenance and reports.
    """

    num_outputs: int
    name: str

    def __call__(self, logits: Float[Tensor, "n V"], rows: Rows) -> Float[Tensor, "n K"]:
        """The K numbers of each row."""
        ...


class logits:  # noqa: N801 (reads as the function that it replaces: iv.logits())
    """Logits of all tokens or of chosen ones, without the direction that softmax ignores.

    Args:
        tokens: token ids; None: all of them.
        normalise: ``log_softmax`` (log-probabilities), ``centred`` (minus their mean) or ``raw``. With ``raw`` the shift of all
            logits together counts as a task direction although no prediction depends on it: a warning says so.

    Raises:
        ObjectiveError: where ``tokens`` is empty or names one twice; when called, for ids outside the vocabulary.
        UnknownNameError: for another ``normalise``.
    """

    def __init__(self, tokens: Sequence[int] | None = None, normalise: Normalise = "log_softmax") -> None:
        if normalise not in ("log_softmax", "centred", "raw"):
            raise unknown_name("normalise", str(normalise), ("log_softmax", "centred", "raw"))
        if normalise == "raw":
            warnings.warn(
                "logits(normalise='raw'): the shift of all logits together counts as a direction although softmax ignores it",
                stacklevel=2,
            )
        self.tokens = None if tokens is None else [int(token) for token in tokens]
        if self.tokens is not None and (not self.tokens or len(set(self.tokens)) != len(self.tokens)):
            raise ObjectiveError(
                f"logits of tokens {self.tokens}",
                expected="at least one token id, each once",
                do="give the ids of the tokens that matter, or None for all of them",
            )
        self.normalise = normalise
        self.num_outputs = 0 if self.tokens is None else len(self.tokens)
        self.name = f"logits[{'all' if self.tokens is None else ','.join(map(str, self.tokens))}; {normalise}]"

    def __call__(self, logits: Float[Tensor, "n V"], rows: Rows | None = None) -> Float[Tensor, "n K"]:
        """The K numbers of each row."""
        if self.normalise == "log_softmax":
            logits = logits.log_softmax(-1)
        elif self.normalise == "centred":
            logits = logits - logits.mean(-1, keepdim=True)
        return logits if self.tokens is None else logits[:, _checked(self.tokens, logits)]


class margin:  # noqa: N801 (reads as the function that it replaces: iv.margin(...))
    """One token set against another: reduce(logits of ``positive``) - reduce(logits of ``negative``); K = 1.

    Args:
        positive, negative: token ids, at least one on each side, none on both, each once.
        reduce: ``logsumexp`` (log of the summed probability) or ``sum``.

    Raises:
        ObjectiveError: where the two sets are not such; when called, for ids outside the vocabulary.
        UnknownNameError: for another ``reduce``.
    """

    num_outputs = 1

    def __init__(
        self, *, positive: Sequence[int], negative: Sequence[int], reduce: Literal["logsumexp", "sum"] = "logsumexp"
    ) -> None:
        self.positive, self.negative = [int(token) for token in positive], [int(token) for token in negative]
        tokens = self.positive + self.negative
        if not self.positive or not self.negative or len(set(tokens)) != len(tokens):
            raise ObjectiveError(
                f"margin of tokens {self.positive} against {self.negative}",
                expected="two token sets, neither empty, with nothing in common",
                do="give the ids of the answers as positive and of the foils as negative",
            )
        if reduce not in ("logsumexp", "sum"):
            raise unknown_name("reduce", str(reduce), ("logsumexp", "sum"))
        self.reduce = reduce
        self.name = f"margin[{','.join(map(str, self.positive))} - {','.join(map(str, self.negative))}; {reduce}]"

    def __call__(self, logits: Float[Tensor, "n V"], rows: Rows | None = None) -> Float[Tensor, "n 1"]:
        """The margin of each row."""
        chosen = [logits[:, _checked(tokens, logits)] for tokens in (self.positive, self.negative)]
        up, down = (x.logsumexp(-1) if self.reduce == "logsumexp" else x.sum(-1) for x in chosen)
        return (up - down)[:, None]


class choices:  # noqa: N801 (reads as the function that it replaces: iv.choices())
    """The answers of each row against its foils, from the token ids in ``Batch.choices`` [B, C, A].

    Two classes: K = 1, reduce(logits of class 1) - reduce(logits of class 0). More: K = C, the reduced logit of every class
    minus their mean, since what all classes share decides nothing.

    Args:
        reduce: of a class's alternative tokens: ``logsumexp`` (log of their summed probability) or ``sum``.
        num_classes: C of the rows; told beforehand, since whoever uses an objective plans with the number of its outputs.

    Raises:
        UnknownNameError: for another ``reduce``.
        ObjectiveError: for fewer than two classes; when called, on rows without ``choices``, with choices between another
            number of classes, or with ids outside the vocabulary.

    >>> rows = Rows(b=torch.tensor([0]), t=torch.tensor([0]), groups=torch.tensor([0]), choices=torch.tensor([[[2], [0]]]))
    >>> choices()(torch.tensor([[5.0, 0.0, 1.0]]), rows)
    tensor([[4.]])
    """

    def __init__(self, reduce: Literal["logsumexp", "sum"] = "logsumexp", *, num_classes: int = 2) -> None:
        if reduce not in ("logsumexp", "sum"):
            raise unknown_name("reduce", str(reduce), ("logsumexp", "sum"))
        if isinstance(num_classes, bool) or not isinstance(num_classes, int) or num_classes < 2:
            raise ObjectiveError(
                f"choices between {num_classes!r} classes", expected="at least 2", do="pass num_classes=pairs.num_classes"
            )
        self.reduce: Literal["logsumexp", "sum"] = reduce
        self.num_classes = num_classes
        self.num_outputs = 1 if num_classes == 2 else num_classes
        self.name = f"choices[{reduce}]" if num_classes == 2 else f"choices[{num_classes} classes; {reduce}]"

    def __call__(self, logits: Float[Tensor, "n V"], rows: Rows) -> Float[Tensor, "n K"]:
        """The margin of each row, or its centred class logits."""
        scores = class_logits(logits, rows, reduce=self.reduce)
        if scores.shape[1] != self.num_classes:
            raise ObjectiveError(
                f"an objective for choices between {self.num_classes} classes on rows with {scores.shape[1]}",
                expected="the same number of classes",
                do=f"pass iv.choices(num_classes={scores.shape[1]})",
            )
        if scores.shape[1] == 2:
            return scores[:, 1:] - scores[:, :1]
        return scores - scores.mean(1, keepdim=True)


def class_logits(
    logits: Float[Tensor, "n V"], rows: Rows | None, *, reduce: Literal["logsumexp", "sum"] = "logsumexp"
) -> Float[Tensor, "n C"]:
    """The reduced logit of every class of each row's ``choices``; the largest is the model's choice.

    Raises:
        ObjectiveError: on rows without ``choices`` or with ids outside the vocabulary.
    """
    ids = None if rows is None else rows.choices
    if ids is None:
        raise ObjectiveError(
            "choices on rows that have none",
            expected="Batch.choices, the token ids of each row's answer classes",
            do="give batches with choices=, as EncodedPairs.batches does, or use iv.margin with fixed tokens",
        )
    if int(ids.max()) >= logits.shape[-1]:
        raise ObjectiveError(
            f"choices with the token {int(ids.max())} and {logits.shape[-1]} logits",
            expected=f"token ids from 0 to {logits.shape[-1] - 1}",
            do="encode the pairs with this model's own tokeniser",
        )
    ids = ids.to(logits.device)
    found = logits.gather(1, ids.clamp_min(0).flatten(1)).view(ids.shape)
    if reduce == "sum":
        return found.masked_fill(ids < 0, 0.0).sum(2)
    return found.masked_fill(ids < 0, -torch.inf).logsumexp(2)


def _checked(tokens: list[int], logits: Tensor) -> list[int]:
    if min(tokens, default=0) < 0 or max(tokens, default=0) >= logits.shape[-1]:
        raise ObjectiveError(
            f"tokens {tokens} with {logits.shape[-1]} logits",
            expected=f"token ids from 0 to {logits.shape[-1] - 1}",
            do="check the ids against the model's vocabulary",
        )
    return tokens


def output_logits(output: Any, logits_of: LogitsOf | None = None) -> Float[Tensor, "B T V"] | Float[Tensor, "B V"]:
    """The logits in a model's output: a tensor, or what has ``.logits``; anything else needs ``logits_of``.

    Raises:
        ObjectiveError: where they are not to be found, or are neither [B, T, V] nor [B, V].
    """
    found = logits_of(output) if logits_of is not None else getattr(output, "logits", output)
    if not isinstance(found, Tensor) or found.ndim not in (2, 3):
        shape = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ObjectiveError(
            f"a model output whose logits are {shape}",
            expected="logits [B, T, V] or [B, V]: a tensor, or an object with .logits",
            do="pass logits_of=, a function from the model's output to its logits",
        )
    return found


def logits_at(logits: Tensor, index: Tensor) -> Float[Tensor, "n V"]:
    """Rows of the logits at padded (b, t) indices; logits [B, V] have one row a sequence."""
    b, t = index.to(logits.device).unbind(1)
    if logits.ndim == 2:
        return logits[b]
    if len(index) == logits.shape[0] * logits.shape[1]:
        return logits.flatten(0, 1)
    return logits[b, t]
