"""The study's numbers."""

import dataclasses

import pytest

from experiments.imir_transformers.tiny import TINY
from invariscope.errors import ConfigError
from invariscope.experiments.imir_transformers.config import PRESETS, Config
from invariscope.storage.records import from_json_record, to_json_record


def test_seeds_are_counted_from_the_one_given_and_all_is_json():
    assert PRESETS["quick"].with_first_seed(7).all_seeds() == (7, 8)
    for preset in PRESETS.values():
        assert from_json_record(Config, to_json_record(preset)) == preset
        # Seed 0 was looked at when the marks were written.
        assert 0 not in preset.seeds


def test_arms_differ_in_the_share_of_rare_questions_alone():
    arm = TINY.arm(0.25)
    assert (arm.rare_share, dataclasses.replace(arm, rare_share=TINY.task.rare_share)) == (0.25, TINY.task)
    assert (TINY.model().vocab_size, TINY.model().context_length) == (arm.vocab_size, arm.sequence_length)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_bootstrap": 99}, "num_bootstrap = 99; expected 100 or more"),
        ({"rare_shares": (0.5, 1.0)}, "shares between 0 and 1: memory needs common questions"),
        ({"seeds": ()}, "expected a seed"),
        ({"task": dataclasses.replace(TINY.task, placement="slots")}, "expected fixed places, two common pairs"),
        ({"train": dataclasses.replace(TINY.train, checkpoint_every=0)}, "and checkpoints on the way"),
    ],
)
def test_numbers_out_of_range_are_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(TINY, **fields)
