"""What can be read linearly, before and after each layer: the variable of a number, the numbers of a sum, the sum.

Three probes along the circuit of arXiv:2605.31497. A number's token does not say which variable it is assigned to; after layer
1 it must. ``=`` does not say which numbers are to be added; after layer 2 it must (which is the first of them is not kept,
since the order does not matter: the *set* is probed). The residual stream does not say the sum; after MLP2 it must. Each probe
is ridge regression, scored on sums that it was not fitted on, beside chance and shuffled answers
(:func:`invariscope.numerics.ridge_probe`). Where a sum names a number, layer 1 copies it to ``=`` at once, so the last two
probes read sums of variables only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from invariscope.batch import Batch
from invariscope.circuits.checks import check_model
from invariscope.circuits.forward import CHUNK, merged, read_last
from invariscope.errors import TooFewSamplesError
from invariscope.models import Transformer
from invariscope.numerics import Probe, ridge_probe
from invariscope.sites import frozen, read_sites
from invariscope.tasks import AssignAdd

__all__ = ["BindingProbes", "binding_probes"]

HELDOUT_SHARE, RIDGE = 0.2, 0.1
"""A sum that is scored stands in no fitted row, so the fit needs most of the sums, and a penalty on what tells them apart."""
LEAST_SUMS = 50


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BindingProbes:
    """Probes before and after the step that should make each thing readable.

    Args:
        own_variable_before, own_variable_after: which variable an assigned number belongs to, at the number: in its embedding,
            and after layer 1.
        operands_before, operands_after: the set of numbers that variables stand for, at ``=``: before layer 2, and after its
            attention.
        sum_before, sum_after: the answer at ``=``: before MLP2, and after it.
    """

    own_variable_before: Probe
    own_variable_after: Probe
    operands_before: Probe
    operands_after: Probe
    sum_before: Probe
    sum_after: Probe


def binding_probes(
    model: Transformer, task: AssignAdd, batches: Iterable[Batch], *, generator: torch.Generator, num_permutations: int = 5
) -> BindingProbes:
    """Fit and score all six probes; sums stand on one side of each split.

    Args:
        model, task: with an MLP in the second layer.
        batches: sequences of the task, some thousands with as many variables as operands, such as of the pool ``2var-seen``.
        generator: of splits, intervals and shuffles.
        num_permutations: shuffles behind each null.

    Raises:
        ConfigError: for a model that does not fit the task. ReiterableError: for a generator of batches.
        TooFewSamplesError: where too few different sums are of variables only.
    """
    check_model(model, task, mlp=True)
    batch = merged(batches)
    assert batch.targets is not None
    assert batch.labels is not None
    assert batch.groups is not None
    whole = batch.labels == task.num_operands
    if (num := len(batch.groups[whole].unique())) < LEAST_SUMS:
        raise TooFewSamplesError(
            f"sequences with {num} different sums of {task.num_operands} variables",
            expected=f"at least {LEAST_SUMS}, and better hundreds",
            do=f"draw them from the pool '{task.num_operands}var-seen'",
        )
    tokens, targets, groups = batch.inputs["tokens"][whole], batch.targets[whole, 0], batch.groups[whole]
    places = task.places(tokens)
    rows, positions = places.numbers.nonzero().unbind(1)
    variables = tokens[rows, positions - task.own_variable_offset] - task.first_variable
    before, after = _at_numbers(model, tokens, rows, positions)
    read = read_last(model, tokens, ("blocks.1.resid_pre", "blocks.1.resid_mid", "blocks.1.resid_post"))
    added = F.one_hot(places.answers, task.modulus).sum(1)

    def probe(x: Float[Tensor, "n D"], y: Tensor, of: Int[Tensor, "n"], num_classes: int | None = None) -> Probe:
        return ridge_probe(
            x,
            y,
            generator=generator,
            groups=of,
            num_classes=num_classes,
            heldout_share=HELDOUT_SHARE,
            ridge=RIDGE,
            num_permutations=num_permutations,
        )

    return BindingProbes(
        own_variable_before=probe(before, variables, groups[rows], task.num_variables),
        own_variable_after=probe(after, variables, groups[rows], task.num_variables),
        operands_before=probe(read["blocks.1.resid_pre"], added, groups),
        operands_after=probe(read["blocks.1.resid_mid"], added, groups),
        sum_before=probe(read["blocks.1.resid_mid"], targets, groups, task.modulus),
        sum_after=probe(read["blocks.1.resid_post"], targets, groups, task.modulus),
    )


def _at_numbers(
    model: Transformer, tokens: Int[Tensor, "B T"], rows: Int[Tensor, "n"], positions: Int[Tensor, "n"]
) -> tuple[Float[Tensor, "n D"], Float[Tensor, "n D"]]:
    """What assigned numbers hold before and after layer 1."""
    parts: list[tuple[Tensor, Tensor]] = []
    sites, length = ("embed", "blocks.0.resid_post"), tokens.shape[1]
    with frozen(model), torch.no_grad(), read_sites(model, sites) as seen:
        for start in range(0, len(tokens), CHUNK):
            part = tokens[start : start + CHUNK].to(model.token_embedding.device)
            model.blocks[0](model._embedded(part))
            inside = (rows >= start) & (rows < start + CHUNK)
            index = ((rows - start) * length + positions)[inside]
            parts.append((seen[sites[0]].cpu()[index], seen[sites[1]].cpu()[index]))
    before, after = zip(*parts, strict=True)
    return torch.cat(before), torch.cat(after)
