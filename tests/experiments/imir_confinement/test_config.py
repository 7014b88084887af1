"""Tasks small enough to list, and numbers out of range."""

import pytest

from invariscope.errors import ConfigError
from invariscope.experiments.imir_confinement.config import CONTROLS, TASKS, Config


def test_every_task_is_listed_and_symmetric():
    kinds = {type(task).__name__ for task in TASKS.values()}
    assert kinds == {"AssociativeRecall", "KHop", "Ngram", "IndirectObject", "ConditionalRetrieval", "PermutationInversion"}
    for task in TASKS.values():
        assert task.symmetry is not None
        task.enumerate("train", 10)
    assert len(CONTROLS) == 7


@pytest.mark.parametrize(
    ("fields", "message"), [({"draws": 1}, "draws = 1"), ({"batches": (64, 128)}, "three sizes"), ({"seeds": ()}, "a seed")]
)
def test_numbers_out_of_range_are_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        Config(**fields)
