"""The reduced loss is the full model's, gradient by gradient and step by step; vocabulary does not matter; what is refused."""

import pytest
import torch

from invariscope.errors import ConfigError, NonFiniteError, ShapeError
from invariscope.manifold import ReducedLoss, descend, expected_gradient, expected_loss, random_point
from invariscope.models.disentangled import Disentangled
from invariscope.tasks.blocks import AssociativeRecall
from manifold.models import RECALL, generator, manifold_of, model_at
from tasks.blocks.laws import SMALL

TASKS = ("recall", "recall offsets", "recall common", "recall symmetric", "recall bursty", "trigram", "conditional", "inversion")


def reduced_of(task, manifold, causal=True):
    return ReducedLoss(manifold, task.representatives(causal=causal))


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("causal", [True, False])
def test_loss_and_gradient_are_the_full_model_s(name, causal):
    task = SMALL[name]
    manifold = manifold_of(task, causal=causal)
    theta = random_point(manifold, generator(), std=0.4)
    reduced = reduced_of(task, manifold, causal)
    gradient, loss = expected_gradient(model_at(manifold, theta), list(task.enumerate("train", 4096)))
    slope, exact = reduced.gradient(theta)
    assert float(exact) == pytest.approx(loss, abs=1e-11)
    torch.testing.assert_close(slope, manifold.coordinates(gradient), atol=1e-12, rtol=0)


@pytest.mark.parametrize("choices", [{"num_layers": 3}, {"num_heads": 2}, {"readout": "direct"}, {"centred": True}])
def test_so_they_are_for_other_models(choices):
    manifold = manifold_of(RECALL, **choices)
    theta = random_point(manifold, generator(), std=0.4)
    law = list(RECALL.enumerate("train", 4096))
    with torch.no_grad():
        assert float(reduced_of(RECALL, manifold)(theta)) == pytest.approx(
            float(expected_loss(model_at(manifold, theta), law)), abs=1e-11
        )


def test_the_paper_s_basis_is_descended_in_its_own_metric():
    task = AssociativeRecall(num_blocks=2, num_rare=4, placement="offsets", num_positions=5)
    manifold = manifold_of(task, centred=True, of={"basis": "paper"})
    theta = random_point(manifold, generator(), std=0.4)
    gradient, _ = expected_gradient(model_at(manifold, theta), list(task.enumerate("train", 4096)))
    slope, _ = reduced_of(task, manifold).gradient(theta)
    torch.testing.assert_close(slope, manifold.coordinates(gradient), atol=1e-12, rtol=0)


@pytest.mark.parametrize(("rate", "choices"), [(0.5, {}), (2.0, {"readout": "direct"})])
def test_descent_equals_that_of_the_full_model_over_400_steps(rate, choices):
    manifold = manifold_of(RECALL, **choices)
    theta = random_point(manifold, generator(), std=0.1)
    found = descend(reduced_of(RECALL, manifold), theta, learning_rate=rate, steps=400)
    model, law = model_at(manifold, theta), list(RECALL.enumerate("train", 4096))
    losses = []
    for step in range(401):
        gradient, loss = expected_gradient(model, law)
        losses.append(loss)
        if step < 400:
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    parameter -= rate * gradient[name]
    assert found.losses.tolist() == pytest.approx(losses, abs=1e-11)
    torch.testing.assert_close(found.coordinates[-1], manifold.coordinates(model), atol=1e-10, rtol=0)
    assert losses[-1] < 0.5 * losses[0]
    assert found.times.tolist() == list(range(401))


def test_many_points_are_as_many_single_ones():
    manifold = manifold_of(RECALL, num_layers=3)
    reduced = reduced_of(RECALL, manifold)
    points = torch.stack([random_point(manifold, generator(seed), std=0.4) for seed in range(6)]).view(2, 3, -1)
    slope, losses = reduced.gradient(points)
    assert losses.shape == (2, 3)
    alone, loss = reduced.gradient(points[1, 2])
    torch.testing.assert_close(losses[1, 2], loss)
    torch.testing.assert_close(slope[1, 2], alone)


