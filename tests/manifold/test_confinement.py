"""Theorem 1 on whole laws, its negative controls, and detection of symmetries that are none."""

import pytest
import torch

from invariscope.batch import Batch
from invariscope.errors import ConfigError
from invariscope.manifold import (
    InductionManifold,
    check_invariance,
    expected_gradient,
    expected_loss,
    follow_offspan,
    warn_of_adaptive_steps,
)
from invariscope.models import Disentangled, DisentangledConfig
from invariscope.tasks import Symmetry
from invariscope.tasks.blocks import AssociativeRecall, KHop
from manifold.models import RECALL, generator, manifold_of, model_at
from tasks.blocks.laws import SMALL

# Two chains of two hops on the ring are 155520 sequences; with tokens alone exchangeable, 17280.
SYMMETRIC = {name: task for name, task in SMALL.items() if name not in ("recall fixed", "2-hop")}
HOPS = KHop(num_blocks=4, num_rare=6, placement="fixed")
SMALLEST = SMALL["recall"]
RING = AssociativeRecall(num_blocks=2, num_rare=4, placement="ring", num_positions=5)
FIXED = AssociativeRecall(num_blocks=2, num_rare=4, placement="fixed")
ZIPF = AssociativeRecall(num_blocks=2, num_rare=4, zipf=1.0)
COMMON = AssociativeRecall(num_blocks=2, num_rare=0, num_common=3, rare_share=0.0, symmetric=True)
# The paper's basis: centred tokens, an offset a block.
CENTRED = AssociativeRecall(num_blocks=2, num_rare=4, placement="offsets", num_positions=4)
MEMORY = AssociativeRecall(
    num_blocks=2, num_rare=0, num_common=3, rare_share=0.0, symmetric=True, placement="offsets", num_positions=4
)
PAPER = {"centred": True, "of": {"basis": "paper"}}
NO_INVERSE = {"centred": True, "of": {"basis": "paper", "inverse": False}}


def share_outside(task, seed=0, std=0.5, **choices):
    manifold = manifold_of(task, **choices)
    gradient, _ = expected_gradient(model_at(manifold, seed=seed, std=std), list(task.enumerate("train", 4096)))
    return manifold.offspan_share(gradient)


@pytest.mark.parametrize(
    "choices",
    [
        *({}, {"num_layers": 3}, {"num_heads": 2}, {"score_norm": True}, {"feed_forward": "plain"}, {"causal": False}),
        *({"centred": True}, {"readout": "direct"}),
    ],
    ids=lambda choices: " ".join(map(str, choices)) or "plain",
)
@pytest.mark.parametrize("name", SYMMETRIC)
def test_the_exact_gradient_lies_in_the_manifold(name, choices):
    assert share_outside(SYMMETRIC[name], **choices) <= 1e-12


@pytest.mark.parametrize("task", [SMALLEST, SMALL["recall common"], HOPS], ids=["recall", "common", "2-hop"])
def test_so_it_does_in_three_layers_with_two_heads_everything_on(task):
    few = {"num_heads": 2} if task is not HOPS else {}
    assert share_outside(task, num_layers=3, score_norm=True, feed_forward="plain", **few) <= 1e-12


@pytest.mark.parametrize("choices", [{}, {"num_layers": 3, "readout": "direct"}])
def test_the_paper_s_basis_confines_where_its_shifts_are_all_there_are(choices):
    # On a ring of twice the block's size.
    assert share_outside(CENTRED, std=2.0, **PAPER, **choices) <= 1e-12
    assert share_outside(MEMORY, std=2.0, **PAPER, **choices) <= 1e-12


def test_on_longer_rings_it_confines_ever_better_but_not_without_inverses():
    def share(num_positions, choices):
        task = AssociativeRecall(num_blocks=2, num_rare=5, placement="offsets", num_positions=num_positions)
        found = task.representatives()
        inputs = {"tokens": found.tokens, "positions": found.positions}
        law = [Batch(inputs=inputs, targets=found.targets[:, None], weights=found.weights)]
        whole, paper = (manifold_of(task, readout="direct", **one) for one in ({"centred": True}, choices))
        # The mean over an orbit is the projection on the commutant.
        gradients = [whole.project(expected_gradient(model_at(paper, seed=seed), law)[0]) for seed in range(5)]
        return sum(map(paper.offspan_share, gradients)) / 5

    with_inverses, without = ([share(size, choices) for size in (5, 16, 48)] for choices in (PAPER, NO_INVERSE))
    assert 0.05 < with_inverses[0] < 0.2
    assert with_inverses[2] < 0.3 * with_inverses[1] < 0.1 * with_inverses[0]
    assert min(without) > 0.02
    assert without[2] > 10 * with_inverses[2]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("task", "choices"),
    [
        (SMALLEST, {"of": {"leave_out": ("ones",)}}),
        (FIXED, {"symmetric_as": RING}),
        (ZIPF, {"symmetric_as": SMALLEST}),
        (COMMON, {"of": {"leave_out": ("C",)}}),
        (CENTRED, NO_INVERSE | {"num_layers": 3, "readout": "direct", "std": 2.0}),
        (SMALLEST, {"stream": "additive"}),
        (SMALLEST, {"feed_forward": "rotated"}),
    ],
    ids=["no ones", "no offset", "zipf", "no C", "no inverse", "additive", "rotated"],
)
def test_it_does_not_where_it_must_not(task, choices, seed):
    assert share_outside(task, seed, **choices) > 0.1


