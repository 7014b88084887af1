"""How a claim's number comes from several seeds: the worst one, with its own interval, and controls with their range."""

from __future__ import annotations

import dataclasses

import pytest

from experiments.markov_cores import ideal
from invariscope.estimate import Estimate
from invariscope.experiments.markov_cores import PRESETS
from invariscope.experiments.markov_cores import measured as m
from invariscope.experiments.markov_cores.claims import ACTIVATION_KEEP, GAP_RULE, THIRD_CCA, TRANSPLANT_CONTROL, TRANSPLANT_PAIR

GOOD = ideal.findings(PRESETS["quick"])


def test_keep_is_an_absolute_change_whose_interval_may_reach_zero():
    site = GOOD.models[0].resid_mid
    wide = Estimate(value=-0.0009, low=-0.002, high=0.0001, num=9)
    changed = dataclasses.replace(site, keep_change={**site.keep_change, "adjoint": wide})
    models = (dataclasses.replace(GOOD.models[0], resid_mid=changed), *GOOD.models[1:])
    found = m.measure_keep(dataclasses.replace(GOOD, models=models), activation_mark=ACTIVATION_KEEP)
    assert (found.value, found.low, found.high) == (0.0009, 0.0, 0.002)
    assert found.num == 5
    assert list(found.seeds) == [0, 1, 2]


def test_controls_of_keep_are_differences_to_the_unedited_model():
    controls = {control.name: control for control in m.measure_keep(GOOD, activation_mark=ACTIVATION_KEEP).controls}
    assert controls["random, equal rank"].value == pytest.approx(1.33 - 0.92)
    assert controls["PCA, equal rank"].value == pytest.approx(0.01)
    assert controls["activation side"].mark == ACTIVATION_KEEP


def test_removal_of_controls_is_in_shares_of_the_way():
    controls = {control.name: control.value for control in m.measure_remove(GOOD).controls}
    assert controls["random, equal rank"] == pytest.approx(0.001 / 0.43)
    assert controls["gradients, equal rank"] == pytest.approx(1.0)


def test_one_pair_has_no_range():
    controls = m.measure_rank_two(GOOD, gap_rule=GAP_RULE, third_cca=THIRD_CCA).controls
    third = next(control for control in controls if control.name.startswith("third"))
    assert (third.value, third.low, third.high) == (0.03, None, None)


def test_transplant_controls_are_above_base():
    found = m.measure_transplant(GOOD.transplants, control_mark=TRANSPLANT_CONTROL, pair_mark=TRANSPLANT_PAIR)
    controls = {control.name: control.value for control in found.controls}
    assert controls["from an untrained model"] == pytest.approx(2.4 - 2.023)
    assert controls["own coordinates (ceiling)"] == pytest.approx(0.0005)


def test_the_smaller_null_is_the_harder_one():
    models = []
    for model in GOOD.models:
        spectrum = model.spectrum
        if spectrum is not None:
            controls = tuple(
                dataclasses.replace(control, errors=(0.05,)) if control.name == "untrained" else control
                for control in spectrum.controls
            )
            spectrum = dataclasses.replace(spectrum, controls=controls)
        models.append(dataclasses.replace(model, spectrum=spectrum))
    found = m.measure_spectrum_ratio(dataclasses.replace(GOOD, models=tuple(models)))
    assert found.value == pytest.approx(0.006 / 0.05)
    assert found.low == pytest.approx(0.003 / 0.05)


def test_overlap_brings_the_null_s_own_mark():
    found = m.measure_overlap(GOOD)
    assert found.mark is not None
    assert found.mark.passes(0.0151)
    assert not found.mark.passes(0.0149)
    assert not found.mark.passes(0.0971)
