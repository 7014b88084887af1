"""Metrics of a choice between answers: right or wrong, by how much, and what else in the prediction has changed.

A behaviour offers C answers; an objective gives one number for two of them (the margin of answer 1 over answer 0) or C numbers.
``Rows.labels`` says which answer is right; without labels answer 1 is. Accuracy alone hides a margin that has shrunk to nothing,
and an area under the curve hides an offset, so both stand beside the mean margin.

>>> import torch
>>> from invariscope.sites import margin
>>> rows = Rows(b=torch.arange(2), t=torch.zeros(2).long(), groups=torch.arange(2), labels=torch.tensor([1, 0]))
>>> prediction = torch.tensor([[0.0, 3.0], [0.0, 1.0]])
>>> choice_accuracy(margin(positive=[1], negative=[0]))(prediction, rows).tolist()
[1.0, 0.0]
>>> choice_margin(margin(positive=[1], negative=[0]))(prediction, rows).tolist()
[3.0, -1.0]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from invariscope.errors import ObjectiveError
from invariscope.positions import Rows
from invariscope.sites import Objective, choices

__all__ = ["change_elsewhere", "choice_accuracy", "choice_margin", "choices_from"]


def _right_answer(values: Float[Tensor, "n K"], rows: Rows) -> Int[Tensor, "n"]:
    """The number of the right answer of each row."""
    if rows.labels is not None:
        return rows.labels.to(values.device)
    if values.shape[1] > 1:
        raise ObjectiveError(f"{values.shape[1]} answers and no labels", expected="which one is right", do="fill Batch.labels")
    return torch.ones(len(values), dtype=torch.long, device=values.device)


class choices_from:  # noqa: N801 (reads as the objectives do)
    """The margin of class 1 over class 0 of a table of choices, row i for the sequence i: answers that the batches do not hold.

    Args:
        table: token ids, [n, 2, A], padded by -1.
        name: written into reports.
    """

    num_outputs = 1

    def __init__(self, table: Int[Tensor, "n 2 A"], *, name: str) -> None:
        self.table, self.name = table, name

    def __call__(self, logits: Float[Tensor, "n V"], rows: Rows) -> Float[Tensor, "n 1"]:
        """The margin of each row."""
        return choices()(logits, dataclasses.replace(rows, choices=self.table[rows.b.cpu()].to(logits.device)))


class choice_accuracy:  # noqa: N801 (reads as the function that it is: iv.choice_accuracy(iv.choices()))
    """Share of rows whose right answer has the largest number; a tie counts half.

    Args:
        objective: one number (answer 1 over answer 0), or one an answer.
        name: as printed.
    """

    unit, higher_is_better = "share", True

    def __init__(self, objective: Objective, *, name: str = "accuracy") -> None:
        self.objective, self.name = objective, name

    def __call__(self, logits: Float[Tensor, "n V"], rows: Rows) -> Float[Tensor, "n"]:
        """1, 0, or a share of a tie."""
        over = _over_best_other(self.objective(logits, rows), rows)
        return (over > 0).double() + (over == 0).double() / 2

    def chance(self, rows: Rows) -> float:
        """Frequency of the commonest answer; one half without labels."""
        if rows.labels is None:
            return 0.5
        weights = torch.ones(rows.num, dtype=torch.float64) if rows.weights is None else rows.weights.double().cpu()
        counts = torch.bincount(rows.labels.cpu(), weights=weights)
        return float(counts.max() / counts.sum())


class choice_margin:  # noqa: N801
    """By how much the right answer's number lies above the best other's; mean over rows. Units are those of the objective.

    Args:
        objective, name: as in :class:`choice_accuracy`.
    """

    unit, higher_is_better = "logits", True

    def __init__(self, objective: Objective, *, name: str = "margin") -> None:
        self.objective, self.name = objective, name

    def __call__(self, logits: Float[Tensor, "n V"], rows: Rows) -> Float[Tensor, "n"]:
        """The margin of each row towards its right answer."""
        return _over_best_other(self.objective(logits, rows), rows)

    def chance(self, rows: Rows) -> float | None:
        """None: a constant answer has any margin one likes."""
        return None


def _over_best_other(values: Float[Tensor, "n K"], rows: Rows) -> Float[Tensor, "n"]:
    right = _right_answer(values, rows)
    if values.shape[1] == 1:
        return values[:, 0] * (2 * right - 1)
    here = torch.nn.functional.one_hot(right, values.shape[1]).bool()
    return values[here] - values.masked_fill(here, -torch.inf).amax(1)


class change_elsewhere:  # noqa: N801
    """Divergence of the edited prediction from the unedited one over all tokens that are no answers, in nats.

    Kullback-Leibler, from the unedited to the edited. Both laws are renormalised over those tokens: an edit that moves the
    answers alone changes nothing here.

    Args:
        unedited: log-probabilities of the unedited model, [n, V], row i for the sequence i.
        answers: token ids that are left out; none: the divergence of the whole predictions.
        name: as printed.
    """

    unit, higher_is_better = "nats", False

    def __init__(self, unedited: Float[Tensor, "n V"], answers: Sequence[int] = (), *, name: str = "elsewhere") -> None:
        self.unedited, self.answers, self.name = unedited, list(answers), name

    def __call__(self, logits: Float[Tensor, "n V"], rows: Rows) -> Float[Tensor, "n"]:
        """Nats of each row."""
        p, q = (self._law(x) for x in (self.unedited[rows.b.cpu()].to(logits), logits))
        # Left-out tokens have probability 0 on both sides, and 0 times their difference is to be 0.
        return torch.where(p.isneginf(), 0, p.exp() * (p - q)).sum(1)

    def _law(self, scores: Float[Tensor, "n V"]) -> Float[Tensor, "n V"]:
        scores = scores.float()
        if self.answers:
            scores = scores.index_fill(1, torch.tensor(self.answers, device=scores.device), -torch.inf)
        return scores.log_softmax(-1)

    def chance(self, rows: Rows) -> float | None:
        """None."""
        return None
