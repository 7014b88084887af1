"""Sequences as they are written: decided ones token by token, drawn ones by their frequencies."""

import torch

from invariscope.tasks import AssignAdd
from invariscope.tasks.assign_add_rows import draw_rows, write_rows

TASK = AssignAdd(modulus=7, num_variables=3, min_assignments=1, max_assignments=2, num_pads=1)


def drawn(task, pool, num=500):
    return task.sample(num, generator=torch.Generator().manual_seed(0), pool=pool)


def written(task, **fields):
    return [task.text(row) for row in write_rows(task, **{name: torch.tensor(value) for name, value in fields.items()})]


def test_decided_rows_are_written_token_by_token():
    # The second row has one assignment only, and so four more paddings: one before it, the others behind.
    rows = {
        "count": [2, 1],
        "variables": [[2, 0], [1, 0]],
        "numbers": [[5, 6], [3, 0]],
        "gaps": [[1, 2, 2, 2, 2], [0, 1, 1, 1, 1]],
        "named": [[-1, 0], [1, -1]],
        "operands": [[4, 6], [3, 2]],
    }
    assert written(TASK, **rows) == ["c=5,_a=6,4+a=", "_b=3,____b+2="]


def test_the_paper_writes_the_query_in_front_of_its_operands():
    task = AssignAdd(modulus=7, num_variables=3, min_assignments=2, max_assignments=2, num_pads=0, layout="paper")
    rows = {"count": [2], "variables": [[0, 1]], "numbers": [[5, 6]], "gaps": [[]], "named": [[1, -1]], "operands": [[6, 2]]}
    tokens = write_rows(task, **{name: torch.tensor(value, dtype=torch.long) for name, value in rows.items()})
    a, b = task.first_variable, task.first_variable + 1
    assert tokens.tolist() == [[a, 5, b, 6, task.plus, b, 2, task.equals]]


def test_contexts_depend_on_what_is_assigned_and_not_on_what_is_asked():
    operands, assigned = torch.tensor([[1, 2]] * 50), torch.tensor([[0, 2]] * 50)
    one, other = (
        draw_rows(TASK, operands, assigned, named, torch.Generator().manual_seed(3))
        for named in (assigned, -torch.ones_like(assigned))
    )
    assert torch.equal(one[:, : TASK.prefix_length], other[:, : TASK.prefix_length])
    assert not torch.equal(one, other)
    for text in map(TASK.text, one):
        assert "a=1," in text
        assert "c=2," in text
        assert text.endswith("a+c=")


def test_paddings_fall_uniformly_into_the_gaps():
    task = AssignAdd(num_pads=1, min_assignments=3, max_assignments=3)
    tokens = drawn(task, "0var-seen", 20_000).inputs["tokens"]
    where = (tokens == task.pad).nonzero()[:, 1].bincount(minlength=13)
    assert where.nonzero()[:, 0].tolist() == [0, 4, 8, 12]
    assert bool(((where[::4] / 20_000 - 0.25).abs() < 0.015).all())
