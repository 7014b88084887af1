"""Fitted subspaces of the study: where they are, how large, and what they took."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from experiments.markov_cores import ideal
from invariscope.estimate import Estimate
from invariscope.experiments.markov_cores import PRESETS
from invariscope.experiments.markov_cores.config import Config
from invariscope.experiments.markov_cores.figures import make_figures
from invariscope.experiments.markov_cores.findings import FittedFindings
from invariscope.experiments.markov_cores.fitted import DAS_BATCH, fit_controls
from invariscope.experiments.markov_cores.subjects import Subject
from invariscope.training import TrainConfig, train

SMALL: Config = dataclasses.replace(
    PRESETS["quick"],
    width=16,
    mlp_width=16,
    train=TrainConfig(steps=4, eval_every=0, eval_sequences=32),
    extract_sequences=96,
    evaluate_sequences=64,
    sequence_length=6,
    das_steps=3,
    probe_tokens=256,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study")
    runs = path / "runs" / "twelve"
    train(SMALL.task("twelve"), SMALL.model("twelve"), SMALL.train, seeds=[0, 1], folder=runs, engine="inline", progress=False)
    return path


def subject(folder: Path, seed: int = 0, config: Config = SMALL) -> Subject:
    return Subject(config=config, folder=folder, arm="twelve", seed=seed, trained=True)


def test_both_have_the_core_s_rank_and_their_cost_beside_the_core_s(folder):
    controls, found = fit_controls(subject(folder))
    assert {name: [core.rank for core in cores] for name, cores in controls.items()} == {"das": [3], "probe": [3]}
    assert [one.name for one in found] == ["core", "das", "probe"]
    core, das, probe = found
    assert (core.forward, core.backward) == (96, 96 * 12)
    assert (das.forward, das.backward) == (96 + 2 * 3 * DAS_BATCH, 3 * DAS_BATCH)
    # 256 tokens of sequences of six.
    assert (probe.forward, probe.backward) == (43, 0)
    assert core.score is None
    assert das.score.unit == "nats"
    assert probe.score.chance is not None


def test_only_the_first_seed_and_only_where_asked_for(folder):
    assert fit_controls(subject(folder, seed=1)) == ({}, ())
    assert fit_controls(subject(folder, config=dataclasses.replace(SMALL, das_steps=0))) == ({}, ())


def test_the_caption_says_what_they_took():
    good = ideal.findings(PRESETS["quick"])
    score = Estimate(value=0.1, num=8)
    took = (
        FittedFindings(name="core", forward=96, backward=384, score=None),
        FittedFindings(name="das", forward=500, backward=200, score=score),
    )
    models = tuple(dataclasses.replace(model, fitted=took) for model in good.models)
    captions = {
        figure.name: figure.caption for figure in make_figures(PRESETS["quick"], dataclasses.replace(good, models=models))
    }
    assert "core 96 and 384, DAS 500 and 200" in captions["ablation_bars"]
    assert "DAS" not in {figure.name: figure.caption for figure in make_figures(PRESETS["quick"], good)}["ablation_bars"]
