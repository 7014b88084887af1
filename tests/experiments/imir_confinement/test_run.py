"""A whole run of the tiny study: what it leaves, and that nothing is measured twice."""

from unittest import mock

from experiments.imir_confinement.tiny import TINY, findings
from invariscope.experiments.imir_confinement import measure as module
from invariscope.experiments.imir_confinement import run
from invariscope.storage.claims_file import read_claims
from invariscope.storage.records import to_json_record
from invariscope.storage.run_folder import RunFolder


def carry_out(path):
    with RunFolder.open(path, config=to_json_record(TINY), experiment="imir-confinement", preset="tiny") as folder:
        run(TINY, folder, preset="tiny", engine="inline", progress=False)


def test_a_run_leaves_findings_figures_and_claims_and_keeps_them(tmp_path):
    with mock.patch.object(module, "measure", return_value=findings()):
        carry_out(tmp_path)
    names = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {"runs/findings.json", "claims.json", "figures/noise.json", "figures/noise.csv"} <= names
    assert read_claims(tmp_path / "claims.json").experiment == "imir-confinement"
    before = (tmp_path / "claims.json").read_bytes()
    (tmp_path / "claims.json").unlink()
    with mock.patch.object(module, "measure", side_effect=AssertionError("measured again")):
        carry_out(tmp_path)
    assert (tmp_path / "claims.json").read_bytes() == before
