"""What the fields of Assign and Add must be, and which pool a choice of them would leave empty."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from invariscope.errors import ConfigError

if TYPE_CHECKING:
    from invariscope.tasks.assign_add import AssignAdd

__all__ = ["check_fields", "check_pools"]


def _check(name: str, value: object, good: bool, expected: str) -> None:
    if not good:
        raise ConfigError(f"{name} = {value}", expected=expected, do=f"correct {name}")


def check_fields(task: AssignAdd) -> None:
    """Refuse fields that do not fit each other.

    Raises:
        ConfigError: naming the field, what it must be, and what to do.
    """
    _check("modulus", task.modulus, task.modulus >= 2, "at least 2")
    _check("num_operands", task.num_operands, task.num_operands in (2, 3), "2 or 3")
    _check("layout", task.layout, task.layout in ("presentation", "paper"), "presentation or paper")
    _check("split", task.split, task.split in ("unordered", "ordered"), "unordered or ordered")
    _check("num_pads", task.num_pads, task.num_pads >= 0, "at least 0")
    _check("num_variables", task.num_variables, task.num_variables >= 1, "at least 1")
    most = f"as many assignments as there are variables, {task.num_variables}, at most: each is assigned once"
    _check("max_assignments", task.max_assignments, task.max_assignments <= task.num_variables, most)
    low = 1 <= task.min_assignments <= task.max_assignments
    _check("min_assignments", task.min_assignments, low, f"from 1 to max_assignments = {task.max_assignments}")
    _check("heldout_share", task.heldout_share, 0 <= task.heldout_share < 1, "from 0 to below 1")
    for variable, place in task.forbidden:
        fits = 0 <= variable < task.num_variables and 0 <= place < task.num_operands
        expected = f"a variable below {task.num_variables} and a place below {task.num_operands}"
        _check("forbidden", f"({variable}, {place})", fits, expected)
    shares = task.mixture
    good = len(shares) == task.num_operands + 1 and min(shares) >= 0 and math.isfinite(sum(shares)) and sum(shares) > 0
    _check(
        "mixture", shares, good, f"{task.num_operands + 1} shares of at least 0: of sums with 0 ... {task.num_operands} variables"
    )
    if task.two_var_ratio is not None:
        possible = 0 <= task.two_var_ratio < math.inf and task.mixture[0] > 0
        _check("two_var_ratio", task.two_var_ratio, possible, "a number of at least 0, and sums without variables in mixture")
    needed = max(num for num, share in enumerate(task.shares) if share > 0)
    enough = f"at least {needed}: sums of {needed} variables are drawn"
    _check("max_assignments", task.max_assignments, task.max_assignments >= needed, enough)


def check_pools(task: AssignAdd) -> None:
    """Refuse a split and rules that leave a pool without sums.

    Raises:
        ConfigError: naming the pool.
    """
    for num, share in enumerate(task.shares):
        if share > 0 and f"{num}var-seen" not in task.corners:
            raise ConfigError(
                f"forbidden = {list(task.forbidden)}, which leaves the pool '{num}var-seen' empty",
                expected="a place for each number of variables that is drawn",
                do="forbid less, or set its share in mixture to 0",
            )
    for name, pool in task.corners.items():
        if not len(task.pairs(name)) and pool.sums in ("seen", "held"):
            raise ConfigError(
                f"heldout_share = {task.heldout_share} of the sums modulo {task.modulus}, which leaves the pool {name!r} empty",
                expected="at least one sum seen and one held out",
                do="change heldout_share, or take a larger modulus",
            )
