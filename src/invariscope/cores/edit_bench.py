"""A bench for edits in a language model: held-out prompts, run once, then only the layers above each edit.

The unedited predictions, the keys and values of every prompt, and the states at one layer are computed once and serve every edit
there. Margins read a few rows of the unembedding (:mod:`invariscope.cores.vocabulary`); specificity reads all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from invariscope.batch import Batch
from invariscope.cores.validate import EDITS
from invariscope.cores.vocabulary import Vocabulary, vocabulary_of
from invariscope.cores.whole_answers import WholeAnswers
from invariscope.models.downstream import Downstream, from_state, read_states, split_prefix
from invariscope.positions import Positions, Rows
from invariscope.sites import Objective, frozen

__all__ = ["EditBench", "LayerStates", "SweepSettings"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SweepSettings:
    """What is swept and what stands beside it.

    Args:
        objective: whose cores: one number a prompt, or one an answer.
        layers: from 0; None: all.
        projections, ranks, edits: that are tried; controls are of each rank.
        positions: at which tokens edits act: ``last``; the prompt's, such as ``slice(1, None)``, all but the first; or
            ``marked``, the one that each pair names: its core is extracted there, and the last layer left out.
        transfers: margins by name that no core is extracted from.
        arbitrary: margins by name that have nothing to do with the behaviour; each gets a core of its own.
        answers: token ids that specificity leaves out.
        controls: names; None: all that the labels allow. num_random: random subspaces.
    """

    objective: Objective
    layers: Sequence[int] | None = None
    projections: Sequence[str] = ("oblique", "adjoint", "activation")
    ranks: Sequence[int] = (1,)
    edits: Sequence[str] = EDITS
    positions: Positions = "last"
    transfers: Mapping[str, Objective] = field(default_factory=dict)
    arbitrary: Mapping[str, Objective] = field(default_factory=dict)
    answers: Sequence[int] = ()
    controls: Sequence[str] | None = None
    num_random: int = 4

    @property
    def at_marked(self) -> bool:
        """Whether cores and edits are at the token that each prompt marks."""
        return isinstance(self.positions, str) and self.positions == "marked"

    @property
    def read_at(self) -> Literal["marked", "last"]:
        """The token of each prompt that cores are extracted at."""
        return "marked" if self.at_marked else "last"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerStates:
    """What one layer puts out on the bench.

    Args:
        prompts, unrelated: rows to be run from there, with answers as token ids.
        few: ``prompts`` with answers as places among the tokens that margins read.
    """

    prompts: Sequence[Batch]
    few: Sequence[Batch]
    unrelated: Sequence[Batch]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EditBench:
    """Held-out prompts, ready for edits at any layer.

    Args:
        model: a causal language model.
        settings: of the sweep.
        vocabulary: the tokens that margins read; None: all.
        prompts, unrelated: the last token of each prompt after its cached keys and values, or whole prompts where edits act
            before it.
        unedited, unrelated_unedited: log-probabilities at the last token, [n, V]; of unrelated text None where there is none.
        rows: what is known about the prompts, with choices as token ids.
        arbitrary: of each arbitrary objective, its value on every prompt, [n].
        whole_answers: the prompts with their answers written out; None where each is one token.
    """

    model: nn.Module
    settings: SweepSettings
    vocabulary: Vocabulary | None
    prompts: Sequence[Batch]
    unrelated: Sequence[Batch]
    unedited: Tensor
    unrelated_unedited: Tensor | None
    rows: Rows
    arbitrary: Mapping[str, Tensor]
    whole_answers: WholeAnswers | None = None

    @classmethod
    def of(
        cls,
        model: nn.Module,
        heldout: Iterable[Batch],
        unrelated: Iterable[Batch],
        settings: SweepSettings,
        *,
        whole_answers: WholeAnswers | None = None,
    ) -> EditBench:
        """Run every prompt once.

        Args:
            heldout, unrelated: prompts padded on the left.
            whole_answers: of ``heldout``, where some answer has several tokens.
        """
        at_last = isinstance(settings.positions, str) and settings.positions == "last"
        with frozen(model):
            prompts, quiet = (
                [split_prefix(model, batch) if at_last else batch for batch in batches] for batches in (heldout, unrelated)
            )
            unedited = _predictions(model, prompts)
            rows = _rows(prompts)
            return cls(
                model=model,
                settings=settings,
                vocabulary=vocabulary_of(
                    [settings.objective, *settings.transfers.values(), *settings.arbitrary.values()], prompts
                ),
                prompts=prompts,
                unrelated=quiet,
                unedited=unedited,
                unrelated_unedited=_predictions(model, quiet) if quiet else None,
                rows=rows,
                arbitrary={name: found(unedited, rows)[:, 0] for name, found in settings.arbitrary.items()},
                whole_answers=whole_answers,
            )

    def above(self, layer: int, *, whole: bool) -> Downstream:
        """The model above a layer, with all logits or those that margins read."""
        ids = None if whole or self.vocabulary is None else self.vocabulary.ids
        return Downstream(self.model, block=layer, vocabulary=ids)

    def at(self, layer: int) -> LayerStates:
        """The rows, to be run from what ``layer`` puts out."""
        below = Downstream(self.model, vocabulary=[0])

        def states(batches: Sequence[Batch]) -> list[Batch]:
            return [from_state(batch, read_states(below, batch, blocks=[layer])[layer]) for batch in batches]

        prompts = states(self.prompts)
        few = prompts if self.vocabulary is None else [self.vocabulary.batch(batch) for batch in prompts]
        return LayerStates(prompts=prompts, few=few, unrelated=states(self.unrelated))

    def on_few(self, objective: Objective) -> Objective:
        """An objective on the logits of the tokens that margins read."""
        return objective if self.vocabulary is None else self.vocabulary.objective(objective)

    @property
    def two_classes(self) -> bool:
        """Whether labels say which of two answers is right."""
        return self.rows.labels is not None and set(self.rows.labels.tolist()) == {0, 1}


def _predictions(model: nn.Module, batches: Sequence[Batch]) -> Tensor:
    whole = Downstream(model)
    with torch.no_grad():
        return torch.cat([whole(**batch.inputs).float().cpu().log_softmax(-1) for batch in batches])


def _rows(batches: Sequence[Batch]) -> Rows:
    """One row a prompt, whatever its tokens; groups are the prompts themselves where there are none."""
    num = sum(batch.num_rows for batch in batches)

    def joined(name: str) -> Tensor | None:
        values = [getattr(batch, name) for batch in batches]
        return None if any(value is None for value in values) else torch.cat([value.cpu() for value in values])

    index, groups = torch.arange(num), joined("groups")
    return Rows(
        b=index,
        t=torch.zeros_like(index),
        groups=index if groups is None else groups,
        labels=joined("labels"),
        choices=joined("choices"),
    )
