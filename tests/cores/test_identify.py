"""Identification: a planted operator is found among candidates, shuffled pairs explain nothing, the law's coordinates work."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from cores.hand_made import ExactChain, Through, generator
from invariscope.batch import Batch
from invariscope.cores import Core, Provenance, core_coordinates, extract_core, identify_operator
from invariscope.cores.identify import leading_spectrum
from invariscope.errors import ConfigError, RankError, UnknownNameError
from invariscope.positions import Rows
from invariscope.tasks import CandidateMap, MarkovChain, time_shift
from training.toy_tasks import FirstPlusLast

PLANTED = torch.tensor([[0.6, -0.3], [0.3, 0.6]], dtype=torch.float64)
SPECTRUM = torch.tensor([0.6 + 0.3j, 0.6 - 0.3j], dtype=torch.complex128)


def backwards(rows: Rows) -> tuple[Tensor, Tensor]:
    i, j = time_shift(None).pairs(rows)
    return j, i


def elsewhere(rows: Rows) -> tuple[Tensor, Tensor]:
    """From each token to one of the sequence on the other side."""
    return torch.arange(rows.num), torch.arange(rows.num).flip(0)


def toy(*maps: CandidateMap) -> FirstPlusLast:
    task = FirstPlusLast()
    task.candidate_maps = maps
    return task


@pytest.fixture(scope="module")
def planted() -> tuple[Core, Through, list[Batch]]:
    """z_{t+1} = A z_t + noise, in the first two of four dimensions; the others are noise."""
    source = generator()
    z = [torch.randn(300, 2, dtype=torch.float64, generator=source)]
    for _ in range(11):
        z.append(z[-1] @ PLANTED.T + 0.5 * torch.randn(300, 2, dtype=torch.float64, generator=source))
    noise = torch.randn(300, 12, 2, dtype=torch.float64, generator=source)
    states = torch.cat([torch.stack(z, 1), noise], -1)
    axes = torch.eye(4, 2, dtype=torch.float64)
    made = Provenance(site="module:site", positions="all", outputs_at="all")
    core = Core(read=axes, write=axes, mean=torch.zeros(4).double(), singular_values=torch.ones(2), provenance=made)
    batches = [Batch(inputs={"states": part}) for part in states.split(128)]
    return core, Through(torch.eye(4).double()), batches


def test_a_planted_operator_is_recovered(planted: tuple[Core, Through, list[Batch]]):
    core, model, batches = planted
    found = identify_operator(core, model, toy(time_shift(SPECTRUM)), batches)
    best = found.best
    assert found.coordinates == "core"
    assert torch.allclose(best.operator.matrix, PLANTED, atol=0.05)
    assert best.error is not None
    assert best.error.low is not None
    assert best.error.high is not None
    assert best.error.value < 0.04
    assert best.error.low <= best.error.value <= best.error.high
    assert best.operator.num_pairs == 300 * 11
    assert best.operator.num_groups == 300
    assert best.operator.r2_heldout.value == pytest.approx(0.45, abs=0.05)  # |A|² = .45, and the noise makes up the rest
    assert best.null_r2 is not None
    assert abs(best.null_r2) < 0.02


def test_candidates_are_ranked_and_the_right_one_wins(planted: tuple[Core, Through, list[Batch]]):
    core, model, batches = planted
    wrong = CandidateMap(name="elsewhere", pairs=elsewhere)
    found = identify_operator(core, model, toy(wrong, time_shift(SPECTRUM)), batches, num_bootstrap=0)
    assert [candidate.name for candidate in found.candidates] == ["time shift", "elsewhere"]
    assert found.candidates[1].operator.r2_heldout.value < 0.02
    assert found.candidates[1].error is None
    assert found.candidates[0].null_r2 is not None
    assert found.candidates[0].operator.r2_heldout.value > 10 * abs(found.candidates[0].null_r2)


def test_backwards_is_the_transposed_map(planted: tuple[Core, Through, list[Batch]]):
    core, model, batches = planted
    found = identify_operator(core, model, toy(CandidateMap(name="back", pairs=backwards)), batches, num_bootstrap=0)
    assert torch.allclose(found.best.operator.matrix, PLANTED.T, atol=0.12)


def test_the_null_can_be_left_out_and_follows_the_generator(planted: tuple[Core, Through, list[Batch]]):
    core, model, batches = planted
    task = toy(time_shift(SPECTRUM))
    assert identify_operator(core, model, task, batches, num_bootstrap=0, num_shuffles=0).best.null_r2 is None
    nulls = [
        identify_operator(core, model, task, batches, num_bootstrap=0, num_shuffles=2, generator=generator(seed)).best.null_r2
        for seed in (0, 0, 1)
    ]
    assert nulls[0] == nulls[1] != nulls[2]


def test_coordinates_are_those_of_the_core_in_order(planted: tuple[Core, Through, list[Batch]]):
    core, model, batches = planted
    z, rows = core_coordinates(core, model, batches)
    states = torch.cat([batch.inputs["states"] for batch in batches])
    assert torch.equal(z, states[..., :2].flatten(0, 1))
    assert torch.equal(rows.b, torch.arange(300).repeat_interleave(12))
    assert torch.equal(rows.t, torch.arange(12).repeat(300))


def test_a_chain_of_twelve_states_is_held_against_its_three_leading_eigenvalues():
    chain = MarkovChain.named("spread_12", 8)
    assert len(chain.eigenvalues) == 11
    model = ExactChain(chain)
    batches = chain.batches(6000, batch_size=3000, seed=0)
    core = extract_core(model, batches, site="module:site", positions="all", rank=3)
    law = identify_operator(core, model, chain, batches, coordinates="law", num_bootstrap=0, num_shuffles=2)
    assert law.coordinates == "law"
    assert law.best.error is not None
    assert law.best.null_r2 is not None
    assert law.best.error.value < 0.02
    assert abs(law.best.null_r2) < 0.01
    plain = identify_operator(core, model, chain, batches, num_bootstrap=0, num_shuffles=0)
    assert plain.best.error is not None
    # The span of log T is not invariant under T: least squares on z has a bias.
    assert plain.best.error.value > law.best.error.value


def test_a_trained_model_carries_the_spectrum_of_its_chain(trained: Any):
    batches = trained.task.batches(2000, batch_size=1000, seed=1, pool="heldout")
    core = extract_core(trained.model, batches, site="blocks.0.resid_mid", positions="all", rank=3)
    for coordinates in ("core", "law"):
        found = identify_operator(
            core, trained.model, trained.task, batches, coordinates=coordinates, num_bootstrap=0, num_shuffles=0
        )
        assert found.best.error is not None
        assert found.best.error.value < 0.1


def test_the_leading_spectrum_by_value():
    spectrum = torch.tensor([0.5 + 0j, 0.1, 0.0, -0.3 + 0.6j, -0.3 - 0.6j, 0.0], dtype=torch.complex128)
    assert leading_spectrum(spectrum, 3).tolist() == [-0.3 + 0.6j, -0.3 - 0.6j, 0.5]  # pyright: ignore[reportOptionalMemberAccess]
    assert leading_spectrum(spectrum, 6).tolist() == [-0.3 + 0.6j, -0.3 - 0.6j, 0.5, 0.1, 0, 0]  # pyright: ignore[reportOptionalMemberAccess]
    assert leading_spectrum(spectrum, 7) is None


def test_a_spectrum_shorter_than_the_core_is_not_compared(planted: tuple[Core, Through, list[Batch]]):
    core, model, batches = planted
    found = identify_operator(core, model, toy(time_shift(SPECTRUM[:1])), batches, num_bootstrap=0, num_shuffles=0)
    assert found.best.error is None


def test_what_cannot_be_identified_is_refused(planted: tuple[Core, Through, list[Batch]]):
    core, model, batches = planted
    with pytest.raises(ConfigError, match=r"'first plus last', which states no candidate map; expected at least one"):
        identify_operator(core, model, toy(), batches)
    with pytest.raises(UnknownNameError, match=r"unknown coordinates 'laws'; .*nearest: law"):
        identify_operator(core, model, toy(time_shift(None)), batches, coordinates="laws")  # pyright: ignore[reportArgumentType]
    narrow = Through(torch.randn(4, 2, dtype=torch.float64, generator=generator()))
    with pytest.raises(RankError) as caught:
        identify_operator(core, narrow, toy(time_shift(None)), batches, coordinates="law")
    assert caught.value.given == "the law of 2 outputs in 2 components"
    assert caught.value.expected == "at most 1"
    assert "coordinates='core'" in caught.value.do
