"""Causal effects: against a forward written by hand, paired differences, controls of equal rank, one table."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from cores.hand_made import Through, TwoDirections, generator, random_core
from invariscope.batch import Batch
from invariscope.cores import Core, Effects, Provenance, accuracy, auc, collect_moments, cross_entropy, validate_core
from invariscope.errors import ConfigError, PositionError, UnknownNameError
from invariscope.models import fingerprint
from invariscope.sites import margin

SITE = "module:site"


def two_directions(rank: int = 2, **more: Any) -> tuple[TwoDirections, Core, Effects]:
    model = TwoDirections()
    moments = collect_moments(model, model.batches(), sites=[SITE], positions="all")[SITE]
    core = moments.core(rank)
    controls = moments.controls(rank, generator=generator(), num_random=3)
    return model, core, validate_core(core, model, model.batches(), **({"controls": controls} | more))


def test_values_are_those_of_a_forward_written_by_hand():
    model, core, effects = two_directions()
    tokens = torch.cat([batch.inputs["tokens"] for batch in model.batches()])
    with torch.no_grad():
        h = (model.tokens[tokens] + model.positions).flatten(0, 1)
        law = (h @ model.readout).softmax(-1)
        edited = {"keep": core.keep(h), "remove": core.remove(h), "flip": core.flip(h)}
        for edit, activations in edited.items():
            log_q = (activations @ model.readout).log_softmax(-1)
            exact = float(-(law * log_q).sum(-1).mean())
            assert effects["core", edit, "cross_entropy"].value == pytest.approx(exact, abs=1e-10)
        entropy = float(torch.special.entr(law).sum(-1).mean())
    assert effects["model", "full", "cross_entropy"].value == pytest.approx(entropy)
    assert effects["core", "keep", "cross_entropy"].value == pytest.approx(entropy)
    for name, edit in (("core", "remove"), ("model", "mean")):
        assert effects[name, edit, "cross_entropy"].value == pytest.approx(math.log(4))
    assert effects["core", "flip", "cross_entropy"].value > math.log(4) + 1
    assert effects["core", "flip", "accuracy"].value < 0.05 < effects["core", "keep", "accuracy"].value
    assert effects["core", "keep", "cross_entropy"].chance == pytest.approx(math.log(4))
    assert effects["core", "keep", "accuracy"].chance == pytest.approx(0.25)


def test_controls_stand_beside_the_core_and_do_less():
    _, _, effects = two_directions()
    assert {row.name for row in effects.rows} == {"model", "core", "random", "pca", "gradient"}
    assert effects.rank == 2
    random = effects["random", "keep", "cross_entropy"]
    assert random.method == "range over 3 draws"
    assert random.low is not None
    assert random.high is not None
    assert random.low < random.value < random.high
    for name in ("random", "pca"):
        assert effects[name, "keep", "cross_entropy"].value > effects["core", "keep", "cross_entropy"].value + 0.1
    # The gradient alone finds this plane, because the readout is linear.
    assert effects["gradient", "keep", "cross_entropy"].value == pytest.approx(effects["core", "keep", "cross_entropy"].value)


def test_one_draw_has_a_bootstrap_interval_of_its_own():
    _, _, effects = two_directions()
    assert effects["pca", "keep", "cross_entropy"].method == "bootstrap over 16 groups"


def test_controls_of_another_rank_are_refused():
    model, core, _ = two_directions()
    with pytest.raises(ConfigError) as caught:
        validate_core(core, model, model.batches(), controls={"random": [random_core(10, 3)]})
    assert caught.value.given == "a control 'random' of rank 3 beside a core of rank 2"
    assert caught.value.expected == "controls of equal rank"
    assert "moments.controls(rank=core.rank" in caught.value.do


def test_a_core_of_other_weights_or_of_another_site_is_refused_unless_forced():
    model, core, _ = two_directions()
    other = TwoDirections()
    with torch.no_grad():
        other.readout.mul_(1.5)
    with pytest.raises(ConfigError) as caught:
        validate_core(core, other, model.batches())
    assert caught.value.given == f"a core of the weights {fingerprint(model)} and a model with the weights {fingerprint(other)}"
    assert "pass force=True" in caught.value.do
    with pytest.raises(ConfigError, match=r"a core of 'module:site' edited in at 'module:'; expected the site that the core"):
        validate_core(core, model, model.batches(), site="module:")
    forced = validate_core(core, other, model.batches(), force=True)
    assert forced["core", "keep", "cross_entropy"].value != forced["core", "remove", "cross_entropy"].value
    # What says nothing of where it came from is the caller's own.
    unnamed = dataclasses.replace(core, provenance=Provenance(site=SITE, positions="all", outputs_at="all"))
    assert (
        validate_core(unnamed, other, model.batches())["core", "keep", "cross_entropy"] == forced["core", "keep", "cross_entropy"]
    )


def test_changes_are_paired_and_have_the_right_sign():
    # Entropies of the rows differ much, and keeping costs each of them the same little.
    source = generator()
    states = torch.randn(200, 1, 2, dtype=torch.float64, generator=source) * torch.tensor([4.0, 0.5])
    model = Through(torch.tensor([[1.0, -1.0], [1.0, -1.0]], dtype=torch.float64))
    targets = (torch.rand(200, 1, generator=source) < model(states)[..., 0].sigmoid()).long()
    batches = [Batch(inputs={"states": states}, targets=1 - targets)]
    axis = torch.eye(2, 1, dtype=torch.float64)
    core = Core(read=axis, write=axis, mean=torch.zeros(2).double(), singular_values=torch.ones(1))
    effects = validate_core(core, model, batches, site=SITE, positions="all", outputs_at="all")
    change = effects.change("keep", "cross_entropy")
    full, keep = effects["model", "full", "cross_entropy"], effects["core", "keep", "cross_entropy"]
    assert change.value == pytest.approx(keep.value - full.value, abs=1e-12)
    assert effects.change("remove", "cross_entropy").value > 0 > effects.change("remove", "accuracy").value

    def width(estimate: Any) -> float:
        return estimate.high - estimate.low

    assert width(change) < 0.7 * math.hypot(width(full), width(keep))
    assert change.unit == "nats"
    assert effects.change("keep", "cross_entropy") == change
    assert effects.change("keep", "cross_entropy", generator=generator(5)) != change


def test_the_table_prints_every_effect_and_chance():
    _, _, effects = two_directions()
    table = effects.table()
    lines = table.splitlines()
    assert lines[0] == "rank 2"
    assert lines[1].split() == ["edit", "cross_entropy", "accuracy"]
    assert [line.split()[:2] for line in lines[2:7]] == [
        ["model", "full"],
        ["model", "mean"],
        ["core", "keep"],
        ["core", "remove"],
        ["core", "flip"],
    ]
    assert len(lines) == 2 + 2 + 3 * 4
    assert lines[4].count("(chance 1.386)") == lines[4].count("(chance 0.25)") == 1
    assert str(effects["pca", "flip", "accuracy"]) in table


def test_unknown_keys_list_the_nearest():
    model, core, effects = two_directions()
    with pytest.raises(UnknownNameError, match=r"unknown effect 'core/keeps/accuracy'; .*nearest: core/keep/accuracy"):
        effects["core", "keeps", "accuracy"]
    with pytest.raises(UnknownNameError, match=r"unknown effect 'core/keep/accurate'; .*nearest: core/keep/accuracy"):
        effects.change("keep", "accurate")
    with pytest.raises(UnknownNameError, match=r"unknown edit 'kep'; .*nearest: keep"):
        validate_core(core, model, model.batches(), edits=("kep",))


def test_only_what_was_asked_for_is_measured():
    _, _, effects = two_directions(edits=("flip",), metrics=(accuracy(exact=False),), controls=None)
    assert [(row.name, row.edit, row.metric) for row in effects.rows] == [
        ("model", "full", "accuracy"),
        ("model", "mean", "accuracy"),
        ("core", "flip", "accuracy"),
    ]


def test_a_core_that_knows_no_site_needs_one():
    model, core = TwoDirections(), random_core(10, 2)
    with pytest.raises(ConfigError, match=r"a core that does not know its site; expected a site; pass site= and positions="):
        validate_core(core, model, model.batches())
    effects = validate_core(core, model, model.batches(), site=SITE, positions="last", outputs_at="last")
    assert effects["core", "keep", "accuracy"].num == 16


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (slice(2, 9), r"positions '2:9:' on a batch of shape \[10, 2\], which select no token; expected at least one token"),
        (torch.zeros(10, 2, dtype=torch.bool), r"positions 'mask\[10, 2\]' .* which select no token"),
        (2, r"position 2 in row 0, which has 2 real tokens; expected a token that every row has"),
        ("marked", r"positions 'marked' on a batch that marks no token"),
    ],
)
def test_edits_that_touch_no_position_are_refused_and_not_measured(positions: Any, message: str):
    model, core = TwoDirections(), random_core(10, 2)
    for edits in (("keep",), ()):
        with pytest.raises(PositionError, match=message):
            validate_core(core, model, model.batches(), edits=edits, site=SITE, positions=positions, outputs_at="last")


def test_the_positions_that_a_core_was_made_at_are_checked_on_other_batches_too():
    model = TwoDirections()
    core = random_core(10, 2, site=SITE, positions="2:9:", outputs_at="last")
    with pytest.raises(PositionError, match="which select no token"):
        validate_core(core, model, model.batches())


def test_a_pooled_metric_is_in_the_table_and_has_no_change():
    states = torch.randn(60, 1, 2, dtype=torch.float64, generator=generator())
    labels = (states[:, 0, 0] > 0).long()
    batch = Batch(inputs={"states": states}, labels=labels, targets=labels[:, None])
    axis = torch.eye(2, 1, dtype=torch.float64)
    core = Core(read=axis, write=axis, mean=torch.zeros(2).double(), singular_values=torch.ones(1))
    model = Through(torch.tensor([[-1.0, 1.0], [0.0, 0.0]], dtype=torch.float64))
    metrics = (auc(margin(positive=[1], negative=[0])), cross_entropy())
    effects = validate_core(core, model, [batch], metrics=metrics, site=SITE, positions="all", outputs_at="all")
    areas = [effects[name, edit, "auc"].value for name, edit in (("model", "full"), ("core", "remove"), ("core", "flip"))]
    assert areas == [1.0, 0.5, 0.0]
    with pytest.raises(UnknownNameError, match=r"unknown effect 'core/flip/auc'"):
        effects.change("flip", "auc")


def test_intervals_follow_the_generator():
    model, core = TwoDirections(), random_core(10, 2, site=SITE, positions="all", outputs_at="all")

    def interval(seed: int | None) -> tuple[float | None, float | None]:
        chosen = None if seed is None else generator(seed)
        found = validate_core(core, model, model.batches(), edits=("keep",), generator=chosen)["core", "keep", "accuracy"]
        return found.low, found.high

    assert interval(None) == interval(0) != interval(7)


def test_half_precision_models_are_measured(trained: Any):
    import copy

    model = copy.deepcopy(trained.model).to(torch.bfloat16)
    batches = trained.task.batches(32, batch_size=32, seed=1, pool="heldout")
    core = random_core(16, 2, site="blocks.0.resid_mid", positions="all", outputs_at="all")
    full = validate_core(core, model, batches, edits=("keep",))["model", "full", "cross_entropy"].value
    exact: Tensor = validate_core(core, trained.model, batches, edits=("keep",)).values["model", "full", "cross_entropy"]
    assert full == pytest.approx(float(exact.mean()), abs=0.02)
