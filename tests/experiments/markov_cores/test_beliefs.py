"""Beliefs: the pieces on a tiny hidden chain model, and what must hold whatever it has learnt."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from experiments.markov_cores.test_subjects import SMALL
from invariscope.errors import ConfigError, UnknownNameError
from invariscope.experiments.markov_cores import PRESETS, Config
from invariscope.experiments.markov_cores.beliefs import HiddenSubject, belief_job
from invariscope.experiments.markov_cores.config import HiddenConfig
from invariscope.experiments.markov_cores.findings import BeliefFindings
from invariscope.models import Transformer
from invariscope.storage.records import from_json_record, to_json_record

STUDY = dataclasses.replace(
    SMALL,
    sequence_length=6,
    evaluate_sequences=256,
    hidden=HiddenConfig(chains=("mess3_usual",), seeds=(0,), width=8, num_heads=2, train=SMALL.train),
)


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> BeliefFindings:
    folder: Path = tmp_path_factory.mktemp("beliefs")
    record = belief_job(config=to_json_record(STUDY), folder=str(folder), chain="mess3_usual", seed=0)
    return from_json_record(BeliefFindings, record)


def test_an_untrained_model_knows_less_than_the_last_two_tokens(found: BeliefFindings):
    # mess3_usual: the last tokens nearly give the belief away; two training steps teach nothing.
    assert found.last_two_tokens.value > 0.9
    assert found.untrained_resid_mid.value < found.last_two_tokens.value
    assert found.untrained_residual.value > found.untrained_resid_mid.value


def test_optimum_is_the_best_of_all(found: BeliefFindings):
    written = found.written
    others = (written.own, written.belief, written.last_token, written.random, written.untrained)
    assert all(other.value > written.optimum.value for other in others)
    assert written.cost.value == pytest.approx(written.belief.value - written.own.value)


def test_points_are_shares_of_exact_beliefs(found: BeliefFindings):
    exact = torch.tensor(found.points)[:, :2]
    assert bool((exact >= 0).all())
    assert bool((exact.sum(1) <= 1 + 1e-9).all())


def test_belief_and_data_belong_together():
    task = STUDY.hidden_task("mess3_usual")
    model = Transformer(STUDY.hidden_model("mess3_usual"), generator=torch.Generator().manual_seed(0))
    subject = HiddenSubject(study=STUDY, task=task, seed=0, model=model)
    assert subject.rank == 2
    assert subject.resid_mid == "blocks.1.resid_mid"
    batch = subject.batches("heldout", "heldout")[0]
    law = task.next_token_law(task.beliefs(batch.inputs["tokens"]))
    assert torch.allclose(law.float(), batch.probabilities, atol=1e-6)


def test_standard_has_the_two_chains_that_were_promised():
    assert PRESETS["standard"].hidden.chains == ("six_tokens", "mess3_blurred")
    assert PRESETS["quick"].hidden.chains == ()
    assert PRESETS["standard"].with_first_seed(5).hidden.seeds == (5, 6, 7)


def test_hidden_parts_that_cannot_be_are_refused():
    with pytest.raises(UnknownNameError, match="mess3_usual"):
        Config(hidden=HiddenConfig(chains=("mess3",)))
    with pytest.raises(ConfigError, match="one or more different seeds"):
        HiddenConfig(chains=("six_tokens",), seeds=(1, 1))
