"""What stays frozen in each arm, and where each begins."""

import dataclasses

import pytest
import torch

from experiments.assign_add.tiny_study import STUDY
from invariscope.experiments.assign_add import independence
from invariscope.experiments.assign_add.independence import ADDITION, ARMS, ROUTING, independence_job
from invariscope.models import part_names, weight_part
from invariscope.storage.records import to_json_record
from invariscope.training import initial_model, list_checkpoints, load_model, load_run


@pytest.fixture(scope="module", name="arms")
def every_arm(tiny):
    with pytest.MonkeyPatch.context() as patch:
        # The tiny study never learns to add; its second checkpoint stands in for the moment at which it would.
        patch.setattr(independence, "crossing", lambda steps, values, level: 8.0)
        config = to_json_record(STUDY)
        return {arm: independence_job(config=config, folder=str(tiny[0]), seed=0, arm=arm) for arm in ARMS}


def same(model, other):
    return tuple(
        name
        for name in part_names(model.config)
        if all(torch.equal(a, b) for a, b in zip(weight_part(model, name), weight_part(other, name), strict=True))
    )


def trained(folder, arm):
    return load_run(folder / "runs" / f"frozen-{arm.replace(' ', '-')}" / "seed-0000").model


def test_each_arm_keeps_what_it_says_and_no_more(arms, tiny):
    folder, checkpoints = tiny[0], list_checkpoints(tiny[0] / "runs" / "seed-0000")
    there, last, fresh = load_model(checkpoints[1]), load_model(checkpoints[-1]), initial_model(STUDY.model(), 0)
    assert same(trained(folder, "nothing"), there) == ()
    assert set(same(trained(folder, "addition"), there)) == set(ADDITION)
    assert set(same(trained(folder, "untrained addition"), fresh)) == set(ADDITION)
    assert set(same(trained(folder, "routing"), last)) == set(ROUTING)
    assert set(same(trained(folder, "untrained routing"), fresh)) == set(ROUTING)
    assert same(trained(folder, "fresh"), fresh) == ()


def test_arms_are_scored_alike(arms):
    assert [record["arm"] for record in arms.values()] == list(ARMS)
    assert {tuple(record["steps"]) for record in arms.values()} == {(4, 8)}
    assert [record["start"] for record in arms.values()] == [8, 8, 8, 0, 0, 0]
    assert all(len(record["pools"]["1var-held"]) == 2 for record in arms.values())


def test_there_is_nothing_to_freeze_where_addition_never_came(tiny):
    config = to_json_record(dataclasses.replace(STUDY, independence_steps=4))
    assert independence_job(config=config, folder=str(tiny[0]), seed=0, arm="addition") is None
