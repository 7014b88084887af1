"""A few tokens in place of the whole vocabulary: the margin of two answers needs two rows of the unembedding, not 262 144.

:class:`Vocabulary` holds the token ids that some objectives and batches speak of, and says the same of their places in it. An
objective that needs every logit (log-softmax, say) cannot be restricted; then there is no such vocabulary.

>>> from invariscope.sites import margin
>>> few = Vocabulary((12, 900))
>>> few.objective(margin(positive=[900], negative=[12])).positive
[1]
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from invariscope.batch import Batch
from invariscope.cores.choice_metrics import choices_from
from invariscope.sites import Objective, choices, margin

__all__ = ["Vocabulary", "vocabulary_of"]

MAX_TOKENS = 4096
"""Above it the whole unembedding is as cheap as gathering rows of it."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Some token ids, ascending.

    Args:
        ids: each once.
    """

    ids: tuple[int, ...]

    def objective(self, objective: Objective) -> Objective:
        """The same objective on logits of these tokens only; its name stays."""
        if isinstance(objective, choices_from):
            return choices_from(self._places(objective.table), name=objective.name)
        if not isinstance(objective, margin):
            return objective
        moved = copy.copy(objective)
        moved.positive, moved.negative = (
            [self.ids.index(token) for token in side] for side in (objective.positive, objective.negative)
        )
        return moved

    def batch(self, batch: Batch) -> Batch:
        """The same rows, their answers given as places in this vocabulary."""
        if batch.choices is None:
            return batch
        return dataclasses.replace(batch, choices=self._places(batch.choices))

    def _places(self, ids: Tensor) -> Tensor:
        found = torch.searchsorted(torch.tensor(self.ids), ids.cpu().clamp_min(0)).to(ids.device)
        return torch.where(ids < 0, ids, found)


def vocabulary_of(objectives: Sequence[Objective], batches: Iterable[Batch]) -> Vocabulary | None:
    """The tokens that the objectives read on these batches; None where one of them reads all, or they are too many."""
    ids: set[int] = set()
    for objective in objectives:
        if isinstance(objective, margin):
            ids |= {*objective.positive, *objective.negative}
        elif isinstance(objective, choices | choices_from):
            tables = [objective.table] if isinstance(objective, choices_from) else [batch.choices for batch in batches]
            ids |= {token for table in tables for token in _answers(table) if token >= 0}
        else:
            return None
    return Vocabulary(tuple(sorted(ids))) if len(ids) <= MAX_TOKENS else None


def _answers(found: Tensor | None) -> list[int]:
    return [] if found is None else found.flatten().unique().tolist()
