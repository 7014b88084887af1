"""Small block-list tasks whose whole law is listed, one of each kind, and that law as a dictionary."""

from __future__ import annotations

from collections import defaultdict

import torch

from invariscope.tasks.blocks import AssociativeRecall, ConditionalRetrieval, IndirectObject, KHop, Ngram, PermutationInversion

SMALL = {
    "recall": AssociativeRecall(num_blocks=2, num_rare=4),
    "recall offsets": AssociativeRecall(num_blocks=2, num_rare=4, placement="offsets", num_positions=3),
    "recall ring": AssociativeRecall(num_blocks=2, num_rare=4, placement="ring", num_positions=6),
    "recall fixed": AssociativeRecall(num_blocks=2, num_rare=4, placement="fixed"),
    "recall common": AssociativeRecall(num_blocks=2, num_rare=4, num_common=2, rare_share=0.3, fresh_share=0.4),
    "recall symmetric": AssociativeRecall(num_blocks=2, num_rare=0, num_common=3, rare_share=0.0, symmetric=True),
    "recall mixed": AssociativeRecall(
        num_blocks=2, num_rare=4, num_common=2, rare_share=0.3, fresh_share=0.5, contexts="mixed", placement="ring"
    ),
    "recall bursty": AssociativeRecall(num_blocks=3, num_rare=4, burstiness=2, placement="ring"),
    "recall all bursty": AssociativeRecall(num_blocks=4, num_rare=4, burstiness=2, burst="all", placement="ring"),
    "2-hop": KHop(num_blocks=4, num_rare=6, placement="ring"),
    "2-hop common": KHop(num_blocks=2, num_rare=3, num_common=2, rare_share=0.5, fresh_share=0.5),
    "trigram": Ngram(num_blocks=2, num_rare=5, num_slots=3),
    "conditional": ConditionalRetrieval(num_blocks=2, num_rare=3, num_slots=3),
    "indirect object": IndirectObject(num_blocks=1, num_rare=3, num_slots=3),
    "inversion": PermutationInversion(num_blocks=3, num_rare=3, placement="ring"),
}


def rows_of(batch) -> torch.Tensor:
    """Tokens, labels and target of each sequence."""
    tokens = batch.inputs["tokens"]
    labels = batch.inputs.get("positions", torch.arange(tokens.shape[1]).expand(tokens.shape))
    return torch.cat([tokens, labels, batch.targets], 1)


def law(task) -> dict[tuple[int, ...], float]:
    """Probability of every (tokens, labels, target)."""
    found: dict[tuple[int, ...], float] = defaultdict(float)
    for batch in task.enumerate("train", 4096):
        for row, weight in zip(rows_of(batch).tolist(), batch.weights.tolist(), strict=True):
            found[tuple(row)] += weight
    return dict(found)


def moved(task, row: tuple[int, ...], generator) -> tuple[int, ...]:
    """A (tokens, labels, target) under one generator of a symmetry."""
    token, label = generator
    length = task.sequence_length
    return (*(token[x] for x in row[:length]), *(label[x] for x in row[length:-1]), token[row[-1]])


def representative_rows(task, *, causal: bool = True) -> list[tuple[tuple[int, ...], float]]:
    found = task.representatives(causal=causal)
    rows = torch.cat([found.tokens, found.positions, found.targets[:, None]], 1)
    return list(zip(map(tuple, rows.tolist()), found.weights.tolist(), strict=True))
