"""The study's numbers: presets as the sheet says, JSON and back, and what is refused."""

import dataclasses

import pytest

from experiments.assign_add.tiny_study import STUDY
from invariscope.errors import ConfigError
from invariscope.experiments.assign_add.config import PRESETS, Config
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.training import TrainConfig, resolve_forward


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_survive_json_and_train_by_tables(preset):
    config = PRESETS[preset]
    assert from_json_record(Config, to_json_record(config)) == config
    assert resolve_forward(config.train.forward, config.task.loss_positions, config.model()) == "folded"
    assert set(config.training().eval_pools) == set(config.task.corners)


def test_the_paper_s_model_has_the_paper_s_size():
    config = PRESETS["paper"]
    model = config.model()
    size = model.width * (model.vocab_size + model.context_length + 59) + 2 * 4 * model.width**2 + 2 * model.width * 512
    assert size == 281_216
    assert model.initial_scale / model.width**0.5 == pytest.approx(0.0707, abs=1e-4)
    assert (config.train.steps, config.train.batch_size, config.train.weight_decay) == (40_000, 512, 0.02)


def test_presets_differ_in_what_the_sheet_says():
    quick, standard, phases = (PRESETS[name] for name in ("quick", "standard", "phases"))
    assert dataclasses.replace(standard, seeds=quick.seeds) == quick
    assert len(standard.seeds) == len(phases.seeds) == 5
    assert (phases.train.steps, phases.train.schedule) == (12_000, "constant")
    assert quick.train.final_share == 0


def test_seeds_are_counted_from_the_first():
    assert PRESETS["standard"].with_first_seed(7).all_seeds() == (7, 8, 9, 10, 11)


def test_a_frozen_training_is_shorter_and_scores_places_that_training_has():
    settings = STUDY.frozen_training()
    assert settings.steps == 8
    assert settings.eval_pools == ("0var-seen", "0var-held", "1var-seen", "1var-held", "2var-seen", "2var-held")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_pairs": 3}, r"num_pairs = 3; expected at least 32; raise num_pairs"),
        ({"seeds": ()}, r"seeds \[\]; expected one or more different seeds from 0 on"),
        ({"seeds": (1, 1)}, r"seeds \[1, 1\]"),
        ({"width": 0}, r"width = 0; expected at least 1"),
        ({"train": TrainConfig(eval_every=50, checkpoint_every=75)}, r"eval_every = 50 and train.checkpoint_every = 75"),
        ({"train": TrainConfig(eval_every=50, checkpoint_every=0)}, r"checkpoint_every = 0"),
        ({"train": dataclasses.replace(STUDY.train, num_sequences=10)}, r"train.num_sequences = 10; expected fresh sequences"),
    ],
)
def test_what_cannot_be_run_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(STUDY, **changes)
