"""Which sums and places a pool holds: splits, their leak, and every way to fill a query."""

import itertools

import torch

from invariscope.tasks import AssignAdd
from invariscope.tasks.assign_add_pools import (
    Pool,
    list_pools,
    operand_tuples,
    query_kinds,
    select_tuples,
    split_operands,
)


def test_names_say_the_corner():
    assert Pool(num_variables=2, sums="held", num_bad=1).name == "2var-held-bad1"
    assert Pool(num_variables=0, sums="held-swapped").name == "0var-held-swapped"
    names = [pool.name for pool in list_pools(num_operands=2, most_bad=1, split="ordered")]
    assert names[:4] == ["0var-seen", "0var-held", "1var-seen", "1var-held"]
    assert names[-6:] == [f"{num}var-held-{kind}" for num in range(3) for kind in ("swapped", "unseen")]
    assert "2var-seen-bad2" not in names


def test_tuples_are_the_rows_of_a_table():
    assert operand_tuples(2, 2).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]


def test_what_is_held_out_swapped_or_not_at_all():
    seen = torch.tensor([[True, True, False], [False, True, False], [True, False, False]])
    assert select_tuples(seen, "seen").tolist() == [[0, 0], [0, 1], [1, 1], [2, 0]]
    assert select_tuples(seen, "held").tolist() == [[0, 2], [1, 0], [1, 2], [2, 1], [2, 2]]
    assert select_tuples(seen, "held-swapped").tolist() == [[0, 2], [1, 0]]
    assert select_tuples(seen, "held-unseen").tolist() == [[1, 2], [2, 1], [2, 2]]


def test_a_split_holds_out_its_share():
    ordered = split_operands(10, 2, split="ordered", heldout_share=0.25, seed=0)
    assert int((~ordered).sum()) == 25
    unordered = split_operands(10, 2, split="unordered", heldout_share=0.2, seed=0)
    assert int((~unordered).triu().sum()) == 11
    assert torch.equal(unordered, unordered.T)


def test_queries_are_filled_in_every_way():
    ways, broken = query_kinds(2, 2, ((0, 0), (1, 1)))
    table = dict(zip(map(tuple, ways.tolist()), broken.tolist(), strict=True))
    assert table == {(-1, -1): 0, (-1, 0): 0, (-1, 1): 1, (0, -1): 1, (0, 1): 2, (1, -1): 0, (1, 0): 0}


def test_an_unordered_split_has_no_mirror_leak():
    task = AssignAdd()
    assert torch.equal(task.seen, task.seen.T)
    assert len(task.pairs("heldout").sort(1).values.unique(dim=0)) == 531
    assert not any("swapped" in pool for pool in task.pools)
    three = AssignAdd(num_operands=3, mixture=(1, 1, 1, 1), modulus=5).seen
    assert all(torch.equal(three, three.permute(order)) for order in itertools.permutations(range(3)))


def test_the_split_is_the_seed_s_alone():
    assert torch.equal(AssignAdd(num_pads=0).seen, AssignAdd(num_variables=9).seen)
    assert not torch.equal(AssignAdd(split_seed=1).seen, AssignAdd().seen)
