"""Why ``=`` attends to a number in layer 2: its score split by what wrote the query and what wrote the key.

Without norms the residual stream that layer 2 reads is a sum of what was written into it: the token's embedding, the
position's, what the attention of layer 1 added, and what its MLP did (zero where there is none). A score is bilinear in query
and key, so it is a sum of 4 x 4 terms,

    score(=, t) = sum_ij  x_i(=) QK2 x_j(t)^T / sqrt(d),

and each says what one kind of query finds in one kind of key (arXiv:2605.31497, late phase). What matters of a score is how much
larger it is at the right number than at the wrong ones: :func:`score_decomposition` gives that contrast term by term.

Legend of shapes: B rows, T tokens, D width; sources in the order of :data:`SOURCES`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from invariscope.batch import Batch
from invariscope.circuits.checks import check_model
from invariscope.circuits.forward import merged
from invariscope.errors import TooFewSamplesError
from invariscope.estimate import Estimate
from invariscope.models import Transformer
from invariscope.models.heads import query_key, score_scale
from invariscope.numerics import estimate_mean
from invariscope.sites import frozen, read_sites
from invariscope.tasks import AssignAdd

__all__ = ["SOURCES", "ScoreContrast", "ScoreDecomposition", "score_decomposition", "score_terms"]

SOURCES = ("embed", "position", "attn1", "mlp1")
"""What layer 2 reads is the sum of these."""
CHUNK = 256
"""Sequences whose keys are held at once, four of them a token in float64."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoreContrast:
    """How much more ``=`` scores the right tokens than the wrong ones, in nats of attention.

    Args:
        terms: mean over sequences of (score at the right ones - mean score at the wrong ones), [4, 4]: a row per source of the
            query, a column per source of the key.
        errors: standard error of each term over sequences, [4, 4].
        total: the same of the whole score, which is the sum of the terms. Chance: 0, a head that cannot tell them apart.
    """

    terms: Float[Tensor, "4 4"]
    errors: Float[Tensor, "4 4"]
    total: Estimate


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoreDecomposition:
    """The score of ``=`` in layer 2 by source of query and key.

    Args:
        values: right are the numbers assigned to variables of the sum, wrong the other assigned numbers.
        constants: right are the numbers in the sum itself, wrong the assigned numbers that it does not add; None where no sum has
            a number.
        sources: names of rows and columns.
    """

    values: ScoreContrast
    constants: ScoreContrast | None
    sources: tuple[str, ...] = SOURCES


def score_terms(model: Transformer, task: AssignAdd, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B 4 4 T"]:
    """Every term of the score of ``=`` on each token in layer 2, scaled as the model scales it, in float64.

    Summed over both sources they are the scores whose softmax is ``blocks.1.attn_pattern`` at the last token.

    Raises:
        ConfigError: for a model that does not fit the task, or has several heads, norms or biases.
        ShapeError: for sequences of another length.
    """
    check_model(model, task, one_head=True, linear=True)
    task.places(tokens)
    tokens = tokens.to(model.token_embedding.device)
    sites = ["blocks.0.attn_out"] + ["blocks.0.mlp_out"] * bool(model.config.layer("mlp_width", 0))
    with frozen(model), torch.no_grad(), read_sites(model, sites) as seen:
        # Layer 2 adds nothing that is read here.
        model.blocks[0](model._embedded(tokens))
        embed = model.token_embedding[tokens]
        zero = torch.zeros_like(embed)
        position = zero + model.position_embedding[: tokens.shape[1]] if model.config.positions == "learned" else zero
        written = [seen[site].view_as(embed) for site in sites] + [zero] * (2 - len(sites))
        parts = torch.stack([embed, position, *written], dim=2).double()
        queries = parts[:, -1] @ (query_key(model, 1) / score_scale(model, 1))
        return torch.einsum("bid,btjd->bijt", queries, parts).cpu()


def score_decomposition(
    model: Transformer, task: AssignAdd, batches: Iterable[Batch], *, generator: torch.Generator
) -> ScoreDecomposition:
    """The contrast between right and wrong tokens, term by term.

    Args:
        model, task: of one head a layer, without norms.
        batches: sequences of the task; those that have nothing to tell apart are left out.
        generator: of the bootstrap of the totals, which draws sums.

    Raises:
        ConfigError: as :func:`score_terms`. ReiterableError: for a generator of batches.
        TooFewSamplesError: where no sum has a variable and an assigned number that it does not add.
    """
    batch = merged(batches)
    tokens, groups = batch.inputs["tokens"], batch.groups
    assert groups is not None
    places = task.places(tokens)
    values = torch.zeros(tokens.shape, dtype=torch.bool).scatter_(1, places.values, True)
    wrong = places.numbers & ~values
    terms = [score_terms(model, task, part) for part in tokens.split(CHUNK)]

    def contrast(right: Bool[Tensor, "B T"]) -> ScoreContrast | None:
        weights = _mean_over(right) - _mean_over(wrong)
        counted = right.any(1) & wrong.any(1)
        if len(groups[counted].unique()) < 2:
            return None
        parts = zip(terms, weights.split(CHUNK), strict=True)
        found = torch.cat([(part * w[:, None, None]).sum(3) for part, w in parts])[counted]
        total = estimate_mean(
            found.sum((1, 2)), generator=generator, groups=groups[counted], unit="nats of attention", chance=0.0
        )
        return ScoreContrast(terms=found.mean(0), errors=found.std(0) / len(found) ** 0.5, total=total)

    of_variables = contrast(values & places.numbers)
    if of_variables is None:
        raise TooFewSamplesError(
            "sequences in which no sum has both a variable and an assigned number that it does not add",
            expected="some that have",
            do="give sums with a variable and more assignments",
        )
    return ScoreDecomposition(values=of_variables, constants=contrast(values & ~places.numbers))


def _mean_over(marked: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    return marked.double() / marked.sum(1, keepdim=True).clamp_min(1)
