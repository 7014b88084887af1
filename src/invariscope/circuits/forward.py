"""The answers of a model, with its last block at the last token only; hooks fire on every site.

``model(tokens)`` computes every token of the last block and ``model.last_logits`` refuses hooks. Measures of Assign and Add
read and edit the last token alone, so here the last block shows it alone, and ``positions="last"`` of reads and edits means it
everywhere.

Legend of shapes: B rows, T tokens, V outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from invariscope.batch import Batch, check_batches
from invariscope.errors import ShapeError, TooFewSamplesError
from invariscope.models import Transformer
from invariscope.sites import frozen, read_sites

__all__ = ["answer_logits", "answers", "merged", "read_last"]

CHUNK = 2048
"""Sequences that are run together."""


def answer_logits(model: Transformer, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B V"]:
    """Logits at the last token, equal to ``model(tokens)[:, -1]`` up to rounding."""
    x = model._embedded(tokens)
    for block in model.blocks[:-1]:
        x = block(x)
    return model.logits(model.unembedding(model.final_norm(model.blocks[-1](x, 1))))[:, -1]


def answers(model: Transformer, tokens: Int[Tensor, "B T"]) -> Int[Tensor, "B"]:
    """The most likely answer of each sequence."""
    with frozen(model), torch.no_grad():
        return answer_logits(model, tokens.to(model.token_embedding.device)).argmax(1).cpu()


def read_last(model: Transformer, tokens: Int[Tensor, "B T"], sites: Sequence[str]) -> dict[str, Tensor]:
    """What ``sites`` hold at the last token, [B, ...] each, in chunks of rows, on the CPU."""
    parts: dict[str, list[Tensor]] = {site: [] for site in sites}
    with frozen(model), torch.no_grad(), read_sites(model, sites, positions="last") as seen:
        for part in tokens.to(model.token_embedding.device).split(CHUNK):
            answer_logits(model, part)
            for site in sites:
                parts[site].append(seen[site].cpu())
    return {site: torch.cat(rows) for site, rows in parts.items()}


def merged(batches: Iterable[Batch]) -> Batch:
    """All rows of ``batches`` as one batch, on the CPU.

    Raises:
        ReiterableError: for what can be read only once, or a single batch. TooFewSamplesError: where there is none.
        ShapeError: for batches without tokens, targets, labels and groups.
    """
    found = list(check_batches(batches))
    if not found:
        raise TooFewSamplesError("no batch", expected="at least one", do="give task.batches(...), or a list of batches")
    columns: dict[str, list[Tensor]] = {name: [] for name in ("tokens", "targets", "labels", "groups")}
    for batch in found:
        values = {"targets": batch.targets, "labels": batch.labels, "groups": batch.groups, "tokens": batch.inputs.get("tokens")}
        missing = [name for name, value in values.items() if value is None]
        if missing:
            raise ShapeError(f"a batch without {', '.join(missing)}", expected="batches of AssignAdd", do="draw them from it")
        for name, value in values.items():
            assert value is not None
            columns[name].append(value.cpu())
    tokens, targets, labels, groups = (torch.cat(column) for column in columns.values())
    return Batch(inputs={"tokens": tokens}, targets=targets, labels=labels, groups=groups)