def test_accuracy_is_the_full_model_s():
    manifold = manifold_of(RECALL)
    law = list(RECALL.enumerate("train", 4096))
    for seed in range(4):
        theta = random_point(manifold, generator(seed), std=2.0)
        model = model_at(manifold, theta)
        right = 0.0
        with torch.no_grad():
            for batch in law:
                logits = model(**batch.inputs)
                target = logits.gather(1, batch.targets)
                others = logits.scatter(1, batch.targets, float("-inf")).amax(1)
                right += float(batch.weights @ (target[:, 0] > others + 1e-9).double())
        assert float(reduced_of(RECALL, manifold).accuracy(theta)) == pytest.approx(right, abs=1e-9)


def test_a_large_vocabulary_has_as_few_answers():
    task = AssociativeRecall(num_blocks=3, num_rare=300, num_slots=4)
    manifold = manifold_of(task)
    reduced = reduced_of(task, manifold)
    # Six tokens that are there, the one asked for among them, and all others together.
    assert reduced.answers.shape[2] == 7
    theta = random_point(manifold, generator(), std=0.3)
    sampled = [task.sample(2000, generator=generator(1))]
    with torch.no_grad():
        model = Disentangled(manifold.config, generator=generator()).double()
        parameters = dict(model.named_parameters())
        for key, weight in manifold.weights(theta).items():
            parameters[key].copy_(weight)
        assert float(reduced(theta)) == pytest.approx(float(expected_loss(model, sampled)), abs=0.05)


def test_descent_stops_and_says_where_it_fails():
    manifold = manifold_of(RECALL)
    reduced, theta = reduced_of(RECALL, manifold), random_point(manifold, generator(), std=0.1)
    found = descend(reduced, theta, learning_rate=0.5, steps=400, every=10, stop=lambda losses: bool((losses < 1.4).all()))
    assert float(found.losses[-1]) < 1.4 <= float(found.losses[-2])
    assert len(found.times) < 41
    with pytest.raises(NonFiniteError, match="the loss at step"):
        descend(reduced, theta, learning_rate=float("inf"), steps=20)
    with pytest.raises(ConfigError, match="steps = 0"):
        descend(reduced, theta, learning_rate=1.0, steps=0)
    with pytest.raises(ShapeError, match=r"coordinates of shape \[3\]"):
        reduced(torch.zeros(3, dtype=torch.float64))
    with pytest.raises(ConfigError, match="a model with feed_forward = 'plain', score_norm = True"):
        reduced_of(RECALL, manifold_of(RECALL, feed_forward="plain", score_norm=True))


@pytest.mark.parametrize("choices", [{}, {"num_heads": 2, "readout": "direct"}, {"num_layers": 3, "causal": False}])
@pytest.mark.parametrize("num", [0, 1, 5, 40])
def test_a_loss_of_few_coordinates_is_the_whole_one_where_the_others_are_zero(choices, num):
    manifold = manifold_of(RECALL, **choices)
    reduced = reduced_of(RECALL, manifold, causal=choices.get("causal", True))
    attention = [index for index, one in enumerate(manifold.layout) if one.weight.startswith("key_query")]
    support = [attention[index] for index in torch.randperm(len(attention), generator=generator(1))[:num].tolist()]
    theta = random_point(manifold, generator(2))[None].repeat(2, 1)
    theta[1] *= 0.5
    outside = [index for index in attention if index not in support]
    theta[:, outside] = 0.0
    few = reduced.restricted(support)
    slope, losses = reduced.gradient(theta)
    few_slope, few_losses = few.gradient(theta)
    assert torch.allclose(few_losses, losses, rtol=1e-13)
    inside = [index for index in range(manifold.dim) if index not in outside]
    assert torch.allclose(few_slope[:, inside], slope[:, inside], rtol=1e-10, atol=1e-14)
    assert float(few_slope[:, outside].abs().max()) == 0.0
    # The loss that it was made of is what it was.
    assert torch.equal(reduced.gradient(theta)[0], slope)
