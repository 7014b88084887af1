"""SmolLM2 head by head: what its weights and mean reads say is what its heads attend to."""

from __future__ import annotations

import pytest
import torch

from invariscope.batch import Batch, text_inputs
from invariscope.manifold import induction_coordinates, induction_patterns
from language_models import shipped

pytestmark = pytest.mark.xdist_group("smollm2")


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_its_induction_heads_are_those_of_the_largest_products():
    lm = shipped("smollm2-135m")
    tokens = torch.arange(17, 49152)
    rows = tokens[torch.randint(len(tokens), (4, 64), generator=seeded(1))]
    before = lm.model.config._attn_implementation
    lm.model.set_attn_implementation("eager")
    try:
        patterns = induction_patterns(lm, tokens, num_sequences=2, period=48, generator=seeded(2))
    finally:
        lm.model.set_attn_implementation(before)
    found = induction_coordinates(lm, tokens=tokens[::8], batches=[Batch(inputs=text_inputs(rows.tolist()))])
    assert found.heads == patterns.heads
    assert len(found.heads) == 270

    def top(scores: torch.Tensor, num: int) -> set[int]:
        return set(scores.topk(num).indices.tolist())

    # By chance one of ten would be among 27 of 270.
    match = found.matches().max(0).values
    assert len(top(patterns.induction.mean(0), 10) & top(match, 27)) >= 7
    assert len(top(patterns.previous.mean(0), 10) & top(found.alpha_read.excess, 27)) >= 7
    assert len(top(patterns.previous.mean(0), 10) & top(found.alpha.excess, 27)) <= 4
    # An untrained order of the same numbers is no match.
    mixed = match[torch.randperm(270, generator=seeded(3))]
    assert len(top(patterns.induction.mean(0), 10) & top(mixed, 27)) <= 4
    circuit = found.circuit()
    assert circuit is not None
    assert circuit.previous[0] < circuit.matching[0]
    assert min(circuit.z) > 2
