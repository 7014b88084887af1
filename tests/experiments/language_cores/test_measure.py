"""A closer look at one layer: histograms, points and stability of a tiny model."""

from __future__ import annotations

import pytest

from cores.test_sweep_layers import WORDS, pairs
from invariscope.cores.behaviour import behaviour_data
from invariscope.experiments.language_cores.findings import ModelFindings
from invariscope.experiments.language_cores.measure import NUM_BINS, _verified, measure_model
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.tasks import Pair, PairSet
from tiny_language_models import TinyLanguageModel


class Described(TinyLanguageModel):
    def describe(self):
        return {"name": self.name, "layers": 3}


@pytest.fixture(scope="module")
def found():
    lm = Described()
    data = behaviour_data(lm, pairs(), layers=[1, 2], num_random=1, num_arbitrary=0)
    return data, measure_model(lm, data, seed=0, judged=(2,), progress=False)[0]


def test_every_held_out_prompt_is_in_each_histogram_once(found):
    data, model = found
    num = sum(batch.num_rows for batch in data.heldout)
    detail = model.detail
    assert (detail.layer, detail.projection, detail.rank) == (2, "oblique", 1)
    assert len(detail.edges) == NUM_BINS + 1
    for edit in ("full", "keep", "remove", "flip"):
        assert sum(sum(one.counts) for one in detail.histograms if one.edit == edit) == num
    assert {one.label for one in detail.histograms} == set(data.classes)
    assert len(detail.points) == num


def test_points_are_margins_of_the_unedited_model(found):
    _, model = found
    right = [value if label == "x" else -value for _, value, label in model.detail.points]
    full = next(one for one in model.sweep.at(2).effects if one.name == "model")
    assert sum(right) / len(right) == pytest.approx(full.margin.value, abs=1e-5)


def test_stability_is_of_groups_and_the_record_is_json(found):
    _, model = found
    assert model.detail.stability.num_groups == 8
    assert 0 <= model.detail.stability.adjoint_halves.value <= 1
    assert model.deviation < 1e-5
    assert model.facts["layers"] == "3"
    assert from_json_record(ModelFindings, to_json_record(model)) == model


def test_prompts_of_one_length_are_measured_and_the_model_verified_on_other_text_beside_them():
    lm = Described()
    prompts = [Pair(prompt=f"The {word[:3]}", answers="xy"[i % 2], foils="yx"[i % 2]) for i, word in enumerate(WORDS)]
    data = behaviour_data(lm, PairSet(prompts, add_space=False), layers=[2], num_random=1, num_arbitrary=0)
    assert {batch.length for batch in (*data.extraction, *data.heldout)} == {7}
    verified = _verified(data)
    assert len(verified[0]) == 7
    assert len({len(row) for row in verified}) == len(verified) == 6
    assert measure_model(lm, data, seed=0, judged=(2,), progress=False)[0].deviation < 1e-5


def test_where_prompts_differ_in_length_the_model_is_verified_on_them(found):
    data, _ = found
    own = [row for batch in data.heldout for row in batch.inputs["input_ids"].tolist()]
    assert all(any(prompt == row[-len(prompt) :] for row in own) for prompt in _verified(data))


def test_the_same_seed_gives_the_same_numbers(found):
    data, model = found
    assert measure_model(Described(), data, seed=0, judged=(2,), progress=False)[0] == model
