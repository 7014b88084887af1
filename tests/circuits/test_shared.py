"""Both versions of a sum meet in the circuit, and a patch carries the answer where the site carries it."""

import pytest
import torch

from circuits.hand_built import PAPER, SMALL, circuit, generator, unknowing
from invariscope.circuits import SHARED_SITES, shared_computation, version_patching
from invariscope.circuits.forward import answers
from invariscope.circuits.shared import _draw_operands, _next_other_sum
from invariscope.errors import ConfigError, UnknownNameError
from invariscope.tasks import AssignAdd

RESIDUAL, HIDDEN, OUTPUT = SHARED_SITES


@pytest.mark.parametrize("task", [SMALL, PAPER])
def test_the_circuit_shares_its_adder(task):
    found = shared_computation(circuit(task), task, generator(), 60)
    for site in (HIDDEN, OUTPUT):
        for kind in (None, 1, 2):
            pair = found.at(site, kind)
            assert pair.mean.value == pytest.approx(1.0, abs=1e-5)
            assert pair.sd < 1e-5
            assert pair.mean.chance == pair.shuffled_mean.value < 0.5
    # The residual stream says which variable was named; MLP2 does not read that.
    residual = found.at(RESIDUAL)
    assert residual.shuffled_mean.value < residual.mean.value < 0.999
    assert len(residual.cosines) == 3 * 60
    assert len(found.at(RESIDUAL, 2).cosines) == 60


def test_a_site_that_ignores_the_sum_is_as_alike_when_shuffled():
    model = circuit()
    with torch.no_grad():
        # Layer 2 moves nothing: before MLP2 stands nothing of the sum.
        model.blocks[1].attention.output.weight.zero_()
    found = shared_computation(model, SMALL, generator(), 100)
    pair = found.at(RESIDUAL, 2)
    assert pair.mean.value == pytest.approx(pair.shuffled_mean.value, abs=0.05)


def test_equal_generators_give_equal_pairs_and_others_do_not():
    model = unknowing()
    a, b, c = (shared_computation(model, SMALL, generator(seed), 30).at(HIDDEN).cosines for seed in (0, 0, 1))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


@pytest.mark.parametrize("task", [SMALL, PAPER])
def test_a_patch_carries_the_donors_sum(task):
    sites = ("embed", "blocks.1.attn_out", "blocks.1.resid_mid", "blocks.1.mlp_pre")
    embed, *rest = version_patching(circuit(task), task, generator(), 100, sites=sites)
    # At '=' the embedding is that of '=': the answer stays.
    assert (embed.donor.value, embed.own.value) == (0.0, 1.0)
    for found in rest:
        assert (found.donor.value, found.own.value) == (1.0, 0.0), found.site
        assert found.shuffled.value < 0.35
        assert found.donor.chance == 1 / 7
        assert found.unpatched == 0.0


def test_an_unknowing_model_carries_its_own_answer_only():
    for found in version_patching(unknowing(), SMALL, generator(), 200):
        assert found.donor.value < 0.4
        assert found.shuffled.value < 0.4


def test_patching_a_model_that_is_right_by_its_embedding_alone_moves_nothing_else():
    model = circuit()
    tokens = SMALL.sample(50, generator=generator()).inputs["tokens"]
    before = answers(model, tokens)
    version_patching(model, SMALL, generator(), 20)
    assert torch.equal(answers(model, tokens), before)


def test_shuffled_rows_have_another_sum():
    operands = torch.tensor([[1, 2], [2, 1], [0, 3], [4, 4], [5, 3]])
    other = _next_other_sum(SMALL, operands)
    sums = operands.sum(1) % 7
    assert bool((sums[other] != sums).all())
    alike = torch.tensor([[1, 2], [2, 1]])
    assert _next_other_sum(SMALL, alike).shape == (2,)


def test_operands_are_drawn_without_repetition():
    drawn = _draw_operands(SMALL, 49, generator())
    assert len(drawn.unique(dim=0)) == 49
    assert _draw_operands(SMALL, 60, generator()).shape == (60, 2)
    three = AssignAdd(modulus=5, num_variables=4, num_operands=3, mixture=(1, 1, 1, 1))
    assert len(_draw_operands(three, 125, generator()).unique(dim=0)) == 125


def test_what_is_refused():
    with pytest.raises(ConfigError, match="num = 1 pairs; expected at least 2"):
        shared_computation(unknowing(), SMALL, generator(), 1)
    with pytest.raises(ConfigError, match="no MLP"):
        shared_computation(unknowing(mlp_width=(0, 0)), SMALL, generator(), 4)
    with pytest.raises(UnknownNameError, match=r"blocks\.1\.mlp_prae"):
        version_patching(unknowing(), SMALL, generator(), 8, sites=("blocks.1.mlp_prae",))
    found = shared_computation(unknowing(), SMALL, generator(), 8)
    with pytest.raises(ConfigError, match="expected one of blocks"):
        found.at("blocks.1.attn_out")
