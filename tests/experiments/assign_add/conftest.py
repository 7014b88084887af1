import pytest

from experiments.assign_add.tiny_study import STUDY
from invariscope.experiments.assign_add.findings import SeedFindings
from invariscope.experiments.assign_add.measure import seed_job
from invariscope.storage.records import from_json_record, to_json_record


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A folder with both seeds of the tiny study trained and measured, and what was found."""
    folder = tmp_path_factory.mktemp("assign_add")
    config = to_json_record(STUDY)
    records = [seed_job(config=config, folder=str(folder), seed=seed) for seed in STUDY.seeds]
    return folder, [from_json_record(SeedFindings, record) for record in records]
