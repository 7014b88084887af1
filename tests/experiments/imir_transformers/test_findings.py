"""Records survive JSON."""

from experiments.imir_transformers.tiny import language, trainings
from invariscope.experiments.imir_transformers.findings import LanguageFindings, TrainingFindings
from invariscope.storage.records import from_json_record, to_json_record


def test_findings_survive_json():
    for found in trainings():
        assert from_json_record(TrainingFindings, to_json_record(found)) == found
    assert from_json_record(LanguageFindings, to_json_record(language())) == language()
