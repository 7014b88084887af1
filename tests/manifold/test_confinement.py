"""Theorem 1 on whole laws, its negative controls, and detection of symmetries that are none."""

import math

import pytest
import torch

from invariscope.errors import ConfigError
from invariscope.manifold import check_invariance, expected_gradient, expected_loss, warn_of_adaptive_steps
from invariscope.tasks import Symmetry
from invariscope.tasks.blocks import AssociativeRecall
from manifold.models import RECALL, generator, manifold_of, model_at
from tasks.blocks.laws import SMALL

SYMMETRIC = {name: task for name, task in SMALL.items() if name not in ("recall fixed", "2-hop")}
SMALLEST = SMALL["recall"]
RING = AssociativeRecall(num_blocks=2, num_rare=4, placement="ring", num_positions=5)
FIXED = AssociativeRecall(num_blocks=2, num_rare=4, placement="fixed")
ZIPF = AssociativeRecall(num_blocks=2, num_rare=4, zipf=1.0)
COMMON = AssociativeRecall(num_blocks=2, num_rare=0, num_common=3, rare_share=0.0, symmetric=True)
# The paper's basis: centred tokens, an offset a block.
CENTRED = AssociativeRecall(num_blocks=2, num_rare=4, placement="offsets", num_positions=5)
MEMORY = AssociativeRecall(
    num_blocks=2, num_rare=0, num_common=3, rare_share=0.0, symmetric=True, placement="offsets", num_positions=5
)


def share_outside(task, seed=0, **choices):
    manifold = manifold_of(task, **choices)
    gradient, _ = expected_gradient(model_at(manifold, seed=seed), list(task.enumerate("train", 4096)))
    return manifold.offspan_share(gradient)


@pytest.mark.parametrize("name", SYMMETRIC)
def test_the_exact_gradient_lies_in_the_manifold(name):
    assert share_outside(SYMMETRIC[name]) <= 1e-12


@pytest.mark.parametrize(
    "choices",
    [
        *({"num_layers": 3}, {"num_heads": 2}, {"score_norm": True}, {"feed_forward": "plain"}, {"causal": False}),
        *({"centred": True}, {"readout": "direct"}, {"num_layers": 3, "num_heads": 2}),
    ],
)
def test_so_it_does_for_other_models(choices):
    for task in (SMALLEST, SMALL["recall common"]):
        assert share_outside(task, **choices) <= 1e-12


def test_the_paper_s_basis_confines_with_every_power_of_the_shift():
    # On a ring of five labels, powers up to two and their inverses are all.
    assert share_outside(CENTRED, centred=True, of={"basis": "paper", "block_size": 3}) <= 1e-12
    assert share_outside(MEMORY, centred=True, of={"basis": "paper", "block_size": 3}) <= 1e-12
    # Powers below the block's size leave something out: blocks meet by accident, and what they then learn goes further.
    both, alone = (share_outside(CENTRED, centred=True, of={"basis": "paper", "inverse": one}) for one in (True, False))
    assert 1e-4 < both < alone < 0.1


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("task", "choices"),
    [
        (SMALLEST, {"of": {"leave_out": ("ones",)}}),
        (FIXED, {"symmetric_as": RING}),
        (ZIPF, {"symmetric_as": SMALLEST}),
        (COMMON, {"of": {"leave_out": ("C",)}}),
        (SMALLEST, {"stream": "additive"}),
        (SMALLEST, {"feed_forward": "rotated"}),
    ],
    ids=["no ones", "no offset", "zipf", "no C", "additive", "rotated"],
)
def test_it_does_not_where_it_must_not(task, choices, seed):
    assert share_outside(task, seed, **choices) > 0.1


def test_a_sampled_gradient_leaves_by_one_over_the_root_of_the_batch():
    manifold = manifold_of(RECALL)
    model = model_at(manifold)

    def share(size, seed):
        return manifold.offspan_share(expected_gradient(model, [RECALL.sample(size, generator=generator(seed))])[0])

    small, large = (sum(share(size, seed) for seed in range(12)) / 12 for size in (256, 4096))
    assert math.log(large / small) / math.log(16) == pytest.approx(-0.5, abs=0.05)


def test_weights_and_samples_have_one_loss():
    model = model_at(manifold_of(RECALL))
    with torch.no_grad():
        exact = float(expected_loss(model, RECALL.enumerate("train", 500)))
        sampled = float(expected_loss(model, RECALL.batches(40_000, batch_size=4000, seed=0)))
    assert sampled == pytest.approx(exact, abs=0.02)


def test_a_generator_that_does_not_keep_the_law_is_named():
    model = model_at(manifold_of(SMALLEST), theta=None)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(generator=generator(3))
    law = list(SMALLEST.enumerate("train", 4096))
    check_invariance(model, law, SMALLEST.symmetry)
    # Exchanging the halves of one slot is no symmetry.
    wrong = Symmetry(generators=(*SMALLEST.symmetry.generators, ((0, 1, 2, 3), (1, 0, 2, 3, 4, 5))))
    with pytest.raises(
        ConfigError, match=r"generator 4, which moves labels 0, 1 ..., under which the expected loss changes from"
    ):
        check_invariance(model, law, wrong)
    with pytest.raises(ConfigError, match=r"generator 0, which moves tokens 0, 1 ..."):
        check_invariance(model, list(ZIPF.enumerate("train", 4096)), SMALLEST.symmetry)


def test_adaptive_steps_are_warned_of():
    warn_of_adaptive_steps("SGD")
    with pytest.warns(UserWarning, match="Adam divides each weight's step by its own gradient's size"):
        warn_of_adaptive_steps("Adam")
