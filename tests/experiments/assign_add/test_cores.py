"""Cores of both kinds of sums: chosen on one half, measured on the other; what is carried where the core is everything."""

import pytest
import torch

from experiments.assign_add.tiny_study import STUDY, TASK
from invariscope.cores import Core, load_core
from invariscope.experiments.assign_add.cores import SITE, AnswerFromState, find_cores, transplant_coordinates
from invariscope.models.fingerprint import fingerprint
from invariscope.training import load_run


def everything(width: int) -> Core:
    eye = torch.eye(width, dtype=torch.float64)
    return Core(read=eye, write=eye, mean=torch.zeros(width, dtype=torch.float64), singular_values=torch.ones(width))


def generator():
    return torch.Generator().manual_seed(0)


@pytest.fixture(name="model")
def trained(tiny):
    return load_run(tiny[0] / "runs" / "seed-0000").model


def test_the_core_that_is_everything_carries_the_whole_answer(model):
    operands = TASK.pairs("heldout")
    carried, stays = transplant_coordinates(everything(STUDY.width), model, TASK, operands, generator=generator())
    draw = generator()
    donors = TASK.compose(operands, (False, False), generator=draw)
    takers = TASK.compose(operands.roll(-1, 0), (True, True), generator=draw)
    differ = donors.targets[:, 0] != takers.targets[:, 0]
    answers = {name: model(**batch.inputs)[:, -1].argmax(-1) for name, batch in (("donors", donors), ("takers", takers))}
    right = {
        "donors": (answers["donors"] == donors.targets[:, 0])[differ].double().mean(),
        "takers": (answers["takers"] == takers.targets[:, 0])[differ].double().mean(),
    }
    assert carried.value == pytest.approx(float(right["donors"]))
    assert stays.value == pytest.approx(float(right["takers"]))
    assert carried.chance == 1 / 13


def test_the_end_of_the_model_answers_as_the_whole(model):
    end = AnswerFromState(model)
    batch = TASK.sample(50, generator=generator(), pool="2var-seen")
    read = end.read(batch)
    torch.testing.assert_close(end(**read.inputs)[:, -1], model(**batch.inputs)[:, -1], atol=1e-5, rtol=0)
    assert torch.equal(read.targets, batch.targets)
    assert fingerprint(end) == fingerprint(model)


def test_effects_are_there_for_both_cores_on_both_kinds(tiny):
    found = tiny[1][0].cores
    keys = {(edit.core, edit.pool, edit.subject, edit.edit) for edit in found.edits}
    assert len(keys) == len(found.edits) == 2 * 2 * 3 * 2
    assert found.constant_rank >= 1
    assert found.overlap.null_high < 1


def test_saved_cores_know_where_they_came_from(tiny):
    core = load_core(tiny[0] / "cores" / "seed-0000-constant.safetensors")
    assert core.rank == tiny[1][0].cores.constant_rank
    assert core.provenance.site == SITE
    assert core.provenance.model == fingerprint(load_run(tiny[0] / "runs" / "seed-0000").model)


def test_the_same_seed_finds_the_same(model, tiny):
    again = find_cores(model, TASK, num=STUDY.core_sequences, seed=0)
    assert again.edits == tiny[1][0].cores.edits
    assert again.carried == tiny[1][0].cores.carried
