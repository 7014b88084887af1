"""claims.json: the contract's form, and nothing that does not follow from its numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from invariscope.errors import ConfigError, ForeignFileError
from invariscope.storage.atomic import read_json
from invariscope.storage.claims import Claim, Control, Mark
from invariscope.storage.claims_file import read_claims, write_claims

# The contract's example: statement and ids as there.
CONTRACT = """
{"id": "markov-cores/rank-resid-mid", "statement": "...", "source": "arXiv:2602.22600, Fig. 2", "unit": "directions",
 "paper": 3.0, "mark": {"kind": "within", "target": 3.0, "tolerance": 0.0}, "measured": 3.0, "low": 3.0, "high": 3.0,
 "num": 3, "seeds": [0, 1, 2],
 "controls": [{"name": "untrained", "value": 11.0, "low": 9.0, "high": 12.0, "mark": {"kind": "above", "target": 4.0}}],
 "verdict": "reproduced", "note": "", "figure": "rank_curve", "preset": "quick"}
"""


def contract_claim(**changes: Any) -> Claim:
    fields: dict[str, Any] = {
        "id": "markov-cores/rank-resid-mid",
        "statement": "...",
        "source": "arXiv:2602.22600, Fig. 2",
        "unit": "directions",
        "paper": 3,
        "mark": Mark(kind="within", target=3, tolerance=0),
        "measured": 3,
        "low": 3,
        "high": 3,
        "num": 3,
        "seeds": (0, 1, 2),
        "controls": (Control(name="untrained", value=11, low=9, high=12, mark=Mark(kind="above", target=4)),),
        "figure": "rank_curve",
        "preset": "quick",
    }
    return Claim(**fields | changes)


def written(path: Path, *claims: Claim) -> dict[str, Any]:
    write_claims(path, claims, experiment="markov-cores", preset="quick")
    return read_json(path)


def test_the_file_has_the_contracts_form(tmp_path: Path):
    value = written(tmp_path / "claims.json", contract_claim())
    expected = json.loads(CONTRACT) | {"by_construction": False}
    assert value == {"schema_version": 1, "experiment": "markov-cores", "preset": "quick", "claims": [expected]}
    assert list(value["claims"][0]) == list(expected)


def test_claims_come_back_as_they_went_and_equal_claims_give_equal_bytes(tmp_path: Path):
    claims = (
        contract_claim(),
        contract_claim(id="b", measured=None, low=None, high=None, paper=None, num=None, seeds=(), controls=(), note="no time"),
        contract_claim(id="c", measured=4.0, low=3.5, high=4.5),
        contract_claim(id="d", low=2.0, note="two; seeds"),
        contract_claim(id="e", low=2.0),
        contract_claim(id="f", controls=(Control(name="shown", value=1.0), Control(name="none", value=None))),
        contract_claim(id="g", statement="True by construction", by_construction=True),
    )
    path = tmp_path / "claims.json"
    written(path, *claims)
    loaded = read_claims(path)
    assert loaded.claims == claims
    assert (loaded.experiment, loaded.preset) == ("markov-cores", "quick")
    verdicts = ["reproduced", "not measured", "not reproduced", "reproduced with caveat", "reproduced with caveat"]
    assert [claim.verdict for claim in loaded.claims[:5]] == verdicts
    assert json.loads(path.read_text())["claims"][3]["note"] == "two; seeds; the interval [2, 3] crosses the mark within 3 ± 0"
    before = path.read_bytes()
    write_claims(path, loaded.claims, experiment="markov-cores", preset="quick")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"verdict": "not reproduced"}, "called 'not reproduced', and its numbers say 'reproduced'"),
        ({"measured": 4.0}, "called 'reproduced', and its numbers say 'not reproduced'"),
        ({"measured": "3.0"}, "measured of the wrong type"),
        ({"measured": True}, "measured of the wrong type"),
        ({"seeds": [0.5]}, "seeds of the wrong type"),
        ({"low": None}, "the interval"),
        ({"mark": {"kind": "near", "target": 3.0}}, "unknown mark 'near'"),
        ({"mark": {"kind": "above"}}, "target missing"),
        ({"mark": None}, "NoneType where an object with kind, target belongs"),
        ({"controls": [1]}, "int where an object"),
        ({"headline": True}, "headline unknown"),
        ({"low": 2.0, "verdict": "reproduced with caveat"}, "does not give the reason for its caveat"),
    ],
    ids=str,
)
def test_content_that_cannot_be_trusted_is_refused(change: dict[str, Any], problem: str, tmp_path: Path):
    path = tmp_path / "claims.json"
    value = written(path, contract_claim())
    value["claims"][0] |= change
    path.write_text(json.dumps(value))
    with pytest.raises(ForeignFileError) as caught:
        read_claims(path)
    assert str(path) in caught.value.given
    assert problem in caught.value.given
    assert "run the experiment again" in caught.value.do


def test_a_missing_field_is_named(tmp_path: Path):
    path = tmp_path / "claims.json"
    value = written(path, contract_claim())
    del value["claims"][0]["source"]
    path.write_text(json.dumps(value))
    with pytest.raises(ForeignFileError, match="source missing in 'markov-cores/rank-resid-mid'"):
        read_claims(path)


@pytest.mark.parametrize("content", ["[]", "{}", '{"schema_version": 2, "experiment": "", "preset": "", "claims": []}', "{"])
def test_other_files_are_refused(content: str, tmp_path: Path):
    (tmp_path / "claims.json").write_text(content)
    with pytest.raises(ForeignFileError, match=r"claims\.json"):
        read_claims(tmp_path / "claims.json")


def test_one_id_twice_and_another_preset_are_refused_before_writing(tmp_path: Path):
    path = tmp_path / "claims.json"
    with pytest.raises(ConfigError, match=r"ids \['markov-cores/rank-resid-mid'\] twice; expected one claim an id"):
        written(path, contract_claim(), contract_claim())
    with pytest.raises(ConfigError, match="another preset than 'quick'"):
        written(path, contract_claim(preset="paper"))
    assert not path.exists()


def test_a_run_without_claims_may_answer_in_a_sentence(tmp_path: Path):
    path = tmp_path / "claims.json"
    write_claims(path, [], experiment="core", preset="", answer="One direction carries it.")
    found = read_claims(path)
    assert (found.claims, found.answer) == ((), "One direction carries it.")
    write_claims(path, [], experiment="core", preset="")
    assert "answer" not in json.loads(path.read_text("utf-8"))
    assert read_claims(path).answer == ""
