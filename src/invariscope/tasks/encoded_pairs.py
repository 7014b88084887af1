"""Pairs as token ids of one tokeniser: prompts, the tokens that tell answer from foil, and batches of them.

The answer's tokens are what ``encode(prompt + answer)`` has beyond ``encode(prompt)``. A prompt's trailing spaces move to its
answers first, since most tokenisers write a space together with the word behind it; where a tokeniser still merges across the
border, the pair is refused with its pieces. What all alternatives begin with is appended to the prompt, and the choice is made
at the first token that differs (a core is taken there). Answers of several tokens are scored by the sum of their
log-probabilities under teacher forcing: :meth:`EncodedPairs.expanded` lays them out, one row an alternative,
:func:`alternative_scores` sums, :meth:`EncodedPairs.class_scores` puts the alternatives of a class together.

>>> from invariscope.tasks.pairs import Pair, PairSet
>>> pairs = PairSet([Pair(prompt="ab", answers="c", foils="d"), Pair(prompt="b", answers="d", foils="c")], add_space=False)
>>> encoded = pairs.encode(lambda text: list(text.encode()))
>>> [batch] = encoded.batches(2)
>>> batch.inputs["input_ids"].tolist(), batch.choices.flatten(1).tolist(), batch.labels.tolist()
([[97, 98], [0, 98]], [[100, 99], [100, 99]], [1, 0])
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from invariscope.batch import Batch, text_inputs
from invariscope.errors import ConfigError, PairsError, TooFewSamplesError

__all__ = ["EncodedPair", "EncodedPairs", "ExpandedBatch", "alternative_scores", "check_no_common_group"]

Alternatives = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedPair:
    """One pair as token ids.

    Args:
        prompt: ids, with what all alternatives begin with at the end.
        choices: per class, the first token of each alternative beyond that.
        continuations: per class, all tokens of each alternative beyond ``prompt``.
        label: number of the class that is right; None: the pairs have no classes, and class 1 is the answer.
        group: number of the group. group_name: its name, None where the pairs of one prompt are a group.
        marked: index in ``prompt`` of the token that the pair is about.
        transfer: as ``choices``, of the second choice.
        line: where the pair stands in its file.
    """

    prompt: tuple[int, ...]
    choices: Alternatives
    continuations: tuple[Alternatives, ...]
    label: int | None
    group: int
    group_name: str | None = None
    marked: int
    transfer: Alternatives | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExpandedBatch:
    """Alternatives under teacher forcing: one row each.

    Args:
        batch: prompt and alternative; ``targets`` [B, T] hold at each token of the prompt's end and of the alternative the one
            that follows, and -1 elsewhere; ``marked`` is the token at which the choice is made, the end of the prompt.
        pairs: number of the pair of each row, [B]; classes: of the class, [B].
    """

    batch: Batch
    pairs: Int[Tensor, "B"]
    classes: Int[Tensor, "B"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedPairs:
    """All pairs of a set for one tokeniser, in the order of the file.

    Args:
        rows: the pairs.
        name, classes: those of the set; ``classes`` is empty where there are none.
        notes: what was done to the texts.
    """

    rows: tuple[EncodedPair, ...]
    name: str = "pairs"
    classes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def num_classes(self) -> int:
        """C, at least 2."""
        return len(self.rows[0].choices)

    @property
    def choices(self) -> Int[Tensor, "n C A"]:
        """First differing tokens of every class, padded by -1."""
        return _choices_tensor([row.choices for row in self.rows])

    @property
    def transfer(self) -> Int[Tensor, "n C A"] | None:
        """The same of the second choice; None where some pair has none."""
        found = [row.transfer for row in self.rows]
        return None if any(x is None for x in found) else _choices_tensor([x for x in found if x is not None])

    @property
    def labels(self) -> Int[Tensor, "n"] | None:
        """Number of the right class of every pair; None where the pairs have no classes."""
        found = [row.label for row in self.rows]
        return None if any(label is None for label in found) else torch.tensor(found)

    @property
    def multi_token(self) -> bool:
        """Whether some alternative has more than the one token that ``choices`` hold."""
        return any(len(tokens) > 1 for row in self.rows for side in row.continuations for tokens in side)

    def batches(
        self, batch_size: int, *, side: Literal["left", "right"] = "left", pad_id: int = 0, transfer: bool = False
    ) -> list[Batch]:
        """The prompts in batches, in file order, each padded to its longest.

        ``choices``, ``labels``, ``groups`` and ``marked`` are filled; ``targets`` [B, 1] is the first token of the right answer.

        Args:
            batch_size: prompts a batch.
            side: of the padding. pad_id: what stands there; masked.
            transfer: choose between the second answers and foils instead.

        Raises:
            ConfigError: for a batch size below 1. PairsError: for a transfer that some pair does not have.
        """
        choices = self.transfer if transfer else self.choices
        if choices is None:
            raise PairsError(
                f"the second answers of {self.name}, which some pair does not have",
                expected="answer2 and foil2 in every row",
                do="fill both columns, or remove them",
            )
        labels = self.labels
        right = torch.ones(len(self.rows), dtype=torch.long) if labels is None else labels
        groups, targets = torch.tensor([row.group for row in self.rows]), choices[torch.arange(len(right)), right, :1]
        batches = []
        for part in _parts(len(self.rows), batch_size):
            prompts = [row.prompt for row in self.rows[part]]
            inputs = text_inputs(prompts, pad_id=pad_id, side=side)
            batches.append(
                Batch(
                    inputs=inputs,
                    targets=targets[part],
                    labels=None if labels is None else labels[part],
                    groups=groups[part],
                    choices=choices[part],
                    marked=_at([row.marked for row in self.rows[part]], inputs),
                )
            )
        return batches

    def expanded(self, batch_size: int, *, side: Literal["left", "right"] = "left", pad_id: int = 0) -> list[ExpandedBatch]:
        """One row an alternative of each class, for teacher forcing; see the module's text.

        Raises:
            ConfigError: for a batch size below 1.
        """
        flat = [
            (number, class_, tokens)
            for number, row in enumerate(self.rows)
            for class_, side_ in enumerate(row.continuations)
            for tokens in side_
        ]
        batches = []
        for part in _parts(len(flat), batch_size):
            prompts = [self.rows[number].prompt for number, _, _ in flat[part]]
            # The last token predicts nothing, so the model need not read it.
            texts = [prompt + tokens[:-1] for prompt, (_, _, tokens) in zip(prompts, flat[part], strict=True)]
            inputs = text_inputs(texts, pad_id=pad_id, side=side)
            targets = torch.full_like(inputs["input_ids"], -1)
            for i, (prompt, (_, _, tokens)) in enumerate(zip(prompts, flat[part], strict=True)):
                first = int(inputs["attention_mask"][i].argmax()) + len(prompt) - 1
                targets[i, first : first + len(tokens)] = torch.tensor(tokens)
            groups = torch.tensor([self.rows[number].group for number, _, _ in flat[part]])
            marked = _at([len(prompt) - 1 for prompt in prompts], inputs)
            batches.append(
                ExpandedBatch(
                    batch=Batch(inputs=inputs, targets=targets, groups=groups, marked=marked),
                    pairs=torch.tensor([number for number, _, _ in flat[part]]),
                    classes=torch.tensor([class_ for _, class_, _ in flat[part]]),
                )
            )
        return batches

    def class_scores(self, scores: Sequence[Float[Tensor, "B"]], batches: Sequence[ExpandedBatch]) -> Float[Tensor, "n C"]:
        """Log of the summed probability of every class's alternatives, from one score a row of ``expanded`` batches."""
        table = torch.full((len(self.rows), self.num_classes), -torch.inf, dtype=torch.float64)
        for values, part in zip(scores, batches, strict=True):
            for pair, class_, value in zip(part.pairs.tolist(), part.classes.tolist(), values.double().cpu(), strict=True):
                table[pair, class_] = torch.logaddexp(table[pair, class_], value)
        return table

    def split(self, heldout_share: float = 0.3, seed: int = 0) -> tuple[EncodedPairs, EncodedPairs]:
        """The pairs to fit on and those held out: no group is in both, and both hold every class.

        Groups are taken in random order, each if it brings the held-out numbers of the classes nearer to their share.

        Args:
            heldout_share: of the pairs, in (0, 1).
            seed: of the order.

        Raises:
            ConfigError: for a share outside (0, 1). TooFewSamplesError: where a part would be empty or lack a class.
        """
        if not 0 < heldout_share < 1:
            raise ConfigError(f"a held-out share of {heldout_share}", expected="a number between 0 and 1", do="use 0.3")
        counts: dict[int, Counter[int | None]] = {}
        for row in self.rows:
            counts.setdefault(row.group, Counter())[row.label] += 1
        total = Counter(row.label for row in self.rows)
        names = list(counts)
        chosen: set[int] = set()
        held: Counter[int | None] = Counter()
        for i in torch.randperm(len(names), generator=torch.Generator().manual_seed(seed)).tolist():
            more = held + counts[names[i]]
            if _distance(more, total, heldout_share) < _distance(held, total, heldout_share):
                chosen.add(names[i])
                held = more
        if any(not 0 < held[label] < total[label] for label in total):
            raise TooFewSamplesError(
                f"{len(names)} groups of {self.name}, of which a share of {heldout_share} is to be held out",
                expected="every class in groups on either side",
                do="give more groups of each class, or another share",
            )
        parts = (
            dataclasses.replace(self, rows=tuple(row for row in self.rows if (row.group in chosen) is heldout))
            for heldout in (False, True)
        )
        fit, heldout = parts
        check_no_common_group(fit, heldout)
        return fit, heldout


