"""What stands where in two sequences, by hand."""

import pytest
import torch

from invariscope.errors import ShapeError
from invariscope.tasks import AssignAdd
from invariscope.tasks.assign_add_places import find_places, row_text

TASK = AssignAdd(modulus=7, num_variables=3, min_assignments=2, max_assignments=2, num_pads=1)
A, B, C = (TASK.first_variable + index for index in range(3))
EQ, COMMA, PLUS, PAD = TASK.equals, TASK.comma, TASK.plus, TASK.pad
ROWS = torch.tensor(
    [
        [PAD, A, EQ, 6, COMMA, C, EQ, 2, COMMA, C, PLUS, A, EQ],
        [B, EQ, 5, COMMA, PAD, A, EQ, 0, COMMA, 3, PLUS, B, EQ],
    ]
)


def test_places_are_these():
    found = find_places(TASK, ROWS)
    assert found.operands.tolist() == [[9, 11], [9, 11]]
    assert found.is_variable.tolist() == [[True, True], [False, True]]
    assert found.values.tolist() == [[7, 3], [9, 2]]
    assert found.answers.tolist() == [[2, 6], [3, 5]]
    assert found.numbers.nonzero().tolist() == [[0, 3], [0, 7], [1, 2], [1, 7]]
    assert found.variables.nonzero().tolist() == [[0, 1], [0, 5], [1, 0], [1, 5]]


def test_rows_are_read_as_text():
    assert [row_text(TASK, row) for row in ROWS] == ["_a=6,c=2,c+a=", "b=5,_a=0,3+b="]


def test_a_variable_that_is_not_assigned_is_refused():
    rows = ROWS.clone()
    rows[1, 11] = C
    with pytest.raises(ShapeError, match=r"sequence 1, 'b=5,_a=0,3\+c=', whose sum has a variable that it does not assign"):
        find_places(TASK, rows)
