"""Coordinates of inductive reasoning in an ordinary transformer, head by head, each beside what shuffling gives.

In the manifold of a disentangled model (arXiv:2607.11875) the induction circuit is three coordinates, and memory a fourth. In a
model whose matrices mix everything each is a mean of a bilinear form over tokens t or places i:

    α of a head            score of p_i for p_{i-1}                it attends to the previous token
    β of a pair of heads   score of t, in the upper head, for t as the lower head moved it     it matches tokens that came after
    γ of a head            logit of t from t, moved by the head    it puts out what it attends to
    δ                      logit of C(t) from t, on the direct path                            the relation C is remembered

Scores are those before the softmax, in nats, with the gains of norms folded in. Each has a null of its own: a place scores any
that it may see (α), tokens are shuffled (β, γ), and so are partners (δ). The null's mean and deviation are exact
(:mod:`invariscope.numerics.matching`). In a rotary model there are no p: there α is the mean score over pairs of tokens at
offset 1, and its null the same at other offsets.

What these numbers leave out: MLPs, layers between two heads, and what a norm divides by. In a deep model a layer reads much
else than embeddings; with ``batches`` there is an α of the mean of what each layer does read as well.

>>> from invariscope.models import Transformer, TransformerConfig
>>> config = TransformerConfig(vocab_size=6, context_length=5, num_layers=2, width=8, num_heads=2, mlp_width=0)
>>> found = induction_coordinates(Transformer(config, generator=torch.Generator().manual_seed(0)))
>>> found.alpha.value.shape, found.beta.value.shape, bool(found.beta.value[2, 0].isnan()), found.delta
(torch.Size([4]), torch.Size([4, 4]), True, None)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from invariscope.batch import Batch
from invariscope.errors import ConfigError, ShapeError
from invariscope.estimate import html_table
from invariscope.models import LayerHeads, LinearParts, linear_parts, mean_reads
from invariscope.models.linear_parts import Rotary
from invariscope.numerics.matching import Matched, match_factors, match_table

__all__ = ["InductionCircuit", "InductionCoordinates", "induction_coordinates"]

NUM_OFFSETS = 32
"""Offsets of a rotary model, from 0."""
LEAST_OFFSETS = 4
"""With fewer, what the score is at other offsets has no spread to speak of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InductionCircuit:
    """Two heads that together copy what followed an earlier token.

    Args:
        previous, matching: (layer, head) of the lower and the upper head, from 0.
        alpha, beta, gamma: of them, above the means of their nulls. z: each in standard deviations of its null.
    """

    previous: tuple[int, int]
    matching: tuple[int, int]
    alpha: float
    beta: float
    gamma: float
    z: tuple[float, float, float]

    def __str__(self) -> str:
        lower, upper = (f"{layer}.{head}" for layer, head in (self.previous, self.matching))
        values = ", ".join(
            f"{letter} {value:.2f} ({z:+.1f} sd)"
            for letter, value, z in zip("αβγ", (self.alpha, self.beta, self.gamma), self.z, strict=True)
        )
        return f"heads {lower} and {upper}: {values}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InductionCoordinates:
    """The coordinates of a model; N heads in all.

    Args:
        heads: (layer, head) of each, from the lowest layer.
        alpha: [N]; None where no embedding tells places apart. alpha_read: [N], of the mean of what layers read; None without
            batches. beta: [N, N], lower head first; NaN where it is not the lower one.
        gamma: [N]. delta: a number; None without a relation.
        num_tokens: over which means are taken.
    """

    heads: tuple[tuple[int, int], ...]
    alpha: Matched | None
    alpha_read: Matched | None
    beta: Matched
    gamma: Matched
    delta: Matched | None
    num_tokens: int

    @property
    def previous(self) -> Matched | None:
        """α of what layers read, where that is known, and else of embeddings."""
        return self.alpha if self.alpha_read is None else self.alpha_read

    def matches(self) -> Float[Tensor, "N N"]:
        """α β of each pair, lower head first: how much the upper head attends to what came after its own token; 0 where α or β
        is below the mean of its null.

        Raises:
            ConfigError: where there is no α.
        """
        if self.previous is None:
            raise ConfigError(
                "a model without embeddings of positions", expected="something that tells places apart", do="give batches"
            )
        return self.previous.excess.relu()[:, None] * self.beta.excess.nan_to_num(0.0).relu()

    def circuit(self, least_z: float = 2.0) -> InductionCircuit | None:
        """The pair of heads whose α β γ is the largest.

        Args:
            least_z: standard deviations of its null that each of the three is above it at least. Among few places or offsets α
                cannot be many.

        Returns:
            None where no pair has them.
        """
        previous = self.previous
        if previous is None:
            return None
        good = (previous.z > least_z)[:, None] & (self.beta.z.nan_to_num(0.0) > least_z) & (self.gamma.z > least_z)
        strength = torch.where(good, self.matches() * self.gamma.excess, 0.0)
        if not strength.numel() or float(strength.max()) <= 0:
            return None
        i, j = divmod(int(strength.argmax()), len(self.heads))
        parts = (previous, i), (self.beta, (i, j)), (self.gamma, j)
        alpha, beta, gamma = (float(scores.excess[at]) for scores, at in parts)
        return InductionCircuit(
            previous=self.heads[i],
            matching=self.heads[j],
            alpha=alpha,
            beta=beta,
            gamma=gamma,
            z=tuple(float(scores.z[at]) for scores, at in parts),  # type: ignore[arg-type]  # three of them
        )

    def rows(self) -> list[tuple[str, ...]]:
        """Head by head: its α, the strongest β above it and below it, its γ; each with standard deviations of its null."""

        def cell(scores: Matched, at: int | tuple[int, int]) -> str:
            return f"{float(scores.value[at]):.3g} ({float(scores.z[at]):+.1f})"

        def strongest(z: Tensor) -> int | None:
            found = z.nan_to_num(-torch.inf)
            return None if float(found.max()) == -torch.inf else int(found.argmax())

        rows = []
        for index, (layer, head) in enumerate(self.heads):
            below = strongest(self.beta.z[:, index])
            matched = "" if below is None else f"{cell(self.beta, (below, index))} with {'{}.{}'.format(*self.heads[below])}"
            alpha = "" if self.previous is None else cell(self.previous, index)
            rows.append((f"{layer}.{head}", alpha, matched, cell(self.gamma, index)))
        return rows

    def _repr_html_(self) -> str:
        headings = ("head", "α previous token", "β match, strongest", "γ output")
        delta = "" if self.delta is None else f"; δ memory {float(self.delta.value):.3g} ({float(self.delta.z):+.1f})"
        caption = f"Induction coordinates over {self.num_tokens} tokens (standard deviations of the null){delta}"
        return html_table(caption, self.rows(), headings=headings)


