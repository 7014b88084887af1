"""Transplants: rotated copies exchange their cores without loss; a shuffled map, or the recipient's own law, does not fit."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from cores.hand_made import ExactChain, Through, generator, random_core
from invariscope.batch import Batch
from invariscope.cores import Core, Transplant, accuracy, extract_core, transplant
from invariscope.errors import ShapeError, TooFewSamplesError
from invariscope.tasks import MarkovChain

SITE = "module:site"


@pytest.fixture(scope="module")
def chain() -> MarkovChain:
    return MarkovChain.named("spread_12", 6)


def core_of(model: ExactChain, chain: MarkovChain, rank: int = 3) -> Core:
    return extract_core(model, chain.batches(400, batch_size=200, seed=0), site=SITE, positions="all", rank=rank)


@pytest.fixture(scope="module")
def copies(chain: MarkovChain) -> Transplant:
    a = ExactChain(chain)
    b = a.rotated(seed=5)
    batches = chain.batches(400, batch_size=100, seed=1)
    return transplant(core_of(a, chain), a, core_of(b, chain), b, batches)


def test_rotated_copies_transplant_without_loss(copies: Transplant, chain: MarkovChain):
    assert copies.r2.value == pytest.approx(1.0, abs=1e-9)
    assert copies.donor.value == pytest.approx(copies.base.value, abs=1e-6)
    assert copies.ceiling.value == pytest.approx(copies.base.value, abs=1e-6)
    assert copies.cost.value == pytest.approx(0, abs=1e-6)
    assert copies.base.value == pytest.approx(chain.optimum().cross_entropy, abs=0.05)
    assert copies.base.num == 200 * 6


def test_a_shuffled_map_and_the_recipients_own_law_are_bad(copies: Transplant):
    assert copies.shuffled.value > copies.base.value + 0.2
    assert copies.recipient.value > copies.base.value + 0.2
    for estimate in (copies.base, copies.donor, copies.shuffled):
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low <= estimate.value <= estimate.high
        assert estimate.unit == "nats"
        assert estimate.chance is not None
        assert copies.base.value < estimate.chance


def test_the_cost_is_the_paired_difference(chain: MarkovChain):
    a, b = ExactChain(chain), ExactChain(chain, dim=20, seed=7)
    found = transplant(core_of(a, chain, 2), a, core_of(b, chain), b, chain.batches(200, batch_size=100, seed=1))
    assert found.cost.value == pytest.approx(found.donor.value - found.base.value, abs=1e-9)
    assert found.cost.low is not None
    assert found.cost.low > 0.01  # two directions do not carry what three do
    assert found.donor.value < found.recipient.value


def test_a_core_that_carries_nothing_moves_nothing(chain: MarkovChain):
    a = ExactChain(chain)
    useless = random_core(16, 3, site=SITE, positions="all", outputs_at="all")
    # Nothing in the readout sees what is written.
    blind = torch.linalg.svd(a.readout.detach().T)[2][11:14].T
    useless = dataclasses.replace(useless, write=blind, read=blind, mean=torch.zeros(16).double())
    found = transplant(core_of(a, chain), a, useless, a, chain.batches(100, batch_size=50, seed=1))
    assert found.donor.value == pytest.approx(found.ceiling.value, abs=1e-9)
    assert found.shuffled.value == pytest.approx(found.ceiling.value, abs=1e-9)
    assert found.ceiling.value > found.base.value + 0.2
    # The recipient answers as if nothing had happened.
    assert found.recipient.value == pytest.approx(found.base.value, abs=0.05)


def test_other_metrics_and_generators(chain: MarkovChain):
    a = ExactChain(chain)
    core, batches = core_of(a, chain), chain.batches(100, batch_size=50, seed=1)
    first, again, other = (
        transplant(core, a, core, a, batches, metric=accuracy(), generator=generator(seed)).shuffled for seed in (0, 0, 1)
    )
    assert first == again != other
    assert first.unit == "share"


def test_unequal_positions_are_refused(chain: MarkovChain):
    a = ExactChain(chain)
    core = core_of(a, chain)
    last = dataclasses.replace(core, provenance=dataclasses.replace(core.provenance, positions="last"))
    with pytest.raises(ShapeError) as caught:
        transplant(core, a, last, a, chain.batches(100, batch_size=50, seed=1))
    assert caught.value.given == "cores read at 'all' and at 'last'"
    assert caught.value.expected == "the same positions"
    assert caught.value.do == "extract both cores at the same positions"


def test_too_few_or_unequal_sequences_are_refused(chain: MarkovChain):
    a = ExactChain(chain)
    core = core_of(a, chain)
    with pytest.raises(TooFewSamplesError, match="a batch of 3 sequences; expected at least 4: two to fit, two to exchange"):
        transplant(core, a, core, a, chain.batches(3, batch_size=3, seed=1))
    with pytest.raises(TooFewSamplesError, match="in 8 groups; expected at least 10"):
        transplant(core, a, core, a, chain.batches(16, batch_size=16, seed=1))
    with pytest.raises(TooFewSamplesError, match="batches that are empty"):
        transplant(core, a, core, a, [])
    states = torch.randn(8, 2, 16, dtype=torch.float64, generator=generator())
    uneven = torch.ones(8, 2, dtype=torch.bool)
    uneven[0, 1] = False
    batch = Batch(inputs={"states": states}, targets=torch.zeros(8, 2).long(), valid=uneven)
    with pytest.raises(ShapeError, match="sequences of different lengths; expected one length"):
        transplant(core, Through(torch.eye(16).double()), core, Through(torch.eye(16).double()), [batch])


def test_common_padding_is_left_out(chain: MarkovChain):
    a = ExactChain(chain)
    core = core_of(a, chain)
    valid = torch.ones(60, 6, dtype=torch.bool)
    valid[:, 0] = False
    batches = [dataclasses.replace(batch, valid=valid) for batch in chain.batches(60, batch_size=60, seed=1)]
    found = transplant(core, a, core, a, batches)
    assert found.base.num == 30 * 5
    assert found.donor.value == pytest.approx(found.base.value, abs=1e-6)
