"""A run on tiny models: what it leaves, that it is kept, and the answer in words."""

from __future__ import annotations

import dataclasses
import importlib
import json

import pytest

from cores.test_sweep_layers import pairs
from experiments.language_cores.ideal_models import model
from invariscope.cores import load_core
from invariscope.cores.behaviour import behaviour_data
from invariscope.experiments.language_cores.config import Config, ModelConfig
from invariscope.experiments.language_cores.findings import ModelFindings
from invariscope.experiments.language_cores.run import answer_of, run, run_behaviour
from invariscope.storage.claims_file import read_claims
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.storage.run_folder import RunFolder
from invariscope.tasks import Behaviour, PairSet
from tiny_language_models import TinyLanguageModel

module = importlib.import_module("invariscope.experiments.language_cores.run")
CONFIG = Config(models=(ModelConfig(name="tiny", layers=(1, 2), judged=(2,)),), num_random=1, num_arbitrary=1)


@pytest.fixture
def tiny(monkeypatch):
    loads = []

    class Described(TinyLanguageModel):
        def describe(self):
            return {"name": self.name, "licence": "none"}

    def load(name, *, dtype):
        loads.append(name)
        return Described()

    every = list(pairs().pairs)
    behaviour = Behaviour(
        name="letters",
        summary="",
        train=PairSet(every[:12], name="letters", add_space=False),
        heldout=PairSet(every[12:], name="letters", add_space=False),
    )
    monkeypatch.setattr(module, "load_language_model", load)
    monkeypatch.setattr(module, "_prompts", lambda study: behaviour)
    return loads


def carry_out(path) -> None:
    with RunFolder.open(path, config=to_json_record(CONFIG), experiment="agreement", preset="tiny") as folder:
        run(CONFIG, folder, preset="tiny", engine="inline", progress=False)


def test_a_run_leaves_findings_cores_figures_and_claims_and_keeps_them(tiny, tmp_path):
    carry_out(tmp_path / "a")
    names = {str(path.relative_to(tmp_path / "a")) for path in (tmp_path / "a").rglob("*") if path.is_file()}
    assert {"runs/tiny/findings.json", "claims.json", "figures/layers.json", "figures/transfer.csv"} <= names
    core = load_core(tmp_path / "a" / "cores" / "tiny" / "layer-02-oblique-rank-1.safetensors")
    assert core.provenance.site == "blocks.2.resid_post"
    before = (tmp_path / "a" / "claims.json").read_bytes()
    (tmp_path / "a" / "claims.json").unlink()
    carry_out(tmp_path / "a")
    assert tiny == ["tiny"], "the second run measured again"
    assert (tmp_path / "a" / "claims.json").read_bytes() == before
    carry_out(tmp_path / "b")
    assert (tmp_path / "b" / "claims.json").read_bytes() == before


def test_one_behaviour_leaves_an_answer_and_a_vector(tiny, tmp_path):
    lm = module.load_language_model("tiny", dtype="float32")
    data = behaviour_data(lm, pairs(), layers=[2], num_random=1, num_arbitrary=1)
    with RunFolder.open(tmp_path / "core", config={}, kind="core", experiment="core") as folder:
        found = run_behaviour(lm, data, folder, progress=False)
    written = read_claims(tmp_path / "core" / "claims.json")
    assert written.claims == ()
    assert written.answer == answer_of(found)
    stored = json.loads((tmp_path / "core" / "findings.json").read_text())["findings"]
    assert from_json_record(ModelFindings, stored) == found
    if found.detail is None:
        assert "No layer of" in written.answer
    else:
        assert (tmp_path / "core" / "steering" / "steering.safetensors").exists()


def test_the_answer_says_the_edits_the_controls_and_what_is_algebra():
    good = model("tiny-a", (1, 2, 3))
    text = answer_of(dataclasses.replace(good, notes=("something was done",)))
    assert text.startswith("In tiny-a, one direction after layer 2 carries agreement: AUC 0.990 unedited, 0.990 kept alone, ")
    assert "0.520 removed, 0.010 flipped; random directions 0.600, 0.990, 0.980" in text
    assert "kept, removed and flipped by its own core" in text
    assert text.endswith("Note: something was done.")
    none = dataclasses.replace(good, detail=None)
    assert answer_of(none).startswith("No layer of tiny-a has a core")