def induction_coordinates(
    model: nn.Module,
    relation: Int[Tensor, "m 2"] | None = None,
    *,
    tokens: Int[Tensor, "n"] | None = None,
    batches: Iterable[Batch] | None = None,
    places: Int[Tensor, "p"] | None = None,
    num_offsets: int = NUM_OFFSETS,
) -> InductionCoordinates:
    """α, β, γ and δ of a model, from its weights alone but for what ``batches`` add.

    Args:
        model: a :class:`Transformer` without post-norms, or a language model of a family whose heads are linear maps.
        relation: (token, partner) pairs, such as ``task.relation``; without it there is no δ.
        tokens: over which means are taken; None: all.
        batches: sequences of one length, for an α of the mean of what each layer reads besides that of embeddings.
        places: i over which α is a mean, such as those that have a reason to look back; None: all but the first. Rotary models
            have offsets instead.
        num_offsets: of a rotary model, from 0; offset 1 is compared with the others.

    Raises:
        ConfigError: for a model that is none of these, or whose outputs are not its tokens; for places of a rotary model, and
            fewer than four offsets.
        ShapeError: for tokens, pairs or places that the model does not have. TooFewSamplesError: for fewer than two of them.
    """
    if num_offsets < LEAST_OFFSETS:
        raise ConfigError(f"num_offsets = {num_offsets}", expected=f"{LEAST_OFFSETS} or more", do="raise num_offsets")
    with torch.no_grad():
        parts = linear_parts(model, num_positions=num_offsets)
        reads = None if batches is None else mean_reads(model, parts, batches)
        return coordinates_of(parts, relation, tokens=tokens, reads=reads, places=places)


