"""Effects at one layer on a model whose answer is one direction: what must pass does, what must not does not."""

from __future__ import annotations

import pytest
import torch

from invariscope.batch import Batch, text_inputs
from invariscope.cores.edit_bench import EditBench, SweepSettings
from invariscope.cores.layer_effects import LEAST_GROUPS, coordinates_and_values, measure_layer
from invariscope.cores.sweep_layers import layer_moments
from invariscope.models.downstream import split_prefix
from invariscope.sites import choices, margin
from tiny_language_models import tiny_model


def prompts(num: int, seed: int) -> list[Batch]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(num) % 2
    # The last token says which class it is: 30 or 31.
    rows = [[*torch.randint(1, 30, (4,), generator=generator).tolist(), 30 + int(label)] for label in labels]
    answers = torch.tensor([[[40], [41]]] * num)
    return [Batch(inputs=text_inputs(rows), labels=labels, groups=torch.arange(num), choices=answers)]


@pytest.fixture(scope="module")
def found():
    model = tiny_model("gpt2")
    with torch.no_grad():
        # The two tokens lie apart along what the two answers read.
        apart = model.lm_head.weight[41] - model.lm_head.weight[40]
        model.transformer.wte.weight[31] += 3 * apart
        model.transformer.wte.weight[30] -= 3 * apart
    settings = SweepSettings(
        objective=choices(),
        arbitrary={"a/b": margin(positive=[44], negative=[45])},
        transfers={"again": margin(positive=[41], negative=[40])},
        answers=(40, 41),
        num_random=2,
    )
    extraction = [split_prefix(model, batch) for batch in prompts(48, 0)]
    moments = layer_moments(model, extraction, settings.objective, [2])[2]
    other = layer_moments(model, extraction, settings.arbitrary["a/b"], [2])[2]
    bench = EditBench.of(model, prompts(24, 1), prompts(6, 2), settings)
    cores = {(projection, 1): moments.core(1, projection) for projection in settings.projections}
    generator = torch.Generator().manual_seed(0)
    return bench, cores, measure_layer(bench, 2, moments, cores, {"a/b": other.core(1, "oblique")}, generator)


def score(found, name, edit, projection=""):
    return next(one.auc.value for one in found.effects if (one.name, one.edit, one.projection) == (name, edit, projection))


def test_the_core_carries_its_margin_and_random_directions_do_not(found):
    _, _, layer = found
    assert score(layer, "model", "full") > 0.95
    assert score(layer, "core", "keep", "oblique") > 0.95
    assert score(layer, "core", "flip", "oblique") < 0.1
    assert score(layer, "random", "flip") > 0.9


def test_transfer_to_the_same_margin_is_the_same_number(found):
    _, _, layer = found
    for one in layer.effects:
        if one.name == "core":
            assert one.transfers[0].value == pytest.approx(one.auc.value)


def test_the_arbitrary_core_turns_its_own_margin_and_not_ours(found):
    _, _, layer = found
    assert score(layer, "margin of a/b", "flip") < 0.3
    assert score(layer, "core of a/b", "flip") > 0.7


def test_shares_are_of_the_squared_spectrum_and_r2_is_held_out(found):
    bench, cores, layer = found
    sigma = cores["oblique", 1].singular_values.square()
    assert layer.share[0] == pytest.approx(float(sigma[0] / sigma.sum()))
    assert layer.r2["oblique"].value > 0.9
    assert layer.within["oblique"].value < layer.r2["oblique"].value
    z, values = coordinates_and_values(bench, bench.at(2), cores["oblique", 1])
    assert z.shape == values.shape == (24, 1)
    assert abs(float(torch.corrcoef(torch.stack([z[:, 0], values[:, 0]]))[0, 1])) > 0.9
    assert LEAST_GROUPS <= 24
