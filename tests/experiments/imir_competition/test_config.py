"""The study's numbers and tasks."""

import pytest

from invariscope.errors import ConfigError
from invariscope.experiments.imir_competition.config import PRESETS, Config


def test_tasks_have_what_the_study_asks_for():
    study = PRESETS["quick"]
    assert (study.task(0.2, 0.3).rare_share, study.task(0.2, 0.3).fresh_share) == (0.2, 0.3)
    assert study.bursty(3).burstiness == 3
    assert study.with_first_seed(4).all_seeds() == (4,)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rare_shares": (1.5,)}, "a share of 1.5"),
        ({"copies": (2, 3)}, "begin with 1"),
        ({"copies": (1, 13)}, "12 blocks"),
        ({"emergence_shares": (1.0, 0.1)}, "three or more, through which a law goes"),
    ],
)
def test_numbers_out_of_range_are_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        Config(**fields)
