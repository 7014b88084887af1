"""A sweep over layers against the same things done by hand with the plain model."""

from __future__ import annotations

import dataclasses

import pytest

from invariscope.cores.behaviour import behaviour_data, sweep_behaviour, sweep_layers
from invariscope.cores.choice_metrics import choice_margin
from invariscope.cores.extract import collect_moments
from invariscope.cores.measure import measure_edits
from invariscope.cores.sweep_layers import layer_moments
from invariscope.errors import ConfigError, PositionError
from invariscope.models import fingerprint
from invariscope.models.downstream import split_prefix
from invariscope.numerics.subspaces import principal_angles
from invariscope.tasks import Pair, PairSet
from tiny_language_models import TinyLanguageModel

WORDS = ("key", "lamp", "door", "coin", "boat", "book", "chair", "table", "plate", "rope", "ring", "card")


def pairs() -> PairSet:
    found = []
    for word in WORDS:
        found.append(Pair(prompt=f"The {word}", answers="x", foils="y", group=word, transfer_answers="p", transfer_foils="q"))
        found.append(
            Pair(prompt=f"The old {word}s", answers="y", foils="x", group=word, transfer_answers="q", transfer_foils="p")
        )
    return PairSet(found, name="letters", add_space=False)


@pytest.fixture(scope="module")
def lm() -> TinyLanguageModel:
    return TinyLanguageModel()


@pytest.fixture(scope="module")
def swept(lm):
    data = behaviour_data(lm, pairs(), batch_size=5, layers=[0, 2], num_random=2, ranks=(1,), num_arbitrary=1)
    return data, *sweep_behaviour(lm, data, progress=False)


def test_moments_are_those_of_the_whole_model(lm, swept):
    data, _, _ = swept
    whole = collect_moments(
        lm.model, data.extraction, sites=["blocks.1.resid_post"], objective=data.settings.objective, positions="last"
    )["blocks.1.resid_post"]
    prefixed = [split_prefix(lm.model, batch) for batch in data.extraction]
    found = layer_moments(lm.model, prefixed, data.settings.objective, [1])[1]
    assert found.num_samples == whole.num_samples
    assert found.mean == pytest.approx(whole.mean, abs=1e-5)
    assert found.singular_values[:3] == pytest.approx(whole.singular_values[:3], rel=1e-4)
    assert found.provenance == whole.provenance
    assert found.provenance.model == fingerprint(lm.model)


def test_edits_from_states_are_edits_of_the_whole_model(lm, swept):
    data, sweep, cores = swept
    core = cores[0, "oblique", 1]
    metric = choice_margin(data.settings.objective)
    edits = {"keep": core.keep, "remove": core.remove, "flip": core.flip, "full": None}
    values, _ = measure_edits(
        lm.model, data.heldout, edits, [metric], site="blocks.0.resid_post", positions="last", outputs_at="last"
    )
    for edit in ("keep", "remove", "flip"):
        assert sweep.effect(0, edit).margin.value == pytest.approx(float(values[edit, "margin"].mean()), abs=1e-4)
    full = next(one for one in sweep.at(0).effects if (one.name, one.edit) == ("model", "full"))
    assert full.margin.value == pytest.approx(float(values["full", "margin"].mean()), abs=1e-4)


@pytest.mark.parametrize("positions", [slice(1, None), "all"])
def test_edits_before_the_last_token_are_too(lm, positions):
    data = behaviour_data(lm, pairs(), layers=[1], projections=("adjoint",), num_random=1, num_arbitrary=0, positions=positions)
    sweep, cores = sweep_behaviour(lm, data, progress=False)
    core = cores[1, "adjoint", 1]
    metric = choice_margin(data.settings.objective)
    values, _ = measure_edits(
        lm.model, data.heldout, {"flip": core.flip}, [metric], site="blocks.1.resid_post", positions=positions, outputs_at="last"
    )
    found = sweep.effect(1, "flip", projection="adjoint")
    assert found.margin.value == pytest.approx(float(values["flip", "margin"].mean()), abs=1e-4)
    assert sweep.positions == ("all" if positions == "all" else "1::")


