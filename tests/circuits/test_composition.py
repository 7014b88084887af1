"""Weights alone: the circuit's matrices do their part, and unrelated ones compose by what theory says."""

import math

import pytest
import torch

from circuits.hand_built import PAPER, SMALL, circuit, generator, unknowing
from invariscope.circuits import (
    composition_scores,
    ov2_mlp2_accuracy,
    qk1_number_to_previous,
    variable_identity,
    without_mlp2_accuracy,
)
from invariscope.errors import ConfigError
from invariscope.models import query_key, value_output
from invariscope.tasks import AssignAdd


@pytest.mark.parametrize("task", [SMALL, PAPER])
def test_the_circuit_adds_by_weights_alone(task):
    found = ov2_mlp2_accuracy(circuit(task), task)
    assert (found.every.value, found.seen.value, found.heldout.value) == (1.0, 1.0, 1.0)
    assert (found.every.num, found.heldout.num) == (49, int((~task.seen).sum()))
    assert found.every.chance == pytest.approx(1 / 7)
    assert found.heldout.chance > 1 / 7
    without = ov2_mlp2_accuracy(circuit(task), task, mlp=False)
    # Nothing is written into the answer: all logits are equal, and the first answer wins.
    assert without.every.value == pytest.approx(1 / 7)


def test_the_path_through_the_weights_is_the_formula():
    model = unknowing()
    found = ov2_mlp2_accuracy(model, SMALL)
    with torch.no_grad():
        moved = model.token_embedding[:7].double() @ value_output(model, 1)
        right = 0
        for a in range(7):
            for b in range(7):
                x = moved[a] + moved[b]
                hidden = torch.relu(x @ model.blocks[1].mlp_input.weight.double().T)
                x = x + hidden @ model.blocks[1].mlp_output.weight.double().T
                right += int((x @ model.unembedding.weight.double().T).argmax()) == (a + b) % 7
    assert found.every.value == pytest.approx(right / 49)


def test_three_operands_are_added_too():
    task = AssignAdd(modulus=5, num_variables=4, num_operands=3, mixture=(1, 1, 1, 1))
    found = ov2_mlp2_accuracy(unknowing(task), task)
    assert found.every.num == 125
    assert found.seen.num == int(task.seen.sum())
    assert found.every.chance == pytest.approx(1 / 5)


def test_the_whole_model_without_its_mlp_is_at_chance():
    batches = [SMALL.sample(400, generator=generator())]
    found = without_mlp2_accuracy(circuit(), SMALL, batches, generator=generator())
    assert found.value == pytest.approx(1 / 7, abs=0.06)
    assert found.chance == pytest.approx(1 / 7, abs=0.06)
    with pytest.raises(ConfigError, match="no MLP"):
        without_mlp2_accuracy(unknowing(mlp_width=(0, 0)), SMALL, batches, generator=generator())


@pytest.mark.parametrize("task", [SMALL, PAPER])
def test_positions_of_the_circuit_prefer_their_own_variable(task):
    found = qk1_number_to_previous(circuit(task), task)
    assert found.value == 1.0
    assert found.num == task.prefix_length - task.assignment_length + 1


def test_masks_are_the_papers_and_follow_the_layout():
    # With all scores equal the first place that is not masked wins: right only where no other is left.
    flat = {}
    for task in (SMALL, PAPER):
        model = unknowing(task)
        with torch.no_grad():
            model.position_embedding.zero_()
        flat[task.layout] = qk1_number_to_previous(model, task)
    # Paper, 7 places in the prefix, queries 1 ... 6: all before but t - 2; only t = 1 and 2 have a single place left.
    assert flat["paper"].value == pytest.approx(2 / 6)
    assert flat["paper"].chance == pytest.approx((1 + 1 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5) / 6)
    # Presentation, 14 places, queries 2 ... 12: t - 2, and t - 6 and before; t = 2 ... 5 have a single place left.
    assert flat["presentation"].value == pytest.approx(4 / 11)
    assert flat["presentation"].chance == pytest.approx((4 + sum(1 / n for n in range(2, 9))) / 11)


def test_positions_are_needed():
    with pytest.raises(ConfigError, match="positions 'none'; expected learned position embeddings"):
        qk1_number_to_previous(unknowing(positions="none"), SMALL)


def test_the_identity_block_of_the_circuit_is_diagonal():
    found = variable_identity(circuit(), SMALL)
    assert found.argmax_on_diagonal.value == 1.0
    assert found.argmax_on_diagonal.chance == 1 / 4
    assert found.mean_off_diagonal == 0.0
    assert torch.allclose(found.scores, found.mean_diagonal * torch.eye(4, dtype=torch.float64))
    # As the model scales it: 2 x 40 nats for a whole variable, of which '=' holds one half.
    assert found.mean_diagonal / found.scale == pytest.approx(80.0)


def test_the_identity_block_is_the_formula():
    model = unknowing()
    written = model.token_embedding.detach()[SMALL.variable_tokens].double() @ value_output(model, 0)
    expected = written @ query_key(model, 1) @ written.T
    found = variable_identity(model, SMALL)
    assert torch.allclose(found.scores, expected)
    off = expected[~torch.eye(4, dtype=torch.bool)]
    assert found.mean_off_diagonal == pytest.approx(float(off.mean()))


def test_untrained_matrices_compose_as_the_null_does():
    found = composition_scores(unknowing(width=64), generator=generator())
    for score in (found.query, found.key, found.value):
        assert score.null_mean == pytest.approx(1 / math.sqrt(64), rel=0.05)
        assert score.value == pytest.approx(score.null_mean, rel=0.15)


def test_composition_of_one_direction_is_all_or_nothing():
    model = unknowing(width=8, num_heads=1)
    with torch.no_grad():
        for block in model.blocks:
            block.attention.query_key_value.weight.zero_()
            block.attention.output.weight.zero_()
        one, two = model.blocks[0].attention, model.blocks[1].attention
        # OV1 moves direction 0 to direction 1; queries of layer 2 read direction 1, keys read direction 2, values direction 3.
        one.query_key_value.weight[16, 0], one.output.weight[1, 0] = 1.0, 1.0
        two.query_key_value.weight[0, 1], two.query_key_value.weight[8, 2] = 1.0, 1.0
        two.query_key_value.weight[16, 3], two.output.weight[4, 0] = 1.0, 1.0
    found = composition_scores(model, generator=generator())
    assert (found.query.value, found.key.value, found.value.value) == (1.0, 0.0, 0.0)
    assert found.query.null_high < 0.9
    assert found.query.null_mean == pytest.approx(1 / math.sqrt(8), abs=0.12)


def test_weights_of_zero_compose_with_nothing():
    model = unknowing()
    with torch.no_grad():
        model.blocks[0].attention.output.weight.zero_()
    assert composition_scores(model, generator=generator(), num_draws=2).query.value == 0.0


def test_what_is_refused():
    with pytest.raises(ConfigError, match="two layers, at least one draw"):
        composition_scores(unknowing(), generator=generator(), num_draws=0)
    with pytest.raises(ConfigError, match="norm 'pre'"):
        ov2_mlp2_accuracy(unknowing(norm="pre"), SMALL)
    with pytest.raises(ConfigError, match="give head="):
        composition_scores(unknowing(num_heads=2), generator=generator())
