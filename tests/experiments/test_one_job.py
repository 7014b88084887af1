"""One job: what it finds becomes claims and figures, and is kept in the run's folder."""

from __future__ import annotations

from experiments.imir_dynamics.tiny import TINY
from invariscope.experiments.imir_dynamics import measure as module
from invariscope.experiments.imir_dynamics.measure import Findings
from invariscope.experiments.one_job import OneJobStudy
from invariscope.figures import ScalingLaw, ScalingLaws, draw_scaling_laws
from invariscope.storage.claims import Claim, Mark
from invariscope.storage.claims_file import read_claims
from invariscope.storage.records import to_json_record
from invariscope.storage.run_folder import RunFolder


def test_findings_are_judged_drawn_and_kept(tmp_path):
    seen = []

    def claims(config, found, *, preset):
        seen.append((config, found))
        mark = Mark(kind="at_least", target=1.0)
        return [Claim(id="one/dim", statement="s", source="x", mark=mark, measured=found.dim, preset=preset)]

    def figures(config, found):
        law = ScalingLaw(panel="p", name="n", sizes=(1.0, 2.0), values=found.emergence[:2])
        return [draw_scaling_laws(ScalingLaws(laws=(law,), title="t", x_title="x", quantity="q"), name="laws")]

    study = OneJobStudy(
        name="one", job=f"{module.__name__}:measure_job", findings=Findings, make_claims=claims, make_figures=figures
    )
    with RunFolder.open(tmp_path / "run", config=to_json_record(TINY), experiment="one", preset="tiny") as folder:
        for _ in range(2):
            study.run(TINY, folder, preset="tiny", engine="inline", progress=False)
    [(config, first), (_, second)] = seen
    assert config is TINY
    assert isinstance(first, Findings)
    assert first == second
    assert (tmp_path / "run" / "runs" / "findings.json").is_file()
    assert (tmp_path / "run" / "figures" / "laws.csv").is_file()
    written = read_claims(tmp_path / "run" / "claims.json")
    assert (written.experiment, written.preset, written.claims[0].measured) == ("one", "tiny", first.dim)
