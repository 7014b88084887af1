"""Presets of the study, and what is refused."""

from __future__ import annotations

import pytest

from invariscope.errors import ConfigError
from invariscope.experiments.language_cores import PRESETS, Config
from invariscope.experiments.language_cores.config import ModelConfig
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.storage.shipped_models import SHIPPED_MODELS


def test_quick_and_standard_need_no_hub_and_judge_the_layers_of_the_sheet():
    for name in ("quick", "standard"):
        models = {model.name: model for model in PRESETS[name].models}
        assert set(models) == set(SHIPPED_MODELS)
        assert models["smollm2-135m"].judged == (27, 28, 29)
        assert models["smollm2-135m"].transfer == 27
        assert models["gemma3-270m"].judged == (16, 17)
        assert (PRESETS[name].num_extraction, PRESETS[name].num_heldout) == (512, 192)
    assert all(not model.layers for model in PRESETS["standard"].models)
    assert len(PRESETS["paper"].models) == 6


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_records(name):
    assert from_json_record(Config, to_json_record(PRESETS[name])) == PRESETS[name]


def test_another_seed_changes_the_prompts_only():
    moved = PRESETS["quick"].with_first_seed(7)
    assert moved.all_seeds() == (7,)
    assert moved.models == PRESETS["quick"].models


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Config(models=()), "at least one, each once"),
        (lambda: Config(models=(ModelConfig(name="a"), ModelConfig(name="a"))), "each once"),
        (lambda: Config(models=(ModelConfig(name="a"),), num_extraction=8), "num_extraction = 8; expected at least 32"),
        (lambda: Config(models=(ModelConfig(name="a"),), num_arbitrary=3), "0, 1 or 2 arbitrary margins"),
        (lambda: ModelConfig(name="a", layers=(1, 2), judged=(3,)), r"layers \[1, 2\] with claims at \[3\]"),
        (lambda: ModelConfig(name="a", judged=(-1,)), "counted from 0"),
    ],
)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
