"""One table of all measures: every field with its control and its text, equal for equal generators."""

import dataclasses

import pytest

from circuits.hand_built import PAPER, SMALL, circuit, generator, unknowing
from invariscope.circuits import CircuitMeasures, measure_circuits
from invariscope.circuits.measures import TEXTS
from invariscope.errors import ConfigError
from invariscope.storage.records import to_json_record
from invariscope.tasks import AssignAdd

SIZES = {"num_sequences": 100, "num_pairs": 40, "num_shuffles": 50}


def measured(model, task, seed=0, **sizes):
    return measure_circuits(model, task, generator(seed), **{**SIZES, **sizes})


@pytest.mark.parametrize("task", [SMALL, PAPER])
def test_the_circuit_is_perfect(task):
    found = measured(circuit(task), task)
    for name in (
        "attn1_equal_to_operands",
        "attn2_equal_to_values",
        "attn2_equal_among_numbers",
        "number_to_own_variable",
        "number_to_own_weight",
        "qk1_number_to_previous",
        "qk2_ov1_variable_identity",
        "ov2_mlp2_accuracy",
        "ov2_mlp2_heldout",
        "shared_pre_activations",
        "shared_output",
        "patched_attention",
        "patched_pre_activations",
        "frequency_share",
        "frequency_share_by_energy",
        "amplitude_ratio",
        "phase_agreement",
    ):
        assert getattr(found, name).value == pytest.approx(1.0, abs=1e-5), name
    assert found.frequency_num.value == found.frequency_num.chance == 3
    assert found.without_mlp2_accuracy.value < 0.35
    assert found.score_contrast_attn1.value == pytest.approx(40.0, rel=1e-4)
    assert found.query_composition.value > found.query_composition.chance
    assert found.gradient_rebuilt is not None
    assert found.gradient_rebuilt.value > found.gradient_rebuilt.chance


def test_an_unknowing_model_is_not():
    found = measured(unknowing(), SMALL)
    for name in ("attn1_equal_to_operands", "attn2_equal_to_values", "ov2_mlp2_accuracy", "patched_pre_activations"):
        assert getattr(found, name).value < 0.5, name


def test_every_measure_has_a_text_and_a_control():
    assert [field.name for field in dataclasses.fields(CircuitMeasures)] == list(TEXTS)
    rows = measured(circuit(), SMALL).rows()
    assert [row.name for row in rows] == [name for name in TEXTS if "probe" not in name]
    for row in rows:
        assert row.chance is not None, row.name
        assert row.text
        assert row.control


def test_equal_generators_give_equal_tables():
    model = unknowing()
    first, second, other = (to_json_record(measured(model, SMALL, seed)) for seed in (0, 0, 1))
    assert first == second
    assert first != other


def test_probes_are_asked_for():
    task = AssignAdd(modulus=13, num_variables=4, num_pads=2)
    rows = {row.name: row for row in measured(circuit(task), task, probe_sequences=800).rows()}
    assert rows["own_variable_probe_after"].value == 1.0
    assert rows["own_variable_probe_before"].value < 0.4


def test_two_variables_have_no_gradient():
    task = AssignAdd(modulus=7, num_variables=2, min_assignments=1, max_assignments=2, forbidden=())
    found = measured(unknowing(task), task)
    assert found.gradient_cosine is found.gradient_rebuilt is None


def test_a_model_of_another_task_is_refused():
    with pytest.raises(ConfigError, match=r"a model with token_embedding \[14, 16\], position_embedding"):
        measured(unknowing(PAPER), SMALL)
