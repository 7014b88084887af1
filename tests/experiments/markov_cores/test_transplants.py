"""Transplants of the study: both kinds of chains take one road, and every row is what it says."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from invariscope.experiments.markov_cores import PRESETS
from invariscope.experiments.markov_cores.config import Config, HiddenConfig
from invariscope.experiments.markov_cores.findings import TransplantFindings
from invariscope.experiments.markov_cores.transplants import hidden_transplant_job
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.training import TrainConfig

SMALL: Config = dataclasses.replace(
    PRESETS["quick"],
    hidden=HiddenConfig(
        chains=("six_tokens",), seeds=(0, 1), width=16, train=TrainConfig(steps=4, eval_every=0, eval_sequences=32)
    ),
    evaluate_sequences=64,
    sequence_length=6,
)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> TransplantFindings:
    folder: Path = tmp_path_factory.mktemp("study")
    record = hidden_transplant_job(config=to_json_record(SMALL), folder=str(folder), chain="six_tokens", seeds=[1, 0])
    assert sorted(path.name for path in (folder / "runs" / "six_tokens").iterdir()) == ["seed-0000", "seed-0001"]
    return from_json_record(TransplantFindings, record)


def test_a_hidden_chain_is_carried_from_the_first_seed_into_the_second(found):
    assert (found.arm, found.seeds) == ("six_tokens", (1, 0))
    assert found.cost.value == pytest.approx(found.donor.value - found.base.value, abs=1e-9)


def test_the_rows_are_different_measurements(found):
    rows = ("donor", "shuffled", "untrained", "random", "random_pair", "pca", "smaller", "final_norm", "final_norm_pca")
    values = [getattr(found, row).value for row in rows]
    assert len(set(values)) == len(rows)
    assert all(value > 0 for value in values)


def test_it_is_the_same_every_time(found, tmp_path):
    again = hidden_transplant_job(config=to_json_record(SMALL), folder=str(tmp_path), chain="six_tokens", seeds=[1, 0])
    assert from_json_record(TransplantFindings, again) == found
