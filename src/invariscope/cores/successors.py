"""Where a model itself expects its core coordinates to be one token later.

A sampled successor z_{t+1} is mostly the draw of the next token, so an operator fitted on samples has an error ~ N^-1/2. The
model's own law q of the next token knows the expectation: at a random token t of each sequence the next one is replaced by each
of the V tokens in turn, and

    E[z_{t+1} | x_1..t] = Σ_v q(v | x_1..t) z_{t+1}(x_1..t, v)

For a model whose core codes the state of a chain linearly this is A z_t without sampling error. The cost is V forward passes
instead of one. It says what the model believes, not what the task does: where q is wrong, so is the spectrum.

>>> law = torch.tensor([[0.9, 0.1], [0.5, 0.5]], dtype=torch.float64)
>>> ((law - law.mean(0)) @ leading_directions(law, 1)).abs().round(decimals=4).flatten().tolist()
[0.2828, 0.2828]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from invariscope.batch import Batch, check_batches
from invariscope.cores.core import Core
from invariscope.cores.measure import check_any, measure_law
from invariscope.errors import ConfigError, RankError, ShapeError
from invariscope.numerics.linalg import no_autocast
from invariscope.positions import Rows, parse_positions
from invariscope.sites import edit_site, frozen, output_logits, read_sites
from invariscope.tasks.task import CandidateMap

__all__ = ["Successors", "follows_tokens", "leading_directions", "predicted_successors"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Successors:
    """Coordinates at one random token of each sequence, and where the model expects them to be at the next.

    Args:
        z_from, z_to: [n, k] float64. groups: the group of each sequence, [n].
    """

    z_from: Float[Tensor, "n k"]
    z_to: Float[Tensor, "n k"]
    groups: Int[Tensor, "n"]


def predicted_successors(
    core: Core,
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    coordinates: Literal["core", "law"] = "core",
    generator: torch.Generator,
) -> Successors:
    """E[z_{t+1}] under the model's own law of the next token, at one random t of each sequence.

    Args:
        core: read at ``positions="all"``, of a model that predicts the next token from the tokens before it.
        batches: sequences without padding; their first input holds the token ids.
        coordinates: ``core``, or ``law``: the principal components of the law that is read from the core alone.
        generator: of the tokens t.

    Raises:
        ConfigError: for a core read elsewhere than at all tokens. ShapeError: for inputs that are no token ids, padded or single
            tokens, or logits that are not one row a token and one column a token id.
        RankError: where the law has no more outputs than the core has dimensions.
    """
    if core.provenance.positions != "all":
        raise ConfigError(
            f"predicted successors of a core read at {core.provenance.positions!r}",
            expected="positions='all'",
            do="extract the core at all positions, or use successors='sampled'",
        )
    directions, centre = None, torch.zeros((), dtype=torch.float64)
    if coordinates == "law":
        law, _ = measure_law(core, model, batches)
        directions, centre = leading_directions(law, core.rank), law.mean(0)

    def finish(found: Tensor) -> Tensor:
        return found if directions is None else (found - centre) @ directions

    starts, ends, groups, first_group = [], [], [], 0
    with torch.no_grad(), frozen(model):
        for batch in check_batches(batches):
            name, tokens = _tokens(batch)
            b = torch.arange(len(tokens))
            t = torch.randint(tokens.shape[1] - 1, (len(tokens),), generator=generator, device=generator.device).cpu()
            logits, found = _forward(core, model, batch, coordinates)
            if logits.ndim != 3:
                raise ShapeError(
                    f"logits of shape {list(logits.shape)}", expected="[B, T, V]", do="use a model that predicts every token"
                )
            law = logits[b, t].double().softmax(-1).cpu()
            starts.append(finish(found[b, t]))
            mean = torch.zeros_like(starts[-1])
            for v, replaced in _replacements(tokens, t + 1, law.shape[1]):
                changed = Batch(inputs={**batch.inputs, name: replaced})
                mean += law[:, v, None] * finish(_forward(core, model, changed, coordinates)[1][b, t + 1])
            ends.append(mean)
            groups.append(b + first_group if batch.groups is None else batch.groups.cpu())
            first_group += len(tokens)
    check_any(starts)
    return Successors(z_from=torch.cat(starts), z_to=torch.cat(ends), groups=torch.cat(groups))


def follows_tokens(candidate: CandidateMap) -> bool:
    """Whether a candidate map goes from each token to the next one of its sequence, tried on a few rows."""
    b, t = torch.arange(3).repeat_interleave(4), torch.arange(4).repeat(3)
    i, j = candidate.pairs(Rows(b=b, t=t, groups=b))
    return len(i) > 0 and torch.equal(b[i], b[j]) and torch.equal(t[i] + 1, t[j])


def leading_directions(law: Float[Tensor, "n V"], rank: int) -> Float[Tensor, "V k"]:
    """The leading principal directions of a law, by its covariance.

    Raises:
        RankError: where there are not so many.
    """
    if rank >= law.shape[1]:
        raise RankError(
            f"the law of {law.shape[1]} outputs in {rank} components",
            expected=f"at most {law.shape[1] - 1}",
            do="use a core of smaller rank, or coordinates='core'",
        )
    centred = law - law.mean(0)
    with no_autocast(centred):
        # V is small, and the leading components are far from rounding: the Gram matrix is enough.
        _, directions = torch.linalg.eigh(centred.T @ centred)
    return directions.flip(1)[:, :rank]


def _forward(core: Core, model: nn.Module, batch: Batch, coordinates: str) -> tuple[Tensor, Float[Tensor, "B T m"]]:
    """The model's own logits, and the core's coordinates (or its law) at every token, on the CPU."""
    site, positions = core.provenance.site, parse_positions(core.provenance.positions)
    shape = batch.num_rows, batch.length
    with read_sites(model, [site], positions=positions) as seen:
        logits = output_logits(model(**batch.inputs))
    if coordinates == "core":
        return logits, core.coordinates(seen[site].double()).cpu().view(*shape, -1)
    with edit_site(model, site, core.keep, positions=positions):
        return logits, output_logits(model(**batch.inputs)).double().softmax(-1).cpu()


def _replacements(tokens: Int[Tensor, "B T"], at: Int[Tensor, "B"], num: int) -> Iterator[tuple[int, Int[Tensor, "B T"]]]:
    for v in range(num):
        replaced = tokens.clone()
        replaced[torch.arange(len(tokens)), at] = v
        yield v, replaced


def _tokens(batch: Batch) -> tuple[str, Int[Tensor, "B T"]]:
    name, tokens = next(iter(batch.inputs.items()))
    padded = batch.valid is not None and not bool(batch.valid.all())
    if tokens.ndim != 2 or tokens.is_floating_point() or tokens.shape[1] < 2 or padded:
        raise ShapeError(
            f"inputs {name!r} of shape {list(tokens.shape)} and type {tokens.dtype}{', padded' if padded else ''}",
            expected="token ids [B, T], at least two a sequence, without padding",
            do="use successors='sampled'",
        )
    return name, tokens
