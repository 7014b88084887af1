"""Answers of several tokens, scored whole: the summed log-probability of every alternative under edits of the prompt.

A core is taken at the first token that differs between the answers; whether a whole answer wins is another question. Every
alternative is written out after its prompt, the edit acts on tokens of the prompt alone, and what follows is teacher-forced: a
class scores the log of the summed probability of its alternatives.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from invariscope.cores.choice_metrics import choice_accuracy
from invariscope.cores.measure import Edit
from invariscope.cores.metrics import estimate_metric
from invariscope.estimate import Estimate
from invariscope.positions import Positions, Rows, select_positions
from invariscope.sites import edit_site, frozen
from invariscope.tasks import EncodedPairs, alternative_scores
from invariscope.tasks.encoded_pairs import ExpandedBatch

__all__ = ["WholeAnswers"]

Key = TypeVar("Key", bound=Hashable)


class _scored:  # noqa: N801 (an objective, called as the others are)
    """Numbers that are scores of the classes already."""

    name = "summed log-probability"

    def __init__(self, num_outputs: int) -> None:
        self.num_outputs = num_outputs

    def __call__(self, logits: Float[Tensor, "n C"], rows: Rows | None = None) -> Float[Tensor, "n C"]:
        return logits


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WholeAnswers:
    """Prompts with every alternative written out.

    Args:
        pairs: n of them.
        batches: one row an alternative, padded on the left.
    """

    pairs: EncodedPairs
    batches: Sequence[ExpandedBatch]

    @classmethod
    def of(cls, pairs: EncodedPairs, batch_size: int) -> WholeAnswers | None:
        """Those of ``pairs``; None where every answer is one token, which the logits at the prompt's end score already."""
        return cls(pairs=pairs, batches=pairs.expanded(batch_size)) if pairs.multi_token else None

    def scores(self, model: nn.Module, edit: Edit | None, *, site: str, positions: Positions = "last") -> Float[Tensor, "n C"]:
        """Log-probability of every class under an edit, in float64.

        Args:
            model: a causal language model of transformers.
            edit: of activations at ``site``; None: none.
            positions: tokens of the prompt; those of the answer are never edited.

        Raises:
            PositionError: for positions that a prompt does not have.
        """
        found = []
        with torch.no_grad(), frozen(model):
            for part in self.batches:
                targets = part.batch.targets
                assert targets is not None, "an expanded batch has targets"
                # Answers end at the last token: nothing before the longest one needs logits.
                kept = targets.shape[1] - int((targets >= 0).any(0).nonzero()[0])
                chosen = self._mask(part, positions)
                edited = nullcontext() if edit is None else edit_site(model, site, edit, positions=chosen)
                with edited:
                    logits = model(**part.batch.inputs, logits_to_keep=kept).logits
                ends = dataclasses.replace(part.batch, targets=targets[:, -kept:])
                found.append(alternative_scores(logits, dataclasses.replace(part, batch=ends)))
        return self.pairs.class_scores(found, self.batches)

    def accuracies(
        self,
        model: nn.Module,
        edits: Mapping[Key, Edit | None],
        *,
        site: str,
        positions: Positions,
        rows: Rows,
        generator: torch.Generator,
    ) -> dict[Key, Estimate]:
        """Share of pairs whose right answer, whole, is the most probable, under every edit.

        Args:
            rows: labels and groups of the pairs. generator: of the bootstrap. The others as in :meth:`scores`.
        """
        metric = choice_accuracy(_scored(self.pairs.num_classes), name="whole answers")
        labelled = rows if rows.labels is not None else dataclasses.replace(rows, labels=torch.ones_like(rows.groups))
        return {
            key: estimate_metric(
                metric, metric(self.scores(model, edit, site=site, positions=positions), labelled), rows, generator
            )
            for key, edit in edits.items()
        }

    def _mask(self, part: ExpandedBatch, positions: Positions) -> Bool[Tensor, "B T"]:
        """``positions`` of the prompts, on the rows of ``part``."""
        ends, valid = part.batch.marked, part.batch.inputs["attention_mask"].bool()
        assert ends is not None, "an expanded batch marks where its prompts end"
        # True up to the end of the prompt.
        prompt = valid & (ends.flip(1).long().cumsum(1).flip(1) > 0)
        mask = torch.zeros_like(prompt)
        if isinstance(positions, str) and positions == "marked":
            first = valid.long().argmax(1)
            marked = torch.tensor([self.pairs.rows[pair].marked for pair in part.pairs.tolist()])
            index = torch.stack([torch.arange(len(first)), first + marked], 1)
        else:
            index = select_positions(positions, valid=prompt)
        mask[index[:, 0], index[:, 1]] = True
        return mask
