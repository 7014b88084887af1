"""Fields that do not fit each other, and pools that would be empty, are refused by name."""

import pytest

from invariscope.errors import ConfigError
from invariscope.tasks import AssignAdd


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_assignments": 7}, r"max_assignments = 7; expected as many assignments as there are variables, 6, at most"),
        ({"min_assignments": 4}, r"min_assignments = 4; expected from 1 to max_assignments = 3"),
        (
            {"min_assignments": 1, "max_assignments": 1},
            r"max_assignments = 1; expected at least 2: sums of 2 variables are drawn",
        ),
        ({"heldout_share": 0.0}, r"leaves the pool '0var-held' empty"),
        ({"modulus": 2, "heldout_share": 0.9}, r"leaves the pool '0var-seen' empty"),
        ({"forbidden": ((0, 2),)}, r"forbidden = \(0, 2\); expected a variable below 6 and a place below 2"),
        ({"forbidden": tuple((v, 1) for v in range(6))}, r"leaves the pool '2var-seen' empty"),
        ({"mixture": (1, 1)}, r"mixture = \(1, 1\); expected 3 shares"),
        ({"num_operands": 4}, r"num_operands = 4; expected 2 or 3"),
        ({"two_var_ratio": 0.2, "mixture": (0, 1, 1)}, r"two_var_ratio = 0.2"),
        ({"layout": "infix"}, r"layout = infix; expected presentation or paper"),
    ],
)
def test_what_does_not_fit_is_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        AssignAdd(**fields)
