"""Induction and memory over the training of an ordinary transformer on recall: which of the two leads, and why.

At each checkpoint: the coordinates α, β, γ of one pair of heads and δ (:mod:`invariscope.manifold.induction`), α over the places
of labels, which alone have a reason to look back; how right rare
and common questions are answered; and who wins where the two disagree: in a *conflict* common items have exchanged their
partners in the context, so that it answers one thing and memory another, and no token tells a conflict from a common context.
Why a coordinate c grows is read off its **pull**, what gradient flow would do to it at that moment,

    dc/dt = - sum over weights of (∂c/∂w)(∂L/∂w),

split by whose loss L it is: of questions that only the context answers, a share f of the data, or of the others. (An optimiser
other than gradient descent goes another way; the pull says what the data ask for.)

>>> import tempfile
>>> from invariscope.training import TrainConfig, train
>>> from invariscope.models import TransformerConfig
>>> task = AssociativeRecall(num_blocks=2, num_rare=6, num_common=4, rare_share=0.5, placement="fixed")
>>> shape = TransformerConfig(vocab_size=14, context_length=5, num_layers=2, width=16, num_heads=1, mlp_width=0)
>>> config = TrainConfig(steps=20, checkpoint_every=10)
>>> [run] = train(task, shape, config, seeds=[0], folder=tempfile.mkdtemp(), progress=False)
>>> series = follow_induction(run, task, num_sequences=64, progress=False)
>>> [moment.step for moment in series.moments], series.relevance
([10, 20], 0.5)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor

from invariscope.batch import Batch
from invariscope.errors import ConfigError
from invariscope.manifold.competition import relevance
from invariscope.manifold.induction import InductionCoordinates, coordinates_of, induction_coordinates
from invariscope.models import Transformer, linear_parts
from invariscope.numerics.matching import Matched
from invariscope.parallel import track
from invariscope.tasks import SampledBatches, derive_seed
from invariscope.tasks.blocks import AssociativeRecall
from invariscope.tasks.blocks.task import COMMON
from invariscope.training import Run, find_checkpoints
from invariscope.training.series import load_for

__all__ = ["FollowedCoordinate", "InductionMoment", "InductionSeries", "follow_induction"]

LEARNT = 0.95
"""Accuracy from which the sentence calls a kind of question learnt."""
LEADS = 0.5
"""Share of conflicts from which the sentence says who leads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedCoordinate:
    """One coordinate at a moment.

    Args:
        name: α, β, γ or δ. value: above the mean of its null. z: in standard deviations of the null.
        context_pull: what gradient flow would add to it in a unit of time, by the loss of questions that only the context
            answers. common_pull: by that of the others.
    """

    name: str
    value: float
    z: float
    context_pull: float
    common_pull: float

    @property
    def pull(self) -> float:
        """By the whole loss."""
        return self.context_pull + self.common_pull

    def __str__(self) -> str:
        return f"{self.name} {self.value:.1f} at {self.z:+.0f} sd"