def test_a_sampled_gradient_leaves_by_one_over_the_root_of_the_batch():
    manifold = manifold_of(RECALL)
    model = model_at(manifold)

    [law] = RECALL.enumerate("train", 4096)
    draw = generator()

    def sampled(size):
        # A sample of any size costs the law once: what a batch has is how often each sequence comes.
        drawn = torch.multinomial(law.weights, size, replacement=True, generator=draw)
        counts = torch.bincount(drawn, minlength=len(law.weights)).double()
        return expected_gradient(model, [Batch(inputs=law.inputs, targets=law.targets, weights=counts)])[0]

    def share(gradients):
        return sum(map(manifold.offspan_share, gradients)) / len(gradients)

    sizes = [4**power for power in range(5, 11)]
    shares = [share([sampled(size) for _ in range(8)]) for size in sizes]
    design = torch.stack([torch.ones(len(sizes)), torch.tensor(sizes).log()], 1).double()
    slope = torch.linalg.lstsq(design, torch.tensor(shares).double().log()[:, None]).solution[1, 0]
    assert float(slope) == pytest.approx(-0.5, abs=0.05)
    drawn = [expected_gradient(model, [RECALL.sample(4096, generator=draw)])[0] for _ in range(8)]
    assert share(drawn) == pytest.approx(shares[1], rel=0.2)


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


@pytest.fixture
def outside_model():
    manifold = InductionManifold(
        DisentangledConfig(vocab_size=SMALLEST.vocab_size, num_labels=SMALLEST.num_labels), SMALLEST.symmetry
    )
    return manifold, Disentangled(manifold.config, generator=torch.Generator().manual_seed(0), initial_std=0.3).double()


def follow(outside_model, kind, **options):
    manifold, model = outside_model
    every = options.pop("every", 4)
    batches = SMALLEST.batches(10 * 32, batch_size=32, seed=0)
    optimiser = kind(list(model.parameters()), **options)
    control = kind is torch.optim.Adam
    return follow_offspan(
        model, manifold, batches, optimiser, law=SMALLEST.enumerate("train", 4096), every=every, is_control=control
    )


def test_a_training_is_followed_outside_and_inside(outside_model):
    manifold, model = outside_model
    outside, whole = manifold.squared_norms(model)
    found = follow(outside_model, torch.optim.SGD, lr=1.0)
    assert found.steps == (0, 4, 8, 10)
    assert (found.outside[0], found.inside[0]) == pytest.approx((outside, whole - outside))
    assert (found.outside[-1], found.inside[-1]) == pytest.approx((manifold.squared_norms(model)[0], found.inside[-1]))
    assert found.losses[-1] < found.losses[0]


def test_weight_decay_alone_shrinks_what_is_outside_at_its_own_rate(outside_model):
    # In the limit of no gradient: a learning rate so small and a decay so large that their product is .1.
    found = follow(outside_model, torch.optim.SGD, lr=1e-9, weight_decay=1e8)
    assert found.outside[-1] / found.outside[0] == pytest.approx(0.9 ** (2 * 10), rel=1e-6)


def test_what_is_followed_every_so_often_is_checked(outside_model):
    with pytest.raises(ConfigError, match="every = 0; expected 1 or more"):
        follow(outside_model, torch.optim.SGD, lr=1.0, every=0)


def test_adaptive_steps_are_warned_of(outside_model):
    warn_of_adaptive_steps("SGD")
    with pytest.warns(UserWarning, match="Adam divides each weight's step by its own gradient's size"):
        warn_of_adaptive_steps("Adam")
    manifold, model = outside_model
    follow(outside_model, torch.optim.Adam, lr=0.01)
    with pytest.warns(UserWarning, match="AdamW divides each weight's step") as caught:
        follow(outside_model, torch.optim.AdamW, lr=0.01)
    assert caught[0].filename == __file__
    assert manifold.squared_norms(model)[0] > 0
