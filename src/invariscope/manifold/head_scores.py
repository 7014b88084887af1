"""Scores of heads behind the induction coordinates: sums over tokens and places from first and second moments alone.

What each is, :mod:`invariscope.manifold.induction` says. No table of tokens by tokens is formed: over a vocabulary of 50 000 the
scores of 36 000 pairs of heads are products of [D, d] matrices.

Legend of shapes: V tokens, D width, H heads of a layer, d their width, N heads of all layers, P places.

>>> x = torch.eye(3, dtype=torch.float64)
>>> law = TokenLaw.of(x, x)
>>> law.num, [round(value, 4) for value in law.covariance[0].tolist()]
(3, [0.2222, -0.1111, -0.1111])
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from invariscope.errors import ShapeError
from invariscope.models import LayerHeads, LinearParts
from invariscope.models.linear_parts import Rotary
from invariscope.numerics.matching import Matched, match_factors, match_table

__all__ = ["TokenLaw", "match_scores", "memory_score", "output_scores", "previous_token_scores"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenLaw:
    """First and second moments of embeddings x and of the columns u of the unembedding, over tokens.

    Args:
        num: tokens. mean, output_mean: of x and u. covariance, output_covariance: of each, over ``num``. cross: x with u.
    """

    num: int
    mean: Float[Tensor, "D"]
    output_mean: Float[Tensor, "D"]
    covariance: Float[Tensor, "D D"]
    output_covariance: Float[Tensor, "D D"]
    cross: Float[Tensor, "D D"]

    @classmethod
    def of(cls, x: Float[Tensor, "n D"], u: Float[Tensor, "n D"]) -> TokenLaw:
        """Of ``x`` and ``u``, a row a token."""
        mean, output_mean = x.mean(0), u.mean(0)
        x, u, num = x - mean, u - output_mean, len(x)
        return cls(
            num=num,
            mean=mean,
            output_mean=output_mean,
            covariance=x.T @ x / num,
            output_covariance=u.T @ u / num,
            cross=x.T @ u / num,
        )


def _joined(scores: list[Matched]) -> Matched:
    return Matched(
        value=torch.cat([one.value for one in scores]),
        null_mean=torch.cat([one.null_mean for one in scores]),
        null_std=torch.cat([one.null_std for one in scores]),
    )


def previous_token_scores(
    parts: LinearParts, law: TokenLaw, standing: Sequence[Tensor | None], places: Int[Tensor, "p"] | None
) -> Matched | None:
    """α of every head, [N]; None where nothing tells places apart.

    Args:
        parts, law: of the model.
        standing: what stands at each place, [P, D], layer by layer; None: the mean token, which only a rotary model turns.
        places: i over which it is a mean, in models without rotary embeddings; None: all but the first.

    Raises:
        ShapeError: for places that there are not.
    """
    if parts.rotary is not None:
        means = [law.mean if at is None else at.mean(0) for at in standing]
        return _joined([_of_offsets(parts.rotary, heads, mean) for heads, mean in zip(parts.layers, means, strict=True)])
    found = [
        _of_places(heads, at, places, causal=parts.causal)
        for heads, at in zip(parts.layers, standing, strict=True)
        if at is not None
    ]
    return _joined(found) if found else None


def _of_places(heads: LayerHeads, positions: Float[Tensor, "P D"], places: Int[Tensor, "p"] | None, *, causal: bool) -> Matched:
    """Mean over places i of the score of i - 1, and of a place that i may see, drawn for each i by itself."""
    last = len(positions) - 1
    chosen = torch.arange(1, last + 1) if places is None else places
    if (
        chosen.ndim != 1
        or chosen.is_floating_point()
        or not len(chosen)
        or not 1 <= int(chosen.min()) <= int(chosen.max()) <= last
    ):
        raise ShapeError(
            f"places of shape {list(chosen.shape)} and type {chosen.dtype}",
            expected=f"one or more from 1 to {last}, which have a place before them",
            do="give places of this model's context",
        )
    queries = positions[chosen] @ heads.query + heads.query_bias[:, None]
    keys = positions @ heads.key + heads.key_bias[:, None]
    scores = heads.scale * queries @ keys.transpose(1, 2)
    rows = torch.arange(len(chosen), device=scores.device)
    at = chosen.to(scores.device)
    allowed = torch.arange(last + 1, device=scores.device) <= (at[:, None] if causal else last)
    allowed = allowed.expand(len(chosen), last + 1)
    counts = allowed.sum(1)
    means = torch.where(allowed, scores, 0.0).sum(2) / counts
    variances = torch.where(allowed, (scores - means[..., None]).square(), 0.0).sum(2) / counts
    return Matched(
        value=scores[:, rows, at - 1].mean(1),
        null_mean=means.mean(1),
        null_std=variances.sum(1).sqrt() / len(chosen),
    )


def _of_offsets(rotary: Rotary, heads: LayerHeads, mean: Float[Tensor, "D"]) -> Matched:
    """Mean score over independent tokens, which is that of the mean query and the mean key, by offset."""
    query, key = mean @ heads.query + heads.query_bias, mean @ heads.key + heads.key_bias
    num = len(rotary.cos)
    keys = torch.stack([rotary.turn(key, num - 1 - offset) for offset in range(num)], 1)
    profile = heads.scale * (rotary.turn(query, num - 1)[:, None] * keys).sum(-1)
    others = torch.cat([profile[:, :1], profile[:, 2:]], 1)
    return Matched(value=profile[:, 1], null_mean=others.mean(1), null_std=others.std(1))


def match_scores(parts: LinearParts, law: TokenLaw) -> Matched:
    """β of every pair of heads, [N, N], lower one first; NaN where it is not the lower one.

    Every lower head with the heads of one layer at a time, as products of tall matrices.
    """
    widest = max(heads.query.shape[2] for heads in parts.layers)

    def padded(matrix: Tensor) -> Tensor:
        # Heads of another width score and move the same with columns of nought beside theirs.
        return F.pad(matrix, (0, 0, 0, widest - matrix.shape[1]))

    # What heads share is multiplied once.
    values = torch.cat([padded(heads.value[:: heads.shared].transpose(1, 2)) for heads in parts.layers])
    owners = [torch.arange(heads.num_heads // heads.shared).repeat_interleave(heads.shared) for heads in parts.layers]
    sizes = [0, *itertools.accumulate(heads.num_heads // heads.shared for heads in parts.layers)]
    owner = torch.cat([one + size for one, size in zip(owners, sizes, strict=False)]).to(values.device)
    outputs = torch.cat([padded(heads.output) for heads in parts.layers])
    moved = (values @ law.covariance @ values.transpose(1, 2))[owner]
    written = torch.cat([((law.mean @ one.value + one.value_bias)[:, None] @ one.output)[:, 0] for one in parts.layers])
    num, start, D = len(parts.heads), 0, len(law.mean)
    value, null_mean, null_std = (law.mean.new_full((num, num), torch.nan) for _ in range(3))
    for heads, below_size in zip(parts.layers, sizes, strict=False):
        H, width, end = heads.num_heads, heads.query.shape[2], start + heads.num_heads
        matched = law.covariance @ heads.query
        queries = heads.query.transpose(1, 2) @ matched
        # [lower heads, their width, heads here, width here]: V C W_Q, and O W_K.
        below = values[:below_size].reshape(-1, D) @ matched.transpose(0, 1).reshape(D, -1)
        below = below.view(below_size, widest, H, width)[owner[:start]]
        read = outputs[:start].reshape(-1, D) @ heads.key[:: heads.shared].transpose(0, 1).reshape(D, -1)
        left = (moved[:start] @ read.view(start, widest, -1)) if start else read
        read, left = (
            one.reshape(start, widest, H // heads.shared, width).repeat_interleave(heads.shared, 2) for one in (read, left)
        )
        right = (read.reshape(-1, H, width).transpose(0, 1) @ queries).transpose(0, 1).view_as(read)
        excess, energy = (below * read).sum((1, 3)), (left * right).sum((1, 3))
        query_mean = law.mean @ heads.query + heads.query_bias
        key_mean = (written[:start] @ heads.key).transpose(0, 1) + heads.key_bias
        found = match_factors(
            heads.scale * excess, heads.scale * (query_mean * key_mean).sum(-1), heads.scale**2 * energy, law.num
        )
        at = slice(start), slice(start, end)
        value[at], null_mean[at], null_std[at] = found.value, found.null_mean, found.null_std
        start = end
    return Matched(value=value, null_mean=null_mean, null_std=null_std)


def output_scores(parts: LinearParts, law: TokenLaw) -> Matched:
    """γ of every head, [N]."""
    return _joined([_outputs_of(heads, law) for heads in parts.layers])


def _outputs_of(heads: LayerHeads, law: TokenLaw) -> Matched:
    values, outputs = heads.value.transpose(1, 2), heads.output
    written = (law.mean @ heads.value + heads.value_bias)[:, None] @ outputs
    moved, said = values @ law.covariance @ heads.value, outputs @ law.output_covariance @ outputs.transpose(1, 2)
    return match_factors(
        ((values @ law.cross) * outputs).sum((1, 2)),
        (written[:, 0] * law.output_mean).sum(1),
        (moved * said).sum((1, 2)),
        law.num,
    )


def memory_score(parts: LinearParts, relation: Int[Tensor, "m 2"]) -> Matched:
    """δ of the direct path along the pairs of a relation."""
    return match_table(parts.tokens[relation[:, 0]] @ parts.unembedding[:, relation[:, 1]])