def coordinates_of(
    parts: LinearParts,
    relation: Int[Tensor, "m 2"] | None,
    *,
    tokens: Int[Tensor, "n"] | None = None,
    reads: Sequence[Float[Tensor, "P D"]] | None = None,
    places: Int[Tensor, "p"] | None = None,
) -> InductionCoordinates:
    """:func:`induction_coordinates` of a model in parts, with its errors; gradients pass.

    Args:
        parts: of the model. relation, tokens, places: as there. reads: mean of what each layer reads, for another α.
    """
    vocabulary, outputs = parts.tokens.shape[0], parts.unembedding.shape[1]
    if outputs < vocabulary:
        raise ConfigError(
            f"a model of {vocabulary} tokens and {outputs} outputs", expected="tokens as outputs", do="train it on such a task"
        )
    chosen = torch.arange(vocabulary) if tokens is None else tokens
    _check_ids("tokens", chosen, "[n]", vocabulary)
    if relation is not None:
        _check_ids("relation", relation, "[m, 2]", vocabulary)
    if places is not None and parts.rotary is not None:
        raise ConfigError(
            "places of a rotary model", expected="none: it tells offsets apart and not places", do="leave places out"
        )
    chosen = chosen.to(parts.tokens.device)
    x, u = parts.tokens[chosen], parts.unembedding[:, chosen].T
    law = _TokenLaw.of(x, u)
    return InductionCoordinates(
        heads=parts.heads,
        alpha=_alpha(parts, law, [parts.positions] * len(parts.layers), places),
        alpha_read=None if reads is None else _alpha(parts, law, reads, places),
        beta=_beta(parts, law),
        gamma=_joined([_gamma(heads, law) for heads in parts.layers]),
        delta=None if relation is None else _delta(parts, relation.to(parts.tokens.device)),
        num_tokens=len(chosen),
    )


def _check_ids(name: str, ids: Tensor, shape: str, vocabulary: int) -> None:
    whole = ids.ndim == shape.count(",") + 1 and not ids.is_floating_point() and ids.numel() > 0
    if not whole or not 0 <= int(ids.min()) <= int(ids.max()) < vocabulary:
        raise ShapeError(
            f"{name} of shape {list(ids.shape)} and type {ids.dtype}",
            expected=f"token ids {shape} below {vocabulary}",
            do="give ids of the model's own vocabulary",
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _TokenLaw:
    """First and second moments of embeddings x and of the columns u of the unembedding, over tokens."""

    num: int
    mean: Float[Tensor, "D"]
    output_mean: Float[Tensor, "D"]
    covariance: Float[Tensor, "D D"]
    output_covariance: Float[Tensor, "D D"]
    cross: Float[Tensor, "D D"]

    @classmethod
    def of(cls, x: Float[Tensor, "n D"], u: Float[Tensor, "n D"]) -> _TokenLaw:
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


def _alpha(
    parts: LinearParts, law: _TokenLaw, standing: Sequence[Tensor | None], places: Int[Tensor, "p"] | None
) -> Matched | None:
    """Of what stands at each place, layer by layer; None: of the mean token, which only a rotary model tells apart by place."""
    if parts.rotary is not None:
        means = [law.mean if at is None else at.mean(0) for at in standing]
        return _joined([_alpha_of_offsets(parts.rotary, heads, mean) for heads, mean in zip(parts.layers, means, strict=True)])
    found = [
        _alpha_of_positions(heads, at, places, causal=parts.causal)
        for heads, at in zip(parts.layers, standing, strict=True)
        if at is not None
    ]
    return _joined(found) if found else None


def _alpha_of_positions(
    heads: LayerHeads, positions: Float[Tensor, "P D"], places: Int[Tensor, "p"] | None, *, causal: bool
) -> Matched:
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


def _alpha_of_offsets(rotary: Rotary, heads: LayerHeads, mean: Float[Tensor, "D"]) -> Matched:
    """Mean score over independent tokens, which is that of the mean query and the mean key, by offset."""
    query, key = mean @ heads.query + heads.query_bias, mean @ heads.key + heads.key_bias
    num = len(rotary.cos)
    keys = torch.stack([rotary.turn(key, num - 1 - offset) for offset in range(num)], 1)
    profile = heads.scale * (rotary.turn(query, num - 1)[:, None] * keys).sum(-1)
    others = torch.cat([profile[:, :1], profile[:, 2:]], 1)
    return Matched(value=profile[:, 1], null_mean=others.mean(1), null_std=others.std(1))


def _beta(parts: LinearParts, law: _TokenLaw) -> Matched:
    """Every lower head with the heads of one layer at a time, as products of tall matrices."""
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


def _gamma(heads: LayerHeads, law: _TokenLaw) -> Matched:
    values, outputs = heads.value.transpose(1, 2), heads.output
    written = (law.mean @ heads.value + heads.value_bias)[:, None] @ outputs
    moved, said = values @ law.covariance @ heads.value, outputs @ law.output_covariance @ outputs.transpose(1, 2)
    return match_factors(
        ((values @ law.cross) * outputs).sum((1, 2)),
        (written[:, 0] * law.output_mean).sum(1),
        (moved * said).sum((1, 2)),
        law.num,
    )


def _delta(parts: LinearParts, relation: Int[Tensor, "m 2"]) -> Matched:
    return match_table(parts.tokens[relation[:, 0]] @ parts.unembedding[:, relation[:, 1]])
