"""A whole run of the tiny study: what it leaves, that nothing is done twice, and that interrupted work goes on."""

import pytest

from experiments.assign_add.tiny_study import STUDY
from invariscope.errors import FolderError
from invariscope.experiments.assign_add import run
from invariscope.experiments.assign_add.independence import ARMS
from invariscope.storage.claims_file import read_claims
from invariscope.storage.records import to_json_record
from invariscope.storage.run_folder import RunFolder


def carry_out(path, **changes):
    config = to_json_record(STUDY) | changes
    with RunFolder.open(path, config=config, experiment="assign-add", preset="tiny") as folder:
        run(STUDY, folder, preset="tiny", engine="inline", progress=False)


@pytest.fixture(scope="module", name="done")
def a_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "whole"
    carry_out(path)
    return path


def test_a_run_leaves_models_cores_figures_and_claims(done):
    files = {str(path.relative_to(done)) for path in done.rglob("*") if path.is_file()}
    assert {"claims.json", "manifest.json", "figures/pools.json", "figures/attention.csv"} <= files
    assert {"cores/seed-0001-variable.safetensors", "runs/findings-0000.json"} <= files
    claims = read_claims(done / "claims.json")
    assert claims.experiment == "assign-add"
    assert len(claims.claims) >= 20
    assert {claim.preset for claim in claims.claims} == {"tiny"}


def test_a_second_run_makes_the_same_of_what_is_there(done):
    before = (done / "claims.json").read_bytes()
    times = {path: path.stat().st_mtime_ns for path in (done / "runs").rglob("*.safetensors")}
    assert times
    (done / "claims.json").unlink()
    carry_out(done)
    assert (done / "claims.json").read_bytes() == before
    assert {path: path.stat().st_mtime_ns for path in (done / "runs").rglob("*.safetensors")} == times, "trained again"


def test_every_arm_is_trained_where_addition_comes(done):
    arms = {path.name for path in (done / "runs").glob("frozen-*")}
    # The tiny models never add, so no arm has anywhere to start from.
    assert arms in (set(), {f"frozen-{arm.replace(' ', '-')}" for arm in ARMS})


def test_another_configuration_is_refused(done):
    with pytest.raises(FolderError, match="width is 16 there and 32 here"):
        carry_out(done, width=32)
