"""Where heads look: does ``=`` find the operands, does each number find its variable, does ``=`` then find the values?

The circuit of arXiv:2605.31497 in two layers of one head. In layer 1 every assigned number attends to the variable that it is
assigned to, and the final ``=`` to the operands of the sum; in layer 2 ``=`` matches the variables that it now holds with those
that the numbers hold, and so attends to the numbers that are to be added. All of it is read off the attention patterns.

One head divides its attention, so a *mean* weight is far below 1 where the circuit is perfect: what is scored is which of the
candidates is attended most. Candidates are fewer than tokens, so each share stands beside the share of a head that ranks them
at random.

Legend of shapes: B rows, T tokens, H heads, k operands. "Layer 1" and "layer 2" are the paper's names of blocks 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from invariscope.batch import Batch
from invariscope.circuits.checks import check_model
from invariscope.circuits.forward import CHUNK, answer_logits, merged
from invariscope.errors import TooFewSamplesError
from invariscope.estimate import Estimate
from invariscope.models import Transformer
from invariscope.numerics import estimate_mean
from invariscope.sites import frozen, read_sites
from invariscope.tasks import AssignAdd, Places

__all__ = ["AttentionMaps", "AttentionRouting", "SplitShare", "attention_maps", "attention_routing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitShare:
    """A share over all sequences, and over those of each kind.

    Args:
        overall: with its chance level.
        by_num_variables: the same over sums with 0, 1, ..., k variables; None where none of them counts.
    """

    overall: Estimate
    by_num_variables: tuple[Estimate | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionRouting:
    """Which tokens are attended most.

    Args:
        attn1_equal_to_operands: the k tokens that ``=`` attends most in layer 1 are the k operands. Chance: 1 / C(T, k).
        attn2_equal_to_values: the k tokens that ``=`` attends most in layer 2 are the numbers to be added, those in the query or
            those assigned. Chance: 1 / C(T, k).
        attn2_equal_among_numbers: of the assigned numbers, those that ``=`` attends most in layer 2 are the values of the
            variables in the sum (sums with a variable only). Chance: 1 / C(assigned numbers, variables).
        number_to_own_variable: of the variables before an assigned number, its own is the one that it attends most in layer 1.
            Numbers that see a single variable are left out. Chance: 1 / variables that it sees.
        number_to_own_weight: mean weight of an assigned number on its own variable in layer 1, over all of them. Chance: that
            of attention spread evenly.
        number_to_other_weight: mean weight on each other variable, over the numbers that see another.
    """

    attn1_equal_to_operands: SplitShare
    attn2_equal_to_values: SplitShare
    attn2_equal_among_numbers: SplitShare
    number_to_own_variable: SplitShare
    number_to_own_weight: Estimate
    number_to_other_weight: Estimate


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttentionMaps:
    """Patterns of both layers: a row per query token, whose weights sum to 1.

    Args:
        first, second: [B, H, T, T].
    """

    first: Float[Tensor, "B H T T"]
    second: Float[Tensor, "B H T T"]


def attention_maps(model: Transformer, task: AssignAdd, tokens: Int[Tensor, "B T"]) -> AttentionMaps:
    """Whole attention patterns of a few sequences, for drawing.

    Raises:
        ConfigError: for a model that does not fit the task. ShapeError: for sequences of another length.
    """
    check_model(model, task)
    task.places(tokens)
    names = ("blocks.0.attn_pattern", "blocks.1.attn_pattern")
    with frozen(model), torch.no_grad(), read_sites(model, names) as seen:
        model(tokens.to(model.token_embedding.device))
    # Rows come out flattened in (b, t) order, a token's own pattern [H, T] each.
    first, second = (seen[name].cpu().unflatten(0, (len(tokens), -1)).transpose(1, 2) for name in names)
    return AttentionMaps(first=first, second=second)


def attention_routing(
    model: Transformer, task: AssignAdd, batches: Iterable[Batch], *, generator: torch.Generator
) -> AttentionRouting:
    """Score where both heads look.

    Args:
        model, task: of one head a layer.
        batches: sequences of the task, of any pools.
        generator: of the bootstrap, which draws sums.

    Raises:
        ConfigError: for a model that does not fit the task, or several heads. ReiterableError: for a generator of batches.
        TooFewSamplesError: where no assigned number sees two variables, or no sum has a variable.
    """
    check_model(model, task, one_head=True)
    batch = merged(batches)
    tokens, labels, groups = batch.inputs["tokens"], batch.labels, batch.groups
    assert labels is not None
    assert groups is not None
    places = task.places(tokens)
    first, second = _patterns(model, tokens)
    kinds = _Kinds(labels, groups, task.num_operands, generator)
    of_operands = _marked(places.operands, task.sequence_length)
    chance = torch.full((len(tokens),), 1 / math.comb(task.sequence_length, task.num_operands), dtype=torch.float64)
    wanted = _marked(places.values, task.sequence_length) & places.numbers
    num_wanted, num_numbers = wanted.sum(1), places.numbers.sum(1)
    among = _above_others(second, wanted, places.numbers)
    orders = torch.tensor([[math.comb(n, w) for w in range(task.num_operands + 1)] for n in range(task.max_assignments + 1)])
    has_variable = num_wanted > 0
    if not bool(has_variable.any()):
        raise TooFewSamplesError("sums without a variable", expected="some with one", do="give sequences of other pools too")
    own = _own_variables(task, first, places)
    return AttentionRouting(
        attn1_equal_to_operands=kinds.share(_above_others(first[:, -1], of_operands), chance),
        attn2_equal_to_values=kinds.share(_above_others(second, _marked(places.values, task.sequence_length)), chance),
        attn2_equal_among_numbers=kinds.share(among, 1 / orders[num_numbers, num_wanted].double(), has_variable),
        number_to_own_variable=kinds.share(own.right, own.chance, own.counts, own.rows),
        number_to_own_weight=estimate_mean(
            own.weight, generator=generator, groups=groups[own.rows], unit="weight", chance=float(own.even.mean())
        ),
        number_to_other_weight=estimate_mean(
            own.other[own.counts],
            generator=generator,
            groups=groups[own.rows[own.counts]],
            unit="weight",
            chance=float(own.even[own.counts].mean()),
        ),
    )


def _patterns(model: Transformer, tokens: Int[Tensor, "B T"]) -> tuple[Float[Tensor, "B T T"], Float[Tensor, "B T"]]:
    """The whole pattern of layer 1, and the one of the last token in layer 2."""
    names = ("blocks.0.attn_pattern", "blocks.1.attn_pattern")
    parts: list[tuple[Tensor, Tensor]] = []
    with frozen(model), torch.no_grad(), read_sites(model, names) as seen:
        for part in tokens.to(model.token_embedding.device).split(CHUNK):
            answer_logits(model, part)
            parts.append((seen[names[0]][:, 0].unflatten(0, (len(part), -1)).cpu(), seen[names[1]][:, 0].cpu()))
    first, second = zip(*parts, strict=True)
    return torch.cat(first), torch.cat(second)


def _marked(positions: Int[Tensor, "B k"], length: int) -> Bool[Tensor, "B T"]:
    return torch.zeros(len(positions), length, dtype=torch.bool).scatter_(1, positions, True)


def _above_others(
    weights: Float[Tensor, "B T"], own: Bool[Tensor, "B T"], among: Bool[Tensor, "B T"] | None = None
) -> Float[Tensor, "B"]:
    """1 where every marked token weighs more than every other candidate."""
    others = ~own if among is None else among & ~own
    lowest = weights.where(own, math.inf).min(1).values
    return (lowest > weights.where(others, -1.0).max(1).values).double()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Own:
    """One entry an assigned number: its row, what it attends, and whether it ``counts``, seeing at least two variables."""

    rows: Int[Tensor, "n"]
    counts: Bool[Tensor, "n"]
    right: Float[Tensor, "n"]
    weight: Float[Tensor, "n"]
    other: Float[Tensor, "n"]
    chance: Float[Tensor, "n"]
    even: Float[Tensor, "n"]


def _own_variables(task: AssignAdd, first: Float[Tensor, "B T T"], places: Places) -> _Own:
    rows, positions = places.numbers.nonzero().unbind(1)
    visible = places.variables[rows] & (torch.arange(task.sequence_length) <= positions[:, None])
    num_visible = visible.sum(1)
    if not bool((num_visible >= 2).any()):
        raise TooFewSamplesError(
            "sequences in which no assigned number sees two variables",
            expected="at least two assignments in some",
            do="give sequences of other pools, or a task with more assignments",
        )
    weights = first[rows, positions].double()
    own = torch.zeros_like(visible).scatter_(1, (positions - task.own_variable_offset)[:, None], True)
    weight = weights[own]
    return _Own(
        rows=rows,
        counts=num_visible >= 2,
        right=_above_others(weights, own, visible),
        weight=weight,
        other=(weights.where(visible, 0.0).sum(1) - weight) / (num_visible - 1).clamp_min(1),
        chance=1 / num_visible.double(),
        even=1 / (positions + 1).double(),
    )


class _Kinds:
    """Shares over all rows and over each number of variables."""

    def __init__(self, labels: Tensor, groups: Tensor, num_operands: int, generator: torch.Generator) -> None:
        self.labels, self.groups, self.num_operands, self.generator = labels, groups, num_operands, generator

    def share(
        self, right: Tensor, chance: Tensor, counted: Tensor | None = None, rows: Int[Tensor, "n"] | None = None
    ) -> SplitShare:
        """Mean of ``right`` beside the mean of ``chance``; entry i belongs to row ``rows[i]`` (None: i)."""
        labels, groups = (self.labels, self.groups) if rows is None else (self.labels[rows], self.groups[rows])
        counted = torch.ones_like(right, dtype=torch.bool) if counted is None else counted
        kinds = [counted & (labels == kind) for kind in range(self.num_operands + 1)]

        def mean(mask: Tensor) -> Estimate | None:
            if len(groups[mask].unique()) < 2:
                return None
            return estimate_mean(
                right[mask],
                generator=self.generator,
                groups=groups[mask],
                unit="share",
                chance=float(chance[mask].mean()),
            )

        overall = mean(counted)
        if overall is None:
            raise TooFewSamplesError("sequences of a single sum", expected="sums that differ", do="give more sequences")
        return SplitShare(overall=overall, by_num_variables=tuple(mean(kind) for kind in kinds))
