"""Findings of one model: scores are looked up, and all of it is JSON."""

from __future__ import annotations

import json

from experiments.language_cores.ideal_models import model
from invariscope.experiments.language_cores.findings import ModelFindings
from invariscope.storage.records import from_json_record, to_json_record


def test_scores_are_those_of_the_sweep():
    found = model("tiny-a", (1, 2, 3))
    assert found.score(2, "flip").value == 0.01
    assert found.score(2, "flip", name="random").value == 0.98


def test_a_record_comes_back_from_its_text():
    found = model("tiny-a", (1, 2))
    assert from_json_record(ModelFindings, json.loads(json.dumps(to_json_record(found)))) == found
