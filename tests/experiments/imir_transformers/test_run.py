"""A whole run of the tiny study: what it leaves, and that nothing is measured twice."""

from __future__ import annotations

import dataclasses
from unittest import mock

from experiments.imir_transformers.tiny import TINY, language, trainings
from invariscope.experiments.imir_transformers import language as module
from invariscope.experiments.imir_transformers import run
from invariscope.storage.claims_file import read_claims
from invariscope.storage.records import to_json_record
from invariscope.storage.run_folder import RunFolder

STUDY = dataclasses.replace(TINY, language_model="tiny/llama")


def carry_out(path):
    with RunFolder.open(path, config=to_json_record(STUDY), experiment="imir-transformers", preset="tiny") as folder:
        run(STUDY, folder, preset="tiny", engine="inline", progress=False)


def test_a_run_leaves_findings_figures_and_claims_and_keeps_them(tmp_path):
    with mock.patch.object(module, "_measure", return_value=language()):
        carry_out(tmp_path)
    names = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    kept = {"runs/language-tiny--llama.json", "runs/rare-0.5/findings-0003.json", "figures/heads.json", "figures/answers.csv"}
    assert kept <= names
    claims = read_claims(tmp_path / "claims.json")
    assert (claims.experiment, len(claims.claims)) == ("imir-transformers", 9)
    before = (tmp_path / "claims.json").read_bytes()
    (tmp_path / "claims.json").unlink()
    with mock.patch.object(module, "_measure", side_effect=AssertionError("measured again")):
        carry_out(tmp_path)
    assert (tmp_path / "claims.json").read_bytes() == before
    assert len(trainings()) == 4
