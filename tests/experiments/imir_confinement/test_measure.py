"""Shares, noise, two descents and attraction of a tiny study."""

from unittest import mock

from experiments.imir_confinement.tiny import TINY, findings
from invariscope.experiments.imir_confinement import measure as module
from invariscope.experiments.imir_confinement.measure import OPTIMISERS, Findings, measure_job
from invariscope.storage.records import to_json_record


def test_tasks_are_confined_and_controls_are_not():
    found = findings()
    assert [(one.name, one.model) for one in found.confined] == [
        (task, model) for task in ("recall", "recall, symmetric memory") for model in ("two layers", "two heads")
    ]
    assert all(len(one.shares) == 2 and max(one.shares) < 1e-12 for one in found.confined)
    assert all(min(one.shares) > 0.1 for one in found.broken)
    assert found.confined[0].dim == 86


def test_noise_falls_with_the_batch():
    assert findings().sampled.shares[1] < 0.5 * findings().sampled.shares[0]
    assert findings().sampled.low <= findings().sampled.slope <= findings().sampled.high < 0


def test_two_descents_are_one_and_trainings_begin_alike():
    found = findings()
    assert found.loss_difference < 1e-11
    assert found.coordinate_difference < 1e-10
    assert len(found.descent_losses) == 21
    assert [(one.optimiser, one.seed) for one in found.attraction] == [(name, seed) for name in OPTIMISERS for seed in (0, 1)]
    for seed in (0, 1):
        # All optimisers begin with the weights of the seed.
        first = {(one.outside[0], one.inside[0], one.losses[0]) for one in found.attraction if one.seed == seed}
        assert len(first) == 1
    assert len({one.outside[0] for one in found.attraction}) == 2
    assert [one.steps[-1] for one in found.attraction] == [20] * 6


def test_a_job_keeps_what_it_found(tmp_path):
    with mock.patch.object(module, "measure", return_value=findings()):
        first = measure_job(config=to_json_record(TINY), folder=str(tmp_path))
    assert first == measure_job(config=to_json_record(TINY), folder=str(tmp_path))
    assert first == to_json_record(findings())
    assert Findings.__name__ == "Findings"
