"""Findings cross between processes as JSON and come back equal."""

from __future__ import annotations

import json

from experiments.markov_cores import ideal
from invariscope.experiments.markov_cores import PRESETS
from invariscope.experiments.markov_cores.findings import ModelFindings, PairFindings
from invariscope.storage.records import from_json_record, to_json_record

GOOD = ideal.findings(PRESETS["quick"])


def test_models_and_pairs_survive_json():
    for kind, records in ((ModelFindings, GOOD.models), (PairFindings, GOOD.pairs)):
        for record in records:
            assert from_json_record(kind, json.loads(json.dumps(to_json_record(record)))) == record


def test_arms_are_told_apart():
    assert [model.seed for model in GOOD.of("real")] == [0, 1, 2]
    assert len(GOOD.of("real", "rank_two")) == 5
    assert len(GOOD.transplants) == 2


def test_a_control_s_error_is_the_mean_over_its_draws():
    assert GOOD.models[0].spectrum.control("random").error == 0.35