@dataclass(frozen=True, slots=True, kw_only=True)
class InductionMoment:
    """One checkpoint.

    Args:
        step: optimiser steps done.
        coordinates: α, β, γ and, where there is a relation, δ.
        rare, common: accuracy on rare questions, and on common ones with their own partner; None where there are none.
        conflict_context, conflict_memory: shares of conflicts that are answered with the context's partner, and with the
            relation's; None where there are no conflicts.
        loss: of the training law, in nats. context_loss: the part of it that questions have which only the context answers.
    """

    step: int
    coordinates: tuple[FollowedCoordinate, ...]
    rare: float | None
    common: float | None
    conflict_context: float | None
    conflict_memory: float | None
    loss: float
    context_loss: float

    def sentence(self, relevance: float) -> str:
        """What stands at this moment, which circuit leads, and why, in words.

        Args:
            relevance: f, the share of the data that only the context answers.
        """
        circuit = ", ".join(str(one) for one in self.coordinates if one.name != "δ")
        memory = "".join(f"; memory {one}" for one in self.coordinates if one.name == "δ")
        share = self.context_loss / self.loss if self.loss > 0 else 0.0
        hardest = max(self.coordinates, key=lambda one: abs(one.pull))
        theirs = abs(hardest.context_pull) >= abs(hardest.common_pull)
        return (
            f"Step {self.step}: {self._learnt()}; {self._leader()} (induction {circuit}{memory}); questions that only the "
            f"context answers are {relevance:.2f} of the data and {share:.2f} of the loss, and the hardest pull, "
            f"{hardest.pull:+.2g} a unit of time, is on {hardest.name}, mostly by {'those' if theirs else 'common questions'}."
        )

    def _learnt(self) -> str:
        kinds = {"rare": self.rare, "common": self.common}
        found = [f"{name} questions {value:.2f}" for name, value in kinds.items() if value is not None]
        good = [name for name, value in kinds.items() if value is not None and value >= LEARNT]
        state = "both learnt" if len(good) == 2 else f"{good[0]} ones learnt" if good else "nothing learnt yet"
        return f"{state} ({', '.join(found)})"

    def _leader(self) -> str:
        if self.conflict_context is None or self.conflict_memory is None:
            return "there is no memory to compete with"
        numbers = f"{self.conflict_context:.2f} by the context, {self.conflict_memory:.2f} by memory"
        if self.conflict_context >= LEADS:
            return f"the context leads, in conflict {numbers}"
        if self.conflict_memory >= LEADS:
            return f"memory leads, in conflict {numbers}"
        return f"neither leads, in conflict {numbers}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InductionSeries:
    """The checkpoints of one training.

    Args:
        previous, matching: (layer, head) of the pair that is followed: the strongest circuit of the last checkpoint.
        relevance: f of the task, the share of its questions that only the context answers.
        moments: by step.
    """

    previous: tuple[int, int]
    matching: tuple[int, int]
    relevance: float
    moments: tuple[InductionMoment, ...]

    def sentences(self) -> tuple[str, ...]:
        """One a checkpoint."""
        return tuple(moment.sentence(self.relevance) for moment in self.moments)

    def first(self, name: str, level: float) -> int | None:
        """The step of the first checkpoint at which a field of :class:`InductionMoment` is ``level`` or more."""
        for moment in self.moments:
            value = getattr(moment, name)
            if value is not None and value >= level:
                return moment.step
        return None


def follow_induction(
    run_or_folder: Run | Path | str,
    task: AssociativeRecall,
    *,
    initial: Transformer | None = None,
    num_sequences: int = 1024,
    seed: int = 0,
    progress: bool = True,
) -> InductionSeries:
    """Measure every checkpoint of a training on recall, on the same sequences.

    Args:
        run_or_folder: a run, its folder, or a folder of checkpoints.
        task: what it was trained on, with fixed places.
        initial: the model before its first step, which is measured as step 0; None: the series begins at the first checkpoint.
        num_sequences: of each kind. seed: of them.
        progress: show a progress bar.

    Raises:
        ConfigError: for a task that does not fit a model, with places that are not fixed, or without one pair of heads.
        CheckpointError: where there is no checkpoint. ForeignFileError: for a damaged or foreign one.
    """
    if task.placement != "fixed":
        raise ConfigError(
            f"placement = {task.placement!r}", expected="fixed places, which a Transformer embeds", do="set placement='fixed'"
        )
    found: list[tuple[int, Path | Transformer]] = [*find_checkpoints(run_or_folder)]
    if initial is not None and found[0][0] > 0:
        found.insert(0, (0, initial))
    last = induction_coordinates(load_for(found[-1][1], task), task.relation, places=_labels(task))
    pair = _strongest_pair(last)
    kinds = _Kinds.of(task, num_sequences, seed)
    moments = []
    with track("following", len(found), unit="checkpoints", show=progress) as advance:
        for step, source in found:
            moments.append(_moment(load_for(source, task), task, step, pair, kinds))
            advance()
    return InductionSeries(
        previous=last.heads[pair[0]],
        matching=last.heads[pair[1]],
        relevance=relevance(task.rare_share, task.fresh_share),
        moments=tuple(moments),
    )


def _labels(task: AssociativeRecall) -> Int[Tensor, "n"]:
    """Places of labels, which have their item before them: α within a block, as in the manifold."""
    return torch.arange(1, task.sequence_length - 1, 2)


