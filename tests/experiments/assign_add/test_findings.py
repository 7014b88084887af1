"""Records survive JSON, and are asked by name."""

import pytest

from experiments.assign_add.tiny_study import ideal
from invariscope.experiments.assign_add.findings import SeedFindings
from invariscope.storage.records import from_json_record, to_json_record


def test_findings_survive_json(tiny):
    for found in (*tiny[1], ideal(3)):
        assert from_json_record(SeedFindings, to_json_record(found)) == found


def test_a_pool_is_found_by_name():
    assert ideal(0).accuracy("2var-held").pool == "2var-held"
    with pytest.raises(StopIteration):
        ideal(0).accuracy("3var-held")
