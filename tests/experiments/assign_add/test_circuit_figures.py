"""What is drawn of circuits: final measures beside untrained ones, curves over checkpoints, the first seed's insides."""

import dataclasses

from experiments.assign_add.tiny_study import TASK, ideal
from invariscope.experiments.assign_add.circuit_figures import SHARES, SITES, circuit_figures
from invariscope.experiments.assign_add.findings import CircuitAtStep


def drawn(findings):
    return {figure.name: figure for figure in circuit_figures(findings)}


def at(step, value):
    names = [field.name for field in dataclasses.fields(CircuitAtStep) if field.name != "step"]
    return CircuitAtStep(step=step, **dict.fromkeys(names, value))


def test_final_measures_stand_beside_those_of_untrained_models():
    rows = {row[:2]: row[2:4] for row in drawn([ideal(0), ideal(1)])["circuits"].rows}
    assert len(rows) == 2 * len(SHARES)
    assert rows["trained", SHARES["ov2_mlp2_accuracy"]] == ("core", 0.999)
    assert rows["untrained", SHARES["ov2_mlp2_accuracy"]] == ("control", 0.02)


def test_a_measure_that_a_model_does_not_have_is_left_out():
    good = ideal(0)
    dead = dataclasses.replace(good.measures, frequency_share=None)
    rows = drawn([dataclasses.replace(good, measures=dead)])["circuits"].rows
    assert ("trained", SHARES["frequency_share"]) not in {row[:2] for row in rows}


def test_circuits_are_followed_seed_by_seed_with_the_accuracy_that_needs_them():
    circuits = (at(4, 0.2), at(32, 0.9))
    figures = drawn([ideal(0, circuits=circuits), ideal(1, circuits=circuits)])
    rows = figures["circuits_over_training"].rows
    assert {row[0] for row in rows} == {"seed 0", "seed 1"}
    assert ("seed 1", SHARES["number_to_own_variable"], 32, 0.9, None, None) in rows
    assert ("seed 0", "accuracy on held-out sums with one variable", 32, 1.0, None, None) in rows
    assert "circuits_over_training" not in drawn([ideal(0)])


def test_the_insides_are_the_first_seed_s(tiny):
    findings = tiny[1]
    pictures = findings[0].pictures
    figures = drawn(findings)
    moments = [f"step {one.step}" for one in pictures.attention]
    assert [frame.label for frame in figures["attention"].frames] == moments
    first, last = figures["attention"].plot["data"]
    assert first["z"][0][1] is None
    assert [row[1] for row in last["z"]] == list(pictures.attention[-1].last)
    assert figures["identity"].plot["data"][0]["z"] == [list(row) for row in pictures.identity]
    assert {row[0] for row in figures["cosines"].rows} == set(SITES.values())
    size = len(figures["neurons"].plot["data"][0]["z"])
    assert size == TASK.modulus
    assert len(figures["score_terms"].frames) == len(pictures.terms)
