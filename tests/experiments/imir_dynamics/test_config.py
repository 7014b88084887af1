"""The study's numbers."""

import pytest

from invariscope.errors import ConfigError
from invariscope.experiments.imir_dynamics.config import PRESETS, Config


def test_seeds_are_counted_from_the_one_given():
    assert PRESETS["quick"].with_first_seed(7).all_seeds() == (7, 8, 9)


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"steps": 1}, "steps = 1; expected 2 or more"), ({"lengths": (4, 2, 8)}, "lengths"), ({"seeds": ()}, "expected a seed")],
)
def test_numbers_out_of_range_are_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        Config(**fields)
