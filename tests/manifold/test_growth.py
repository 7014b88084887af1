"""Coordinates over a training: pulls are what a small step does, conflicts are exchanged partners, and words follow numbers."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from invariscope.errors import CheckpointError, ConfigError
from invariscope.manifold import FollowedCoordinate, InductionMoment, follow_induction, induction_coordinates
from invariscope.manifold.growth import _exchanged, _Kinds, _losses
from invariscope.models import Transformer, TransformerConfig
from invariscope.tasks.blocks import AssociativeRecall
from invariscope.training import Run, TrainConfig, initial_model, train
from invariscope.training.checkpoints import save_weights
from manifold.induction_models import VOCABULARY, induction_model

TASK = AssociativeRecall(num_blocks=3, num_rare=8, num_common=4, rare_share=0.5, fresh_share=0.25, placement="fixed")
SHAPE = TransformerConfig(
    vocab_size=TASK.vocab_size, context_length=TASK.sequence_length, num_layers=2, width=16, num_heads=2, mlp_width=0
)
OPTIONS = {"num_sequences": 64, "progress": False}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    config = TrainConfig(steps=30, learning_rate=1e-2, checkpoint_every=10, eval_every=0)
    [found] = train(TASK, SHAPE, config, seeds=[0], folder=tmp_path_factory.mktemp("run"), engine="inline", progress=False)
    return found


def test_every_checkpoint_is_measured_and_the_last_one_s_pair_is_followed(run):
    found = follow_induction(run, TASK, initial=initial_model(SHAPE, 0), **OPTIONS)
    assert [moment.step for moment in found.moments] == [0, 10, 20, 30]
    assert (found.previous[0], found.matching[0]) == (0, 1)
    assert found.relevance == pytest.approx(0.5 + 0.5 * 0.25)
    places = torch.arange(1, TASK.sequence_length - 1, 2)
    last = induction_coordinates(run.model, TASK.relation, places=places)
    i, j = last.heads.index(found.previous), last.heads.index(found.matching)
    values = {one.name: one.value for one in found.moments[-1].coordinates}
    assert values["α"] == pytest.approx(float(last.alpha.excess[i]))
    assert values["β"] == pytest.approx(float(last.beta.excess[i, j]))
    assert values["γ"] == pytest.approx(float(last.gamma.excess[j]))
    assert values["δ"] == pytest.approx(float(last.delta.excess))
    assert follow_induction(run.folder, TASK, initial=initial_model(SHAPE, 0), **OPTIONS) == found


def test_a_pull_is_what_a_small_step_down_the_loss_does(run):
    model, kinds = run.model, _Kinds.of(TASK, 64, 0)
    found = follow_induction(run, TASK, **OPTIONS)
    moment = found.moments[-1]
    losses = _losses(model, kinds.law)
    assert moment.loss == pytest.approx(float(sum(losses).detach()), rel=1e-6)
    assert moment.context_loss == pytest.approx(float(losses[0].detach()), rel=1e-6)
    for which, name in ((0, "context_pull"), (1, "common_pull")):
        slope = torch.autograd.grad(_losses(model, kinds.law)[which], list(model.parameters()))
        ends = []
        for sign in (1.0, -1.0):
            moved = Transformer(SHAPE, generator=torch.Generator()).double()
            with torch.no_grad():
                for target, source, along in zip(moved.parameters(), model.parameters(), slope, strict=True):
                    target.copy_(source.double() - sign * 1e-4 * along.double())
            ends.append(induction_coordinates(moved, TASK.relation, places=torch.arange(1, TASK.sequence_length - 1, 2)))
        i, j = ends[0].heads.index(found.previous), ends[0].heads.index(found.matching)
        at = {"α": ("alpha", i), "β": ("beta", (i, j)), "γ": ("gamma", j), "δ": ("delta", ())}
        for one in moment.coordinates:
            field, where = at[one.name]
            up, down = (float(getattr(end, field).excess[where]) for end in ends)
            assert getattr(one, name) == pytest.approx((up - down) / 2e-4, rel=1e-3, abs=1e-8)


def test_conflicts_have_the_same_tokens_and_other_partners():
    kinds = _Kinds.of(TASK, 64, 0)
    common, conflict = kinds.common.inputs["tokens"], kinds.conflict.inputs["tokens"]
    partners = dict(TASK.relation.tolist())
    assert torch.equal(common[:, ::2], conflict[:, ::2])
    assert torch.equal(common.sort(1).values, conflict.sort(1).values)
    for row, target in zip(conflict.tolist(), kinds.conflict.targets[:, 0].tolist(), strict=True):
        pairs = dict(zip(row[:-1:2], row[1::2], strict=True))
        assert target == pairs[row[-1]] != partners[row[-1]]
        assert all(label != partners[item] for item, label in pairs.items())


def test_copies_of_a_pair_stay_copies_in_a_conflict():
    task = dataclasses.replace(TASK, num_blocks=4, burstiness=3)
    rows = _exchanged(_Kinds.of(task, 16, 0).common).inputs["tokens"].tolist()
    for row in rows:
        assert len(dict.fromkeys(zip(row[:-1:2], row[1::2], strict=True))) == 2


@pytest.mark.parametrize(
    ("fields", "missing"),
    [
        ({"num_common": 0, "rare_share": 1.0, "fresh_share": 0.0}, {"common", "conflict"}),
        ({"rare_share": 0.0, "fresh_share": 0.0}, {"rare"}),
        ({"num_blocks": 1}, {"conflict"}),
    ],
)
def test_kinds_that_a_task_has_not_are_missing(fields, missing):
    kinds = _Kinds.of(dataclasses.replace(TASK, **fields), 8, 0)
    assert {name for name in ("rare", "common", "conflict") if getattr(kinds, name) is None} == missing


@pytest.mark.parametrize(("memory", "answers"), [(0.0, (1.0, 0.0)), (300.0, (0.0, 1.0))])
def test_what_answers_conflicts_is_what_the_weights_hold(memory, answers, tmp_path):
    """Weights written by hand as the one checkpoint of a training: induction, and memory that is none or stronger."""
    task = AssociativeRecall(num_blocks=3, num_rare=0, num_common=3, rare_share=0.0, placement="fixed")
    model = induction_model(previous=40.0, match=80.0, output=40.0, memory=0.0)
    token = torch.arange(VOCABULARY)
    with torch.no_grad():
        # The first place sees itself alone, so that its item would be as good an answer to itself.
        model.unembedding.weight[token, token] = -1.0
        model.unembedding.weight[task.relation[:, 1], task.relation[:, 0]] = memory
        small = Transformer(dataclasses.replace(model.config, vocab_size=6, context_length=7), generator=torch.Generator())
        for name, parameter in small.named_parameters():
            parameter.copy_(model.get_parameter(name)[tuple(slice(0, size) for size in parameter.shape)])
    save_weights(tmp_path / "step-00000001.safetensors", small, step=1)
    [found] = follow_induction(tmp_path, task, **OPTIONS).moments
    assert (found.conflict_context, found.conflict_memory) == answers
    assert (found.common, found.rare) == (1.0, None)


def moment(**fields) -> InductionMoment:
    coordinates = tuple(
        FollowedCoordinate(name=name, value=value, z=5.0, context_pull=pull, common_pull=0.01)
        for name, value, pull in (("α", 1.0, 0.1), ("β", 2.0, -0.4), ("γ", 3.0, 0.2), ("δ", 4.0, 0.0))
    )
    given = {
        "step": 7,
        "coordinates": coordinates,
        "rare": 0.5,
        "common": 1.0,
        "conflict_context": 0.1,
        "conflict_memory": 0.8,
        "loss": 2.0,
        "context_loss": 1.5,
    }
    return InductionMoment(**(given | fields))


def test_a_moment_in_words():
    assert moment().sentence(0.5) == (
        "Step 7: common ones learnt (rare questions 0.50, common questions 1.00); memory leads, in conflict 0.10 by the context, "
        "0.80 by memory (induction α 1.0 at +5 sd, β 2.0 at +5 sd, γ 3.0 at +5 sd; memory δ 4.0 at +5 sd); questions that only "
        "the context answers are 0.50 of the data and 0.75 of the loss, and the hardest pull, -0.39 a unit of time, is on β, "
        "mostly by those."
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"rare": 0.99}, "both learnt"),
        ({"rare": 0.99, "common": 0.2}, "rare ones learnt"),
        ({"common": 0.2}, "nothing learnt yet"),
        ({"conflict_context": 0.9, "conflict_memory": 0.0}, "the context leads"),
        ({"conflict_context": 0.2, "conflict_memory": 0.2}, "neither leads"),
        ({"conflict_context": None, "conflict_memory": None}, "there is no memory to compete with"),
        ({"loss": 0.0, "context_loss": 0.0}, "0.00 of the loss"),
    ],
)
def test_other_moments_are_said_otherwise(fields, words):
    assert words in moment(**fields).sentence(0.5)


def test_common_questions_are_named_where_they_pull():
    [one] = (dataclasses.replace(moment().coordinates[3], common_pull=2.0),)
    assert moment(coordinates=(one,)).sentence(0.5).endswith("is on δ, mostly by common questions.")


def test_the_first_step_of_a_level_is_found(run):
    found = follow_induction(run, TASK, **OPTIONS)
    assert found.first("loss", 0.0) == 10
    assert found.first("rare", 1.1) is None
    assert len(found.sentences()) == 3


def test_what_cannot_be_followed_is_said(run, tmp_path):
    with pytest.raises(ConfigError, match="placement = 'slots'; expected fixed places"):
        follow_induction(run, dataclasses.replace(TASK, placement="slots"), **OPTIONS)
    with pytest.raises(CheckpointError, match="which holds no checkpoints"):
        follow_induction(tmp_path, TASK, **OPTIONS)
    with pytest.raises(ConfigError, match="give the task that the model was trained on"):
        follow_induction(run, dataclasses.replace(TASK, num_rare=9), **OPTIONS)
    one = dataclasses.replace(SHAPE, num_layers=1)
    [flat] = train(
        TASK, one, TrainConfig(steps=2, eval_every=0), seeds=[0], folder=tmp_path / "one", engine="inline", progress=False
    )
    with pytest.raises(ConfigError, match="a model of one layer; expected a head above another one; train two layers"):
        follow_induction(flat, TASK, **OPTIONS)
