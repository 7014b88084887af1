"""One seed, trained and measured: numbers are those of the library's own measures, and what is there is kept."""

import json

import pytest
import torch

from experiments.assign_add.tiny_study import STUDY, TASK
from invariscope.circuits import ov2_mlp2_accuracy, variable_identity
from invariscope.errors import InvariscopeError
from invariscope.experiments.assign_add.measure import ACCURACY_SEQUENCES, seed_job
from invariscope.models import fingerprint
from invariscope.storage.records import to_json_record
from invariscope.tasks import derive_seed
from invariscope.training import initial_model, list_checkpoints, load_model, load_run


def test_curves_are_those_of_the_training(tiny):
    folder, findings = tiny
    for found in findings:
        events = load_run(folder / "runs" / f"seed-{found.seed:04d}").metrics
        assert found.steps == tuple(event["step"] for event in events) == tuple(range(4, 33, 4))
        assert found.pools.keys() == TASK.corners.keys()
        assert found.pools["1var-held"] == tuple(event["pools"]["1var-held"]["accuracy"] for event in events)


def test_accuracies_are_of_the_trained_model_on_the_pool(tiny):
    folder, findings = tiny
    model = load_run(folder / "runs" / "seed-0000").model
    right = [
        model(batch.inputs["tokens"])[:, -1].argmax(-1) == batch.targets[:, 0]
        for batch in TASK.batches(ACCURACY_SEQUENCES, batch_size=512, seed=derive_seed(0, "accuracy"), pool="2var-seen")
    ]
    found = findings[0].accuracy("2var-seen")
    assert found.trained.value == pytest.approx(float(torch.cat(right).double().mean()), abs=2e-3)
    assert found.trained.chance == TASK.chance().accuracy
    assert found.untrained < 0.25


def test_circuits_are_followed_over_every_checkpoint(tiny):
    folder, findings = tiny
    checkpoints = list_checkpoints(folder / "runs" / "seed-0001")
    assert [one.step for one in findings[1].circuits] == list(range(4, 33, 4))
    last = load_model(checkpoints[-1])
    assert findings[1].circuits[-1].ov2_mlp2_accuracy == ov2_mlp2_accuracy(last, TASK).every.value
    assert findings[1].circuits[-1].qk2_ov1_variable_identity == variable_identity(last, TASK).argmax_on_diagonal.value


def test_the_untrained_twin_is_where_training_began(tiny):
    folder, findings = tiny
    untrained = initial_model(STUDY.model(), 0)
    assert findings[0].untrained.ov2_mlp2_accuracy.value == ov2_mlp2_accuracy(untrained, TASK).every.value
    assert fingerprint(untrained) != fingerprint(load_run(folder / "runs" / "seed-0000").model)


def test_pictures_are_of_the_first_seed_and_both_have_cores(tiny):
    folder, findings = tiny
    assert [found.pictures is None for found in findings] == [False, True]
    assert all(found.cores is not None for found in findings)
    assert sorted(path.name for path in (folder / "cores").iterdir()) == [
        f"seed-000{seed}-{kind}.safetensors" for seed in (0, 1) for kind in ("constant", "variable")
    ]


def test_what_was_measured_is_kept_and_a_damaged_record_refused(tiny, tmp_path):
    folder, findings = tiny
    config = to_json_record(STUDY)
    path = folder / "runs" / "findings-0001.json"
    before = path.stat().st_mtime_ns
    assert seed_job(config=config, folder=str(folder), seed=1) == json.loads(json.dumps(to_json_record(findings[1])))
    assert path.stat().st_mtime_ns == before
    text = path.read_text()
    try:
        path.write_text(text.replace('"modulus":13', '"modulus":14').replace('"modulus": 13', '"modulus": 14'))
        with pytest.raises(InvariscopeError, match=r"findings-0001\.json"):
            seed_job(config=config, folder=str(folder), seed=1)
    finally:
        path.write_text(text)
