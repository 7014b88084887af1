"""Findings that are measured once, sealed, and refused where they are damaged."""

from dataclasses import dataclass

import pytest

from invariscope.errors import ForeignFileError
from invariscope.experiments.kept import keep_record
from invariscope.storage.atomic import write_json


@dataclass(frozen=True)
class Found:
    value: float


def never():
    raise AssertionError("measured again")


def test_findings_are_made_once(tmp_path):
    path = tmp_path / "findings.json"
    assert keep_record(path, Found, lambda: Found(value=0.5)) == {"value": 0.5}
    assert keep_record(path, Found, never) == {"value": 0.5}


def test_a_damaged_file_is_refused_by_name(tmp_path):
    path = tmp_path / "findings.json"
    keep_record(path, Found, lambda: Found(value=0.5))
    path.write_text(path.read_text().replace("0.5", "0.6"))
    with pytest.raises(ForeignFileError, match=r"findings\.json.*checksum does not fit"):
        keep_record(path, Found, never)
    write_json(path, {"schema_version": 1, "else": 3})
    with pytest.raises(ForeignFileError, match=r"findings\.json, which holds no findings"):
        keep_record(path, Found, never)