def alternative_scores(logits: Float[Tensor, "B T V"], expanded: ExpandedBatch) -> Float[Tensor, "B"]:
    """Summed log-probability of each row's alternative under teacher forcing, in float64.

    >>> batch = Batch(inputs={"input_ids": torch.tensor([[5, 1]])}, targets=torch.tensor([[1, 0]]))
    >>> expanded = ExpandedBatch(batch=batch, pairs=torch.tensor([0]), classes=torch.tensor([0]))
    >>> alternative_scores(torch.zeros(1, 2, 4), expanded).exp().tolist()
    [0.0625]
    """
    targets = expanded.batch.targets
    assert targets is not None, "an expanded batch has targets"
    targets = targets.to(logits.device)
    found = logits.double().log_softmax(-1).gather(2, targets.clamp_min(0)[..., None])[..., 0]
    return found.masked_fill(targets < 0, 0.0).sum(1)


def check_no_common_group(fit: EncodedPairs, heldout: EncodedPairs) -> None:
    """Raise where a group is in both parts: what it holds would be tested on what it was fitted to.

    Raises:
        PairsError: naming the group, or the prompt's line.
    """
    names = {row.group_name for row in fit.rows} - {None}
    prompts = {row.prompt for row in fit.rows}
    for row in heldout.rows:
        if row.group_name in names or (row.group_name is None and row.prompt in prompts):
            what = f"the group {row.group_name!r}" if row.group_name is not None else f"the prompt of line {row.line}"
            raise PairsError(
                f"{what} in both halves",
                expected="groups on one side of the split",
                do="rename the group, or leave it out of one half",
            )


def _distance(held: Counter[int | None], total: Counter[int | None], share: float) -> float:
    return sum(abs(held[label] - share * num) for label, num in total.items())


def _parts(num: int, size: int) -> list[slice]:
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ConfigError(f"a batch size of {size!r}", expected="at least 1", do="use 64")
    return [slice(start, min(start + size, num)) for start in range(0, num, size)]


def _choices_tensor(rows: Sequence[Alternatives]) -> Int[Tensor, "n C A"]:
    width = max(len(side) for row in rows for side in row)
    return torch.tensor([[list(side) + [-1] * (width - len(side)) for side in row] for row in rows])


def _at(tokens: Sequence[int], inputs: dict[str, Tensor]) -> Bool[Tensor, "B T"]:
    mask = inputs["attention_mask"]
    places = mask.argmax(1) + torch.tensor(tokens)
    return torch.zeros_like(mask, dtype=torch.bool).scatter(1, places[:, None], True)
