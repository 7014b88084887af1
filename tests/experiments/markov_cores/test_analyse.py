"""Analysing one model: numbers that can be checked by hand on a model that is not trained at all."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from experiments.markov_cores.test_subjects import SMALL
from invariscope.experiments.markov_cores.analyse import analyse_model, model_job
from invariscope.experiments.markov_cores.findings import ModelFindings
from invariscope.experiments.markov_cores.subjects import Subject
from invariscope.storage.records import from_json_record, to_json_record


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> tuple[ModelFindings, Subject, Subject]:
    folder = tmp_path_factory.mktemp("analyse")
    record = model_job(config=to_json_record(SMALL), folder=str(folder), arm="twelve", seed=0)
    model, twin = (Subject(config=SMALL, folder=folder, arm="twelve", seed=0, trained=trained) for trained in (True, False))
    return from_json_record(ModelFindings, record), model, twin


def test_a_job_trains_and_saves(found):
    findings, model, _ = found
    folder: Path = model.folder
    assert (folder / "runs" / "twelve" / "seed-0000" / "metrics.jsonl").exists()
    assert len(list((folder / "cores" / "twelve").glob("*.safetensors"))) == 9
    assert findings.steps == (2,)


def test_divergence_is_the_mean_over_held_out_tokens(found):
    findings, model, _ = found
    with torch.no_grad():
        parts = [
            (
                batch.probabilities.double()
                * (batch.probabilities.double().log() - model.model(**batch.inputs).double().log_softmax(-1))
            )
            .sum(-1)
            .flatten()
            for batch in model.heldout()
        ]
    assert findings.divergence.value == pytest.approx(float(torch.cat(parts).mean()), rel=1e-6)


def test_keep_before_the_readout_is_exact_only_where_the_rank_is_full(found):
    findings, _, _ = found
    # 12 outputs need 11 directions: rank 3 must cost something in a model that has learnt nothing.
    assert abs(findings.untrained.final_norm_change.value) > 1e-6


def test_12_states_are_judged_on_the_law_and_controls_are_named(found):
    findings, _, _ = found
    assert findings.spectrum.coordinates == "law"
    assert [control.name for control in findings.spectrum.controls] == ["untrained", "random", "pca"]
    assert len(findings.spectrum.control("random").errors) == 3
    assert len(findings.spectrum.expected) == 3


def test_effects_have_controls_after_attention_only(found):
    findings, _, _ = found
    drawn, fitted = {"random", "pca", "gradient"}, {"das", "probe"}
    assert {row.name for row in findings.resid_mid.effects} == {"model", "core"} | drawn | fitted
    assert {row.name for row in findings.final_norm.effects} == {"model", "core"}


def test_the_same_numbers_again(found):
    findings, model, twin = found
    fresh = [Subject(config=SMALL, folder=one.folder, arm=one.arm, seed=one.seed, trained=one.trained) for one in (model, twin)]
    assert from_json_record(ModelFindings, to_json_record(analyse_model(*fresh))) == findings
