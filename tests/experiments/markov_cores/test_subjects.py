"""Subjects: data shared between seeds, apart from training; twins are fresh models of the same shape; nothing hangs on order."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from invariscope.experiments.markov_cores import ArmConfig, Config
from invariscope.experiments.markov_cores.subjects import Subject, core_path
from invariscope.models import fingerprint
from invariscope.training import TrainConfig, train

SMALL = Config(
    sequence_length=5,
    width=8,
    num_heads=2,
    mlp_width=8,
    train=TrainConfig(steps=2, batch_size=4, eval_sequences=4),
    real=ArmConfig(chain="four_real", seeds=(0, 1)),
    extract_sequences=32,
    evaluate_sequences=32,
    operator_sequences=32,
    control_sequences=32,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("subjects")
    runs = path / "runs" / "real"
    train(SMALL.task("real"), SMALL.model("real"), SMALL.train, seeds=(0, 1), folder=runs, engine="inline", progress=False)
    return path


def subject(folder: Path, seed: int = 0, trained: bool = True) -> Subject:
    return Subject(config=SMALL, folder=folder, arm="real", seed=seed, trained=trained)


def tokens(batches) -> torch.Tensor:
    return torch.cat([batch.inputs["tokens"] for batch in batches])


def test_seeds_of_an_arm_are_measured_on_the_same_data(folder: Path):
    a, b = subject(folder, 0), subject(folder, 1)
    for name in ("extraction", "heldout"):
        assert torch.equal(tokens(getattr(a, name)()), tokens(getattr(b, name)()))
    assert torch.equal(tokens(a.transitions(16)), tokens(b.transitions(16)))


def test_extraction_and_held_out_data_differ(folder: Path):
    a = subject(folder)
    assert not torch.equal(tokens(a.extraction()), tokens(a.heldout()))
    assert not torch.equal(tokens(a.heldout()), tokens(a.transitions(32)))


def test_twins_have_the_shape_and_not_the_weights(folder: Path):
    model, twin = subject(folder).model, subject(folder, trained=False).model
    assert twin.config == model.config
    assert fingerprint(twin) != fingerprint(model)
    assert fingerprint(twin) == fingerprint(subject(folder, trained=False).model)
    assert fingerprint(twin) != fingerprint(subject(folder, 1, trained=False).model)


def test_rank_is_that_of_the_chain(folder: Path):
    assert subject(folder).rank == 3
    assert Subject(config=SMALL, folder=folder, arm="rank_two", seed=0, trained=True).rank == 2


def test_generators_depend_on_arm_seed_and_purpose_only(folder: Path):
    draws = [
        float(torch.rand((), generator=one.generator(purpose)))
        for one, purpose in ((subject(folder), "a"), (subject(folder, 1), "a"), (subject(folder), "b"), (subject(folder), "a"))
    ]
    assert draws[0] == draws[3]
    assert len(set(draws[:3])) == 3


def test_controls_have_the_core_s_rank_and_are_drawn_anew_alike(folder: Path):
    one, again = (subject(folder).control("random", 2) for _ in range(2))
    assert one.rank == 2
    assert torch.equal(one.write, again.write)


def test_paths_tell_cores_apart():
    names = {
        core_path(Path("x"), "real", seed, trained, site, projection)
        for seed in (0, 1)
        for trained in (True, False)
        for site in ("blocks.0.resid_mid", "final_norm")
        for projection in ("adjoint", "oblique")
    }
    assert len(names) == 16
