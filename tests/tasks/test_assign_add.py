"""Assign and Add: what sequences look like, which sums and places each pool holds, what is refused."""

import itertools
import math

import pytest
import torch

from invariscope.errors import NotEnumerableError, ShapeError, UnknownNameError
from invariscope.tasks import AssignAdd, build_task, describe_task


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def drawn(task, pool, num=500):
    return task.sample(num, generator=generator(), pool=pool)


LAYOUTS = {
    "presentation": AssignAdd(),
    "paper": AssignAdd.paper(),
    "three operands": AssignAdd(num_operands=3, mixture=(1, 1, 1, 1), num_variables=5, max_assignments=4),
    "three operands in prefix": AssignAdd(num_operands=3, mixture=(1, 0, 1, 1), layout="paper", modulus=7),
    "no padding": AssignAdd(num_pads=0),
    "ordered": AssignAdd(split="ordered", modulus=11),
}


@pytest.fixture(params=LAYOUTS, name="task")
def make_task(request):
    return LAYOUTS[request.param]


def solved(task, row):
    """What a person would answer, from the text alone."""
    text = task.text(row).replace("_", "")
    if task.layout == "presentation":
        *assignments, query = text.split(",")
        known = dict(assignment.split("=") for assignment in assignments)
        operands = query.removesuffix("=").split("+")
    else:
        before, _, query = text.partition("+")
        words = before.split()
        known = dict(zip(words[::2], words[1::2], strict=True))
        operands = query.removesuffix("=").split()
    assert all(len(name) == 1 for name in known)
    return sum(int(known.get(word, word)) for word in operands) % task.modulus, len(known), operands


def test_answers_are_what_the_text_says_in_every_pool(task):
    for pool in task.pools:
        batch = drawn(task, pool, 60)
        for row, target, label in zip(batch.inputs["tokens"], batch.targets, batch.labels, strict=True):
            answer, num_assigned, operands = solved(task, row)
            assert answer == int(target)
            assert task.min_assignments <= num_assigned <= task.max_assignments
            assert sum(not word.isdigit() for word in operands) == int(label)


def test_places_are_where_the_text_has_them(task):
    for pool in task.pools[2:]:
        tokens = drawn(task, pool, 100).inputs["tokens"]
        places = task.places(tokens)
        read = tokens.gather(1, places.operands)
        assert torch.equal(read >= task.first_variable, places.is_variable)
        assert torch.equal(tokens.gather(1, places.values), places.answers)
        own = tokens.gather(1, (places.values - task.own_variable_offset).clamp_min(0))
        assert torch.equal(own[places.is_variable], read[places.is_variable])
        assert torch.equal(places.numbers.sum(1), places.variables.sum(1))
        rows, columns = places.numbers.nonzero().T
        assert bool(places.variables[rows, columns - task.own_variable_offset].all())


def test_a_pool_holds_the_sums_and_places_that_its_name_says(task):
    rules = set(task.forbidden)
    for name, pool in task.corners.items():
        batch = drawn(task, name)
        places = task.places(batch.inputs["tokens"])
        seen = task.seen[tuple(places.answers.T)]
        assert bool((seen if pool.sums == "seen" else ~seen).all())
        named = batch.inputs["tokens"].gather(1, places.operands) - task.first_variable
        broken = [sum((v, place) in rules for place, v in enumerate(row)) for row in named.tolist()]
        assert broken == [pool.num_bad] * batch.num_rows
        if pool.sums.startswith("held-"):
            swapped = torch.stack([task.seen[tuple(places.answers[:, list(order)].T)] for order in orders(task)]).any(0)
            assert bool((swapped if pool.sums == "held-swapped" else ~swapped).all())


def orders(task):
    return list(itertools.permutations(range(task.num_operands)))


