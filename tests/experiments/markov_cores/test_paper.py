"""The paper's setting: its numbers, and a tiny run of its jobs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from experiments.markov_cores.test_subjects import SMALL
from invariscope.errors import ConfigError
from invariscope.experiments.markov_cores import PRESETS, Config
from invariscope.experiments.markov_cores.config import ARMS, ArmConfig, PaperConfig
from invariscope.experiments.markov_cores.findings import PaperFindings, PaperPairFindings
from invariscope.experiments.markov_cores.paper import _distance, paper_job, paper_pair_job
from invariscope.storage.records import from_json_record, to_json_record

TINY = dataclasses.replace(
    SMALL,
    paper=PaperConfig(
        seeds=(0, 1),
        sequence_length=6,
        train=dataclasses.replace(PaperConfig().train, steps=3, num_sequences=20, batch_size=8, eval_sequences=8),
    ),
)


def test_preset_is_the_paper_s():
    paper = PRESETS["paper"]
    assert paper.arms() == {}
    assert paper.all_seeds() == (0, 100, 200)
    train = paper.paper.train
    assert (train.num_sequences, train.batch_size, train.learning_rate) == (3000, 64, 1e-4)
    assert train.steps == 40 * -(-3000 // 64)
    model = paper.paper_model()
    assert (model.norm, model.activation, model.dropout, model.context_length) == ("post", "relu", 0.1, 32)
    assert paper.paper_task().name == "four_paper"


def test_jobs_train_measure_and_compare(tmp_path: Path):
    records = [paper_job(config=to_json_record(TINY), folder=str(tmp_path), seed=seed) for seed in (0, 1)]
    found = [from_json_record(PaperFindings, record) for record in records]
    assert [one.energy_999 for one in found] == [3, 3]
    # Four outputs: any model's core of rank 3 before the readout keeps nearly every guess.
    assert all(one.remove.chance == pytest.approx(0.25, abs=0.1) for one in found)
    pair = from_json_record(PaperPairFindings, paper_pair_job(config=to_json_record(TINY), folder=str(tmp_path), seeds=[0, 1]))
    assert len(pair.cca.heldout_components) == 3
    assert pair.overlap.null_mean == pytest.approx(3 / 64)


def test_errors_of_the_pair_and_of_the_real_eigenvalue_are_told_apart():
    expected = torch.tensor([0.75 + 0.25j, 0.75 - 0.25j, 0.5], dtype=torch.complex128)
    fitted = torch.tensor([0.4, 0.75 + 0.24j, 0.75 - 0.24j], dtype=torch.complex128)
    pair = expected.imag.abs() > 0
    assert _distance(fitted, expected, pair) == pytest.approx(0.01)
    assert _distance(fitted, expected, ~pair) == pytest.approx(0.1)


def test_a_study_of_nothing_and_parts_without_their_arms_are_refused():
    none = {name: ArmConfig(chain=getattr(Config(), name).chain) for name in ARMS}
    with pytest.raises(ConfigError, match="no seeds in real, twelve, rank_two"):
        Config(**none)
    with pytest.raises(ConfigError, match="without the arms that carry the claims"):
        Config(**none, paper=PaperConfig(seeds=(0, 1)), sizes=((16, 4, 1),))
    with pytest.raises(ConfigError, match="two or more different seeds, or none"):
        PaperConfig(seeds=(1,))
