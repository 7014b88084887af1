"""Coordinates of weights: there and back, names, shares outside, and weights of other shapes."""

import pytest
import torch

from invariscope.errors import ConfigError, NonFiniteError, ShapeError, UnknownNameError
from invariscope.manifold import InductionManifold, random_point
from invariscope.models.disentangled import Disentangled, DisentangledConfig
from invariscope.tasks.blocks import AssociativeRecall
from manifold.models import RECALL, generator, manifold_of, model_at


@pytest.mark.parametrize(
    "choices", [{}, {"num_heads": 2}, {"num_layers": 3}, {"feed_forward": "plain"}, {"readout": "direct"}, {"stream": "additive"}]
)
def test_there_and_back(choices):
    manifold = manifold_of(RECALL, **choices)
    theta = random_point(manifold, generator())
    weights = manifold.weights(theta)
    torch.testing.assert_close(manifold.coordinates(weights), theta)
    assert manifold.offspan_share(weights) < 1e-15
    assert len(set(manifold.names)) == manifold.dim == len(manifold.layout)
    model = Disentangled(manifold.config, generator=generator())
    assert weights.keys() == dict(model.named_parameters()).keys()


def test_a_name_selects_what_it_says():
    manifold = manifold_of(RECALL, num_heads=2)
    theta = torch.zeros(manifold.dim, dtype=torch.float64)
    theta[manifold.index("L2.1 [x|a1.0] identity")] = 2.0
    weights = manifold.weights(theta)
    D = manifold.config.input_width
    expected = torch.zeros(2, 3 * D, 3 * D, dtype=torch.float64)
    expected[1, :5, D : D + 5] = 2 * torch.eye(5)
    assert torch.equal(weights["key_query.1"], expected)
    assert not bool(weights["readout"].any())
    theta = torch.zeros(manifold.dim, dtype=torch.float64)
    theta[manifold.index("R [a2.0] identity")] = 3.0
    readout = manifold.weights(theta)["readout"]
    path = manifold.config.paths(2).index("a2.0")
    assert torch.equal(readout[:, path * D : path * D + 5], 3 * torch.eye(5, dtype=torch.float64))
    with pytest.raises(UnknownNameError, match=r"nearest: R \[a2.0\] identity"):
        manifold.index("R [a2.0] identitty")


def test_shares_outside_are_norms():
    manifold = manifold_of(RECALL)
    weights = manifold.weights(random_point(manifold, generator()))
    inside = sum(float(weight.square().sum()) for weight in weights.values())
    noise = {key: torch.randn(weight.shape, generator=generator(1), dtype=torch.float64) for key, weight in weights.items()}
    kept = manifold.project(noise)
    outside = {key: noise[key] - kept[key] for key in noise}
    added = sum(float(weight.square().sum()) for weight in outside.values())
    both = {key: weights[key] + outside[key] for key in weights}
    assert manifold.offspan_share(both) == pytest.approx((added / (added + inside)) ** 0.5)
    assert manifold.squared_norms(both) == pytest.approx((added, added + inside))
    assert manifold.offspan_share({key: 0 * weight for key, weight in weights.items()}) == 0.0


def test_the_metric_is_the_size_of_each_orbital():
    manifold = manifold_of(RECALL)
    theta = random_point(manifold, generator())
    weights = manifold.weights(theta)
    whole = sum(float(weight.square().sum()) for weight in weights.values())
    assert float(theta @ manifold.metric() @ theta) == pytest.approx(whole)


def test_a_diverged_model_has_no_share():
    manifold = manifold_of(RECALL)
    weights = manifold.weights(random_point(manifold, generator()))
    weights["key_query.1"][0, 0, 0] = float("nan")
    with pytest.raises(NonFiniteError, match=r"key_query.1 with NaN or infinity; expected finite weights"):
        manifold.offspan_share(weights)


def test_what_belongs_to_another_model_is_refused():
    manifold = manifold_of(RECALL)
    other = model_at(manifold_of(AssociativeRecall(num_blocks=2, num_rare=6)))
    with pytest.raises(ShapeError) as caught:
        manifold.coordinates(other)
    assert str(caught.value) == (
        "key_query.0 [1, 12, 12] for [1, 11, 11], key_query.1 [1, 24, 24] for [1, 22, 22], readout [6, 48] for [5, 44]; "
        "expected the weights of this manifold's model; use one configuration for both"
    )
    with pytest.raises(ShapeError, match="readout missing for"):
        manifold.coordinates(
            {key: value for key, value in manifold.weights(torch.zeros(manifold.dim)).items() if key != "readout"}
        )
    with pytest.raises(ShapeError, match=r"coordinates of shape \[3\]; expected"):
        manifold.weights(torch.zeros(3))
    config = DisentangledConfig(vocab_size=5, num_labels=6)
    with pytest.raises(ConfigError, match="a task without symmetry"):
        InductionManifold(config, None)
    with pytest.raises(UnknownNameError, match="nearest: orbitals"):
        InductionManifold(config, RECALL.symmetry, basis="orbital")
