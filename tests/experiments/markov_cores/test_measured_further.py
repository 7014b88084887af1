"""Beliefs and sizes: the worst chain, seed or size is the number."""

from __future__ import annotations

import dataclasses

import pytest

from experiments.markov_cores import ideal
from invariscope.experiments.markov_cores import PRESETS
from invariscope.experiments.markov_cores.claims import BELIEF_CONTROL, BELIEF_FINAL_NORM
from invariscope.experiments.markov_cores.measured_further import measure_belief, measure_belief_written, measure_size

GOOD = ideal.findings(PRESETS["quick"])


def test_the_least_readable_belief_is_the_number():
    worse = dataclasses.replace(ideal.belief("b", 1), resid_mid=ideal.near(0.91, 0.02))
    found = measure_belief(dataclasses.replace(GOOD, beliefs=(ideal.belief("a"), worse)), final_norm_mark=BELIEF_FINAL_NORM)
    assert (found.value, found.low, found.high, found.num) == (0.91, 0.89, pytest.approx(0.93), 2)
    assert found.seeds == [0, 1]
    controls = {control.name: control for control in found.controls}
    assert controls["before the unembedding"].mark == BELIEF_FINAL_NORM
    assert controls["full residual of the untrained model, no evidence"].value == 0.8


def test_written_controls_are_above_the_model_s_own_coordinates():
    found = measure_belief_written(dataclasses.replace(GOOD, beliefs=(ideal.belief("a"),)), control_mark=BELIEF_CONTROL)
    controls = {control.name: control.value for control in found.controls}
    assert controls["the last token instead"] == pytest.approx(1.72 - 1.626)
    assert controls["the exact law itself"] == pytest.approx(-0.002)


def test_a_size_that_no_rank_suffices_for_stands_one_above_the_scan():
    found = measure_size(dataclasses.replace(GOOD, sizes=(ideal.size(16, None), ideal.size(64))), 3)
    assert (found.value, found.low, found.high) == (9, 3, 9)
    assert found.seeds == [0]
