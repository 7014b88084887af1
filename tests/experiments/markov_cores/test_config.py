"""The study's configuration: the preset is what was promised, seeds move together, what cannot run is refused."""

from __future__ import annotations

import dataclasses

import pytest

from invariscope.errors import ConfigError, InvariscopeError
from invariscope.experiments.markov_cores import PRESETS, ArmConfig, Config
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.training import TrainConfig


def test_quick_preset_is_the_issue_s():
    quick = PRESETS["quick"]
    assert (quick.real.chain, quick.real.seeds) == ("four_real", (0, 1, 2))
    assert (quick.twelve.chain, quick.twelve.seeds) == ("spread_12", (0, 1))
    assert (quick.rank_two.chain, quick.rank_two.seeds) == ("four_rank_two", (0, 1))
    assert (quick.train.steps, quick.width) == (400, 64)
    assert quick.operator_sequences * (quick.sequence_length - 1) == 300_000


def test_first_seed_keeps_the_numbers_of_seeds():
    config = PRESETS["quick"].with_first_seed(7)
    assert (config.real.seeds, config.twelve.seeds, config.rank_two.seeds) == ((7, 8, 9), (7, 8), (7, 8))
    assert config.all_seeds() == (7, 8, 9)


@pytest.mark.parametrize("preset", PRESETS)
def test_configuration_survives_json(preset: str):
    assert from_json_record(Config, to_json_record(PRESETS[preset])) == PRESETS[preset]


def test_standard_preset_is_the_issue_s():
    standard = PRESETS["standard"]
    assert {arm.chain for arm in standard.arms().values()} == {
        *("four_real", "four_complex", "spread_12", "clustered_12", "overlapping_12", "four_rank_two"),
    }
    assert all(arm.seeds == (0, 1, 2, 3, 4) for arm in standard.arms().values())
    assert standard.train.steps == 1200
    assert standard.operator_sequences * (standard.sequence_length - 1) == 300_000


def test_arms_without_seeds_are_left_out():
    assert list(PRESETS["quick"].arms()) == ["real", "twelve", "rank_two"]
    assert list(PRESETS["standard"].arms()) == ["real", "complex_pair", "twelve", "clustered", "overlapping", "rank_two"]


def test_one_seed_cannot_be_compared():
    with pytest.raises(ConfigError, match="two or more different seeds"):
        ArmConfig(chain="four_real", seeds=(1,))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"twelve": ArmConfig(chain="four_real", seeds=(0, 1))}, r"twelve.chain = four_real.*no groups.*choose"),
        ({"rank_two": ArmConfig(chain="four_rank_two")}, r"no seeds in rank_two"),
        ({"real": ArmConfig(chain="for_real", seeds=(0, 1))}, r"unknown chain 'for_real'.*four_real"),
        ({"width": 30}, r"width 30 with 4 heads"),
        ({"num_random": 0}, r"num_random = 0; expected at least 1"),
        ({"extract_sequences": 1}, r"extract_sequences = 1; expected at least 32; raise extract_sequences"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_written(changes: dict, message: str):
    with pytest.raises(InvariscopeError, match=message):
        Config(**changes)


def test_only_the_first_seed_of_the_twelve_states_leaves_checkpoints_and_nothing_else_of_its_training_changes():
    config = PRESETS["quick"]
    assert config.followed_seed() == 0
    assert config.training("twelve", 0) == dataclasses.replace(config.train, checkpoint_every=10)
    assert config.training("twelve", 1) is config.train
    assert config.training("real", 0) is config.train
    still = dataclasses.replace(config, follow_every=0)
    assert still.followed_seed() is None
    assert still.training("twelve", 0) is config.train
    assert PRESETS["paper"].followed_seed() is None


@pytest.mark.parametrize(
    ("every", "steps", "wanted"),
    [
        (20, 1200, (20, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1200)),
        (2, 4, (2, 4)),
        (50, 30, (30,)),
        (1, 7, (1, 2, 3, 4, 6, 7)),
    ],
)
def test_followed_steps_have_checkpoints_and_end_with_the_last(every: int, steps: int, wanted: tuple[int, ...]):
    config = dataclasses.replace(PRESETS["quick"], follow_every=every, train=TrainConfig(steps=steps))
    assert config.followed_steps() == wanted
    assert all(step % every == 0 for step in wanted[:-1])