def _strongest_pair(found: InductionCoordinates) -> tuple[int, int]:
    """Indices of the pair of heads that is followed, even where it is no circuit yet."""
    if not len(found.heads) or found.heads[-1][0] == 0:
        raise ConfigError("a model of one layer", expected="a head above another one", do="train two layers")
    strength = found.matches() * found.gamma.excess.relu()
    lower = torch.tensor([[a[0] < b[0] for b in found.heads] for a in found.heads])
    i, j = divmod(int(torch.where(lower, strength, -1.0).argmax()), len(found.heads))
    return i, j


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Kinds:
    """Sequences of each kind of question; None where the task has none."""

    law: Batch
    rare: Batch | None
    common: Batch | None
    conflict: Batch | None

    @classmethod
    def of(cls, task: AssociativeRecall, num: int, seed: int) -> _Kinds:
        def draw(name: str, **fields: float) -> Batch:
            kind = dataclasses.replace(task, **fields)
            [batch] = SampledBatches(kind, num, batch_size=num, seed=derive_seed(seed, "induction", name), pool=task.pools[-1])
            return batch

        common = draw("common", rare_share=0.0, fresh_share=0.0) if task.num_common else None
        return cls(
            law=draw("law"),
            rare=draw("rare", rare_share=1.0) if task.rare_share > 0 else None,
            common=common,
            conflict=None if common is None or task.num_units < 2 else _exchanged(common),
        )


def _exchanged(common: Batch) -> Batch:
    """Common sequences in which each item has the partner of the next one, and the targets that follow from that."""
    rows, targets = [], []
    for row in common.inputs["tokens"].tolist():
        partner = dict(zip(row[:-1:2], row[1::2], strict=True))
        items = list(partner)
        other = {item: partner[items[(index + 1) % len(items)]] for index, item in enumerate(items)}
        rows.append([token for item in row[:-1:2] for token in (item, other[item])] + row[-1:])
        targets.append([other[row[-1]]])
    return Batch(inputs={"tokens": torch.tensor(rows)}, targets=torch.tensor(targets))


def _moment(model: Transformer, task: AssociativeRecall, step: int, pair: tuple[int, int], kinds: _Kinds) -> InductionMoment:
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    found = coordinates_of(linear_parts(model), task.relation, places=_labels(task))
    assert found.alpha is not None
    i, j = pair
    losses = _losses(model, kinds.law)
    slopes = [_slope(loss, parameters) for loss in losses]

    def followed(name: str, scores: Matched, at: Any) -> FollowedCoordinate:
        excess = scores.excess[at]
        along = _slope(excess, parameters)
        context, common = (-float(along @ slope) for slope in slopes)
        value, z = float(excess.detach()), float(scores.z[at].detach())
        return FollowedCoordinate(name=name, value=value, z=z, context_pull=context, common_pull=common)

    coordinates = [followed("α", found.alpha, i), followed("β", found.beta, (i, j)), followed("γ", found.gamma, j)]
    if found.delta is not None:
        coordinates.append(followed("δ", found.delta, ()))
    context, memory = _conflicts(model, kinds.conflict, task.relation)
    context_loss, common_loss = (float(loss.detach()) for loss in losses)
    return InductionMoment(
        step=step,
        coordinates=tuple(coordinates),
        rare=_accuracy(model, kinds.rare),
        common=_accuracy(model, kinds.common),
        conflict_context=context,
        conflict_memory=memory,
        loss=context_loss + common_loss,
        context_loss=context_loss,
    )


def _slope(value: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    found = torch.autograd.grad(value, parameters, retain_graph=True, allow_unused=True, materialize_grads=True)
    return torch.cat([one.flatten().double() for one in found])


def _losses(model: Transformer, batch: Batch) -> tuple[Tensor, Tensor]:
    """Parts of the mean loss: of questions that only the context answers, and of the others."""
    assert batch.targets is not None
    assert batch.labels is not None
    each = F.cross_entropy(model.last_logits(batch.inputs["tokens"])[:, -1], batch.targets[:, 0], reduction="none")
    common = batch.labels == COMMON
    return torch.where(common, 0.0, each).mean(), torch.where(common, each, 0.0).mean()


def _answers(model: Transformer, batch: Batch) -> Tensor:
    with torch.no_grad():
        return model.last_logits(batch.inputs["tokens"])[:, -1].argmax(-1)


def _accuracy(model: Transformer, batch: Batch | None) -> float | None:
    if batch is None:
        return None
    assert batch.targets is not None
    return float((_answers(model, batch) == batch.targets[:, 0]).double().mean())


def _conflicts(model: Transformer, batch: Batch | None, relation: Tensor | None) -> tuple[float | None, float | None]:
    """Shares of answers that are the context's, and memory's."""
    if batch is None or relation is None:
        return None, None
    assert batch.targets is not None
    answers, partners = _answers(model, batch), dict(relation.tolist())
    remembered = torch.tensor([partners[token] for token in batch.inputs["tokens"][:, -1].tolist()])
    return float((answers == batch.targets[:, 0]).double().mean()), float((answers == remembered).double().mean())