def test_the_paper_s_counts():
    task = AssignAdd.paper()
    assert (task.vocab_size, task.num_outputs, task.sequence_length) == (74, 59, 16)
    assert (task.plus, task.equals, task.pad, task.first_variable) == (59, 60, 61, 62)
    assert task.operand_positions == (13, 14)
    assert [len(task.pairs(pool)) for pool in ("train", "heldout")] == [2436, 1045]
    ways = {name: len(task.ways_of(pool)) for name, pool in task.corners.items()}
    assert [ways[f"2var-seen{bad}"] for bad in ("", "-bad1", "-bad2")] == [92, 36, 4]
    swapped, unseen = (len(task.pairs(f"0var-held-{kind}")) for kind in ("swapped", "unseen"))
    assert swapped + unseen == 1045
    assert swapped > 2 * unseen - 100
    labels = drawn(task, "train", 20_000).labels.bincount() / 20_000
    torch.testing.assert_close(labels, torch.tensor([0.286, 0.476, 0.238]), atol=0.012, rtol=0)


def test_a_ratio_replaces_the_last_share():
    task = AssignAdd(mixture=(0.4, 0.4, 0.2), two_var_ratio=0.1)
    assert task.shares == pytest.approx((0.4 / 0.84, 0.4 / 0.84, 0.04 / 0.84))
    labels = drawn(task, "train", 20_000).labels.bincount(minlength=3) / 20_000
    torch.testing.assert_close(labels.double(), torch.tensor(task.shares).double(), atol=0.012, rtol=0)
    assert int(drawn(AssignAdd(two_var_ratio=0.0), "train", 2000).labels.max()) == 1


def test_composed_versions_of_one_sum_differ_in_the_query_alone(task):
    if task.max_assignments < task.num_operands:
        pytest.skip("fewer assignments than operands")
    operands = task.pairs("heldout")[:40]
    versions = [
        task.compose(operands, named, generator=generator(5))
        for named in itertools.product((False, True), repeat=task.num_operands)
    ]
    first = versions[0].inputs["tokens"]
    for batch in versions:
        places = task.places(batch.inputs["tokens"])
        assert torch.equal(places.answers, operands)
        assert torch.equal(batch.inputs["tokens"][:, : task.prefix_length], first[:, : task.prefix_length])
    assert [int(batch.labels[0]) for batch in versions] == [
        sum(named) for named in itertools.product((0, 1), repeat=task.num_operands)
    ]
    assert int(versions[-1].labels.min()) == task.num_operands


def test_the_description_makes_an_equal_task(task):
    again = build_task(describe_task(task))
    assert torch.equal(again.seen, task.seen)
    assert again.pools == task.pools
    assert torch.equal(drawn(again, "train").inputs["tokens"], drawn(task, "train").inputs["tokens"])


def test_chance_is_the_most_frequent_sum():
    chance = AssignAdd().chance()
    assert 1 / 59 < chance.accuracy < 0.03
    assert math.log(59) - 0.05 < chance.cross_entropy < math.log(59)


def test_what_no_sequence_of_this_task_is_is_refused():
    task = AssignAdd()
    with pytest.raises(ShapeError, match=r"tokens of shape \[2, 5\]; expected \[B, 20\]"):
        task.places(torch.zeros(2, 5, dtype=torch.long))
    tokens = drawn(task, "2var-seen", 3).inputs["tokens"]
    tokens[1, : task.prefix_length] = task.pad
    with pytest.raises(ShapeError, match=r"sequence 1, '_+.*', whose sum has a variable that it does not assign"):
        task.places(tokens)
    with pytest.raises(ShapeError, match=r"operands of shape \[1, 2\], 3 ... 59; expected \[B, 2\] numbers from 0 to 58"):
        task.compose(torch.tensor([[3, 59]]), (True, True), generator=generator())
    with pytest.raises(UnknownNameError, match=r"'2var-hel'.*nearest: 2var-held"):
        task.pairs("2var-hel")
    with pytest.raises(NotEnumerableError, match=r"the pool 'train' of 'assign-add', which has .* sequences; .*compose"):
        task.enumerate("train")