def test_every_row_that_should_stand_beside_a_core_does(swept):
    _, sweep, _ = swept
    names = {one.name for one in sweep.at(2).effects}
    assert names == {
        "model",
        "core",
        "random",
        "pca",
        "gradient",
        "mean_difference",
        "leace",
        "core of the/of",
        "margin of the/of",
    }
    assert sweep.transfers == ("second answers",)
    core = sweep.effect(2, "flip")
    assert len(core.transfers) == 1
    assert core.elsewhere.value > 0
    assert core.unrelated.value > 0
    assert sweep.effect(2, "flip", name="random").elsewhere is None
    assert core.score is core.auc
    assert {one.projection for one in sweep.at(2).effects if one.name == "core"} == {"oblique", "adjoint", "activation"}


def test_flip_is_twice_remove_at_the_last_layer_where_everything_is_linear_but_the_norm(swept):
    _, sweep, _ = swept
    keep, remove, flip = (sweep.effect(2, edit).margin.value for edit in ("keep", "remove", "flip"))
    assert keep > remove > flip


def test_the_same_generator_gives_the_same_sweep(lm, swept):
    data, sweep, _ = swept
    assert sweep_behaviour(lm, data, progress=False)[0] == sweep


def test_the_model_is_left_as_it_was(lm, swept):
    assert all(not module._forward_hooks and not module._forward_pre_hooks for module in lm.model.modules())
    assert all(parameter.requires_grad for parameter in lm.model.parameters())
    assert not lm.model.training


def test_layers_that_are_not_there_are_refused(lm):
    with pytest.raises(ConfigError, match=r"layers \[3\] of a model of 3 layers; expected some of 0 to 2"):
        sweep_layers(lm, pairs(), layers=[3], progress=False)


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (slice(1, None), r"positions '1::' on a batch of shape \[5, 1\], which select no token; expected at least one token"),
        (3, r"position 3 in row 0, which has 1 real tokens; expected a token that every row has"),
    ],
)
def test_edits_that_touch_no_token_are_refused_and_not_reported_as_doing_nothing(lm, positions, message):
    letters = [Pair(prompt=letter, answers="xy"[i % 2], foils="yx"[i % 2]) for i, letter in enumerate("abcdefghijklmnopqr")]
    with pytest.raises(PositionError, match=message):
        sweep_layers(lm, PairSet(letters, add_space=False), layers=[1], positions=positions, batch_size=5, progress=False)


def test_one_call_gives_the_table(lm):
    sweep = sweep_layers(lm, pairs(), layers=[2], projections=("oblique",), num_random=1, num_arbitrary=0, progress=False)
    text = sweep.table()
    assert text.splitlines()[0].startswith("letters in tiny-llama: choices[logsumexp], edits at last, 16 prompts to extract from")
    assert "AUC second answers" in text.splitlines()[1]


def marked_pairs() -> PairSet:
    return PairSet(
        [dataclasses.replace(pair, position=1 + number % 2) for number, pair in enumerate(pairs().pairs)],
        name="letters",
        add_space=False,
    )


def test_a_marked_token_is_read_edited_and_leaves_the_last_layer_out(lm):
    data = behaviour_data(lm, marked_pairs(), projections=("oblique",), num_random=1, num_arbitrary=1, positions="marked")
    sweep, cores = sweep_behaviour(lm, data, progress=False)
    assert [found.layer for found in sweep.layers] == [0, 1]
    core = cores[1, "oblique", 1]
    by_hand = collect_moments(
        lm.model,
        data.extraction,
        sites=["blocks.1.resid_post"],
        objective=data.settings.objective,
        positions="marked",
        outputs_at="last",
    )["blocks.1.resid_post"].core(1, "oblique")
    assert float(principal_angles(core.write, by_hand.write).max()) < 1e-4
    metric = choice_margin(data.settings.objective)
    values, _ = measure_edits(
        lm.model, data.heldout, {"flip": core.flip}, [metric], site="blocks.1.resid_post", positions="marked", outputs_at="last"
    )
    assert sweep.effect(1, "flip").margin.value == pytest.approx(float(values["flip", "margin"].mean()), abs=1e-4)
    # Another token than the last: the same edit there does something else.
    values, _ = measure_edits(
        lm.model, data.heldout, {"flip": core.flip}, [metric], site="blocks.1.resid_post", positions="last", outputs_at="last"
    )
    assert sweep.effect(1, "flip").margin.value != pytest.approx(float(values["flip", "margin"].mean()), abs=1e-3)
    with pytest.raises(ConfigError, match="expected some of 0 to 1, above which the last token reads the marked one"):
        sweep_layers(lm, marked_pairs(), layers=[2], positions="marked")
