"""The records of a sweep: lookups, the table, and the rule that chooses a layer."""

from __future__ import annotations

import pytest

from invariscope.cores.layer_sweep import LayerEffect, LayerFindings, LayerSweep, choose_layer
from invariscope.errors import ConfigError, UnknownNameError
from invariscope.estimate import Estimate
from invariscope.storage.records import from_json_record, to_json_record


def near(value: float) -> Estimate:
    return Estimate(value=value, low=value - 0.01, high=value + 0.01, num=8)


def effect(layer: int, name: str, edit: str, value: float, projection: str = "", **known) -> LayerEffect:
    return LayerEffect(
        layer=layer,
        name=name,
        projection=projection,
        rank=1,
        edit=edit,
        accuracy=near(value),
        margin=near(3 * value),
        auc=near(value),
        **known,
    )


def sweep() -> LayerSweep:
    layers = tuple(
        LayerFindings(
            layer=layer,
            site=f"blocks.{layer}.resid_post",
            share=(share,),
            r2={"oblique": near(0.9)},
            within={},
            effects=(
                effect(layer, "model", "full", 0.99, transfers=(near(0.98),)),
                effect(layer, "core", "flip", 0.02, "oblique", transfers=(near(0.04),), elsewhere=near(0.2)),
                effect(layer, "core", "flip", 0.03, "adjoint"),
                effect(layer, "random", "flip", 0.99),
            ),
        )
        for layer, share in ((26, 0.9), (27, 0.97))
    )
    return LayerSweep(
        model="tiny",
        behaviour="agreement",
        objective="choices[logsumexp]",
        positions="last",
        num_extraction=16,
        num_heldout=8,
        projections=("oblique", "adjoint"),
        ranks=(1,),
        transfers=("were/was",),
        layers=layers,
        chosen=27,
        rule="a rule",
    )


def test_effects_are_found_by_layer_edit_name_and_projection():
    found = sweep()
    assert found.effect(27, "flip").auc.value == 0.02
    assert found.effect(27, "flip", projection="adjoint").auc.value == 0.03
    assert found.effect(26, "flip", name="random").score.value == 0.99
    assert found.effect(26, "full", name="model").transfers[0].value == 0.98


def test_what_was_not_measured_is_named():
    with pytest.raises(ConfigError, match=r"layer 3; expected one of \[26, 27\]"):
        sweep().at(3)
    with pytest.raises(UnknownNameError, match="core/oblique/1/flop"):
        sweep().effect(27, "flop")


def test_without_classes_the_score_is_the_accuracy():
    bare = effect(1, "core", "keep", 0.7)
    plain = LayerEffect(layer=1, name="core", projection="", rank=1, edit="keep", accuracy=near(0.8), margin=near(1.0), auc=None)
    assert (bare.score.value, plain.score.value) == (0.7, 0.8)


def test_the_table_has_a_line_an_effect_and_a_column_a_transfer():
    lines = sweep().table().splitlines()
    assert len(lines) == 2 + 8
    assert lines[0].endswith("a rule: layer 27")
    assert "AUC were/was" in lines[1]
    core = next(line for line in lines if line.startswith("27") and "oblique" in line)
    assert "0.02 [0.01, 0.03]" in core
    assert core.rstrip().endswith("-")
    assert "<table>" in sweep()._repr_html_()


def test_records_come_back_from_json():
    assert from_json_record(LayerSweep, to_json_record(sweep())) == sweep()


@pytest.mark.parametrize(
    ("shares", "chosen"),
    [
        ([(0, 0.1), (1, 0.96), (2, 0.99)], 1),
        ([(2, 0.99), (0, 0.1), (1, 0.96)], 1),
        ([(0, 0.99), (1, 0.1), (2, 0.99)], 2),
        ([(0, 0.99), (1, 0.97)], 0),
        ([(0, 0.99), (1, 0.1)], None),
        ([], None),
    ],
)
def test_the_rule_takes_the_first_layer_of_the_last_run(shares, chosen):
    assert choose_layer(shares)[0] == chosen
    assert "0.95" in choose_layer(shares)[1]
