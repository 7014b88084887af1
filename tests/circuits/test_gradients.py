"""The merged gradient obeys the chain rule, cosines are those of the matrices written out, and a missing block is wanted back."""

import pytest
import torch
import torch.nn.functional as F

from circuits.hand_built import PAPER, SMALL, circuit, generator, unknowing
from invariscope.circuits import associative_memory, merged_gradient
from invariscope.circuits.gradients import _block_cosine, _shuffles
from invariscope.errors import ConfigError
from invariscope.models import head_weights, query_key, value_output
from invariscope.tasks import AssignAdd


def batch_of(task=SMALL, num=64, pool="train"):
    return task.sample(num, generator=generator(), pool=pool)


@pytest.mark.parametrize("head_width", [None, 5])
def test_the_merged_gradient_gives_that_of_both_factors(head_width):
    model, batch = unknowing(head_width=head_width, initial_scale=1.5, mlp_width=(8, 24)).double(), batch_of()
    gradient, loss = merged_gradient(model, SMALL, batch)
    expected = F.cross_entropy(model(batch.inputs["tokens"])[:, -1], batch.targets[:, 0])
    stacked = model.blocks[1].attention.query_key_value.weight
    [slope] = torch.autograd.grad(expected, [stacked])
    weights = head_weights(model, 1)
    d = weights.query.shape[1]
    # W_Q and W_K of layer 2 enter through their product alone.
    assert loss == pytest.approx(float(expected.detach()))
    assert torch.allclose(gradient @ weights.key, slope[:d].T, atol=1e-12)
    assert torch.allclose(gradient.T @ weights.query, slope[d : 2 * d].T, atol=1e-12)


def test_it_is_the_slope_of_the_loss():
    model, batch = unknowing().double(), batch_of()
    direction = torch.randn(16, 16, generator=generator(), dtype=torch.float64)
    gradient, _ = merged_gradient(model, SMALL, batch)
    ahead, behind = (
        merged_gradient(model, SMALL, batch, at=query_key(model, 1) + sign * 1e-5 * direction)[1] for sign in (1, -1)
    )
    assert (ahead - behind) / 2e-5 == pytest.approx(float((gradient * direction).sum()), rel=1e-5)


def test_nothing_of_the_model_changes():
    model = unknowing().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    associative_memory(model, SMALL, batch_of(), generator(), 5)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())


def test_the_cosine_is_that_of_the_matrices_written_out():
    g = generator()
    direction, written = (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((9, 9), (4, 9)))
    shuffles = _shuffles(4, 10, g)
    found = _block_cosine(direction, written, shuffles)
    cosines = [
        float(F.cosine_similarity(direction.flatten(), (written.T @ written[shuffle]).flatten(), dim=0)) for shuffle in shuffles
    ]
    assert found.cosine == pytest.approx(cosines[0])
    assert found.null_mean == pytest.approx(sum(cosines[1:]) / 10)
    assert found.null_99 == pytest.approx(float(torch.tensor(cosines[1:], dtype=torch.float64).quantile(0.99)))
    assert found.percentile == sum(c < cosines[0] for c in cosines[1:]) / 10


def test_shuffles_never_match_all():
    shuffles = _shuffles(3, 50, generator())
    assert shuffles[0].tolist() == [0, 1, 2]
    assert not bool((shuffles[1:] == shuffles[0]).all(1).any())
    assert len(shuffles) == 51


def test_the_block_itself_exceeds_all_shuffles_and_its_opposite_none():
    written = torch.linalg.qr(torch.randn(9, 5, generator=generator(), dtype=torch.float64)).Q.T
    shuffles = _shuffles(5, 200, generator())
    block = written.T @ written
    assert _block_cosine(block, written, shuffles).cosine == pytest.approx(1.0)
    found = _block_cosine(block, written, shuffles)
    assert (found.percentile, found.above) == (1.0, True)
    assert _block_cosine(-block, written, shuffles).percentile == 0.0
    assert _block_cosine(torch.zeros(9, 9, dtype=torch.float64), written, shuffles).cosine == 0.0


@pytest.mark.parametrize("task", [SMALL, PAPER])
def test_the_loss_wants_back_what_was_taken_out(task):
    # The circuit attends as it should, so its slope says nothing of the block; without it, the loss would build it.
    found = associative_memory(circuit(task), task, batch_of(task, 200, "2var-seen"), generator())
    assert found.rebuilt.above
    assert found.rebuilt.percentile == 1.0
    assert found.rebuilt.cosine > 0.3
    assert not found.merged.above


def test_an_unknowing_model_has_no_preference():
    task = AssignAdd(modulus=7, num_variables=6, num_pads=2)
    above = [
        associative_memory(unknowing(task, seed=seed, width=32), task, batch_of(task, 100), generator(seed), 50).merged.percentile
        for seed in range(12)
    ]
    assert 0.15 < sum(above) / len(above) < 0.85


def test_single_factors_move_the_product_by_the_chain_rule():
    model, batch = unknowing().double(), batch_of()
    gradient, _ = merged_gradient(model, SMALL, batch)
    weights, found = head_weights(model, 1), associative_memory(model, SMALL, batch, generator(), 20)
    embeddings = model.token_embedding.detach()[SMALL.variable_tokens]
    written = (embeddings - embeddings.mean(0)) @ value_output(model, 0)
    block = written.T @ written
    moved = -gradient @ weights.key @ weights.key.T, -weights.query @ weights.query.T @ gradient
    for direction, side in zip(moved, (found.query, found.key), strict=True):
        expected = float((direction * block).sum() / direction.norm() / block.norm())
        assert side.cosine == pytest.approx(expected)


def test_what_is_refused():
    two = AssignAdd(modulus=7, num_variables=2, min_assignments=2, max_assignments=2, forbidden=())
    with pytest.raises(ConfigError, match="2 variables and 200 shuffles; expected at least 3 variables"):
        associative_memory(unknowing(two), two, batch_of(two), generator())
    with pytest.raises(ConfigError, match="one head a layer"):
        merged_gradient(unknowing(num_heads=2), SMALL, batch_of())
    with pytest.raises(ConfigError, match="0 shuffles"):
        associative_memory(unknowing(), SMALL, batch_of(), generator(), 0)
