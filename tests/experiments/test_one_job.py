"""One job: what it finds comes back as a record, and is kept in the run's folder."""

from __future__ import annotations

from experiments.imir_dynamics.tiny import TINY
from invariscope.experiments.imir_dynamics.measure import Findings
from invariscope.experiments.one_job import run_one_job
from invariscope.storage.records import to_json_record
from invariscope.storage.run_folder import RunFolder


def test_findings_come_back_and_are_kept(tmp_path):
    function = "invariscope.experiments.imir_dynamics.measure:measure_job"
    with RunFolder.open(tmp_path / "run", config=to_json_record(TINY), experiment="imir-dynamics", preset="tiny") as folder:
        first, second = (
            run_one_job(function, Findings, TINY, folder, engine="inline", num_workers=None, progress=False) for _ in range(2)
        )
    assert isinstance(first, Findings)
    assert first == second
    assert (tmp_path / "run" / "runs" / "findings.json").is_file()
