"""A training is followed from before its first step, and kept."""

import pytest

from experiments.imir_transformers.tiny import TINY, trainings
from invariscope.experiments.imir_transformers.findings import TrainingFindings
from invariscope.experiments.imir_transformers.measure import any_job
from invariscope.manifold import induction_coordinates
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.training import load_run, seed_folder


def test_each_training_has_its_moments():
    assert [(one.rare_share, one.seed) for one in trainings()] == [(0.5, 3), (0.5, 4), (0.25, 3), (0.25, 4)]
    for one in trainings():
        assert [moment.step for moment in one.series.moments] == [0, 10, 20]
        assert one.series.relevance == one.rare_share
        assert one.series.moments[-1].loss < one.series.moments[0].loss


def test_a_job_is_kept_and_alpha_over_all_places_is_of_the_followed_head(tmp_path):
    job = {"config": to_json_record(TINY), "folder": str(tmp_path), "rare_share": 0.25, "seed": 4}
    first = any_job(**job)
    found = from_json_record(TrainingFindings, first)
    assert found == trainings()[3]
    model = load_run(seed_folder(tmp_path / "runs" / "rare-0.25", 4)).model
    everywhere = induction_coordinates(model)
    at = everywhere.heads.index(found.series.previous)
    assert found.alpha_everywhere == pytest.approx(float(everywhere.alpha.z[at]))
    (tmp_path / "runs" / "rare-0.25" / "seed-0004" / "checkpoints" / "step-00000010.safetensors").unlink()
    assert any_job(**job) == first
