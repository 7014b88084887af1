"""Following one model: what the job measures."""

from __future__ import annotations

from pathlib import Path

import pytest

from invariscope.cores import follow_core
from invariscope.experiments.markov_cores import ArmConfig, Config
from invariscope.experiments.markov_cores.findings import FollowFindings
from invariscope.experiments.markov_cores.following import NUM_BOOTSTRAP, follow_job
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.training import TrainConfig, train

SMALL = Config(
    sequence_length=6,
    width=16,
    num_heads=2,
    mlp_width=16,
    train=TrainConfig(steps=6, batch_size=16, eval_every=3, eval_sequences=16),
    twelve=ArmConfig(chain="spread_12", seeds=(5, 6)),
    control_sequences=128,
    follow_every=2,
    follow_sequences=64,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("followed")
    settings = SMALL.training("twelve", 5)
    runs = path / "runs" / "twelve"
    train(SMALL.task("twelve"), SMALL.model("twelve"), settings, seeds=[5], folder=runs, engine="inline", progress=False)
    return path


@pytest.fixture(scope="module")
def found(folder: Path) -> FollowFindings:
    return from_json_record(FollowFindings, follow_job(config=to_json_record(SMALL), folder=str(folder), seed=5))


def test_the_job_follows_the_first_seed_from_before_its_first_step(found: FollowFindings, folder: Path):
    assert (found.arm, found.seed) == ("twelve", 5)
    assert [one.step for one in found.series.checkpoints] == [0, 2, 4, 6]
    assert (found.series.rank, found.series.site, found.series.coordinates) == (3, "blocks.0.resid_mid", "law")
    assert found.series.tokens == tuple(range(12))
    direct = follow_core(
        folder / "runs" / "twelve" / "seed-0005",
        SMALL.task("twelve"),
        site="blocks.0.resid_mid",
        rank=3,
        num_sequences=64,
        operator_sequences=64,
        num_bootstrap=NUM_BOOTSTRAP,
        progress=False,
    )
    assert direct.checkpoints == found.series.checkpoints[1:]
