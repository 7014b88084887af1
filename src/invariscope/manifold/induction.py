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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from invariscope.batch import Batch
from invariscope.errors import ConfigError, ShapeError
from invariscope.estimate import html_table
from invariscope.manifold.head_scores import TokenLaw, match_scores, memory_score, output_scores, previous_token_scores
from invariscope.models import LanguageModel, LinearParts, linear_parts, mean_reads
from invariscope.numerics.matching import Matched

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
    model: nn.Module | LanguageModel,
    relation: Int[Tensor, "m 2"] | None = None,
    *,
    tokens: Int[Tensor, "n"] | None = None,
    batches: Iterable[Batch] | None = None,
    places: Int[Tensor, "p"] | None = None,
    num_offsets: int = NUM_OFFSETS,
) -> InductionCoordinates:
    """α, β, γ and δ of a model, from its weights alone but for what ``batches`` add.

    Args:
        model: a :class:`Transformer` without post-norms, or a language model, itself or as loaded, whose heads are linear maps.
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
    module = model.model if isinstance(model, LanguageModel) else model
    with torch.no_grad():
        parts = linear_parts(module, num_positions=num_offsets)
        reads = None if batches is None else mean_reads(module, parts, batches)
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
    law = TokenLaw.of(x, u)
    return InductionCoordinates(
        heads=parts.heads,
        alpha=previous_token_scores(parts, law, [parts.positions] * len(parts.layers), places),
        alpha_read=None if reads is None else previous_token_scores(parts, law, reads, places),
        beta=match_scores(parts, law),
        gamma=output_scores(parts, law),
        delta=None if relation is None else memory_score(parts, relation.to(parts.tokens.device)),
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
