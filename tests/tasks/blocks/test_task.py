"""What every block-list task keeps: a symmetric law, orbits with their weights, samples as listed."""

import pytest
import torch

from invariscope.errors import ConfigError, NotEnumerableError, UnknownNameError
from invariscope.tasks import build_task, describe_task
from invariscope.tasks.blocks import AssociativeRecall
from tasks.blocks.laws import SMALL, law, moved, representative_rows, rows_of


@pytest.fixture(params=SMALL, name="task")
def every(request):
    return SMALL[request.param]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_every_generator_keeps_the_law(task):
    listed = law(task)
    assert sum(listed.values()) == pytest.approx(1.0)
    for one in task.symmetry.generators:
        for row, weight in listed.items():
            assert listed[moved(task, row, one)] == pytest.approx(weight)


def test_a_law_of_zipf_is_kept_by_no_renaming():
    task = AssociativeRecall(num_blocks=2, num_rare=4, zipf=1.0)
    even = AssociativeRecall(num_blocks=2, num_rare=4)
    listed = law(task)
    assert sum(listed.values()) == pytest.approx(1.0)
    rename = even.symmetry.generators[0]
    assert any(abs(listed[moved(task, row, rename)] - weight) > 1e-4 for row, weight in listed.items())
    # Only its labels can still be exchanged.
    identity = tuple(range(task.vocab_size))
    assert {token for token, _ in task.symmetry.generators} == {identity}
    with pytest.raises(NotEnumerableError, match=r"recall with zipf = 1.0, whose tokens are not alike"):
        task.representatives()


def test_orbits_of_representatives_are_the_law_with_their_weights(task):
    listed, left = law(task), set(law(task))
    for row, weight in representative_rows(task):
        orbit, pending = {row}, [row]
        while pending:
            at = pending.pop()
            for one in task.symmetry.generators:
                to = moved(task, at, one)
                if to not in orbit:
                    orbit.add(to)
                    pending.append(to)
        assert orbit <= left, "two representatives of one orbit"
        left -= orbit
        assert sum(listed[at] for at in orbit) == pytest.approx(weight)
        assert len({round(listed[at], 12) for at in orbit}) == 1
    assert not left


def test_without_a_mask_one_order_stands_for_all(task):
    """Sorted by what stands together, sequences of one orbit under any order of tokens have the weights of the whole law."""

    def unordered(row):
        length = task.sequence_length
        pairs = list(zip(row[:length], row[length:-1], strict=True))
        return (*sorted(pairs[:-1]), pairs[-1], row[-1])

    found = {}
    for row, weight in representative_rows(task, causal=False):
        found[unordered(row)] = found.get(unordered(row), 0.0) + weight
    assert sum(found.values()) == pytest.approx(1.0)
    if task.placement == "slots":
        assert len(found) == len(task.scenes)


def test_samples_are_as_frequent_as_listed(task):
    listed, num = law(task), 40_000
    batch = task.sample(num, generator=generator())
    rows = rows_of(batch)
    unique, counts = rows.unique(dim=0, return_counts=True)
    seen = dict(zip(map(tuple, unique.tolist()), counts.tolist(), strict=True))
    assert seen.keys() <= listed.keys()
    statistic = sum((seen.get(row, 0) - num * weight) ** 2 / (num * weight) for row, weight in listed.items())
    assert abs(statistic - len(listed)) < 5 * (2 * len(listed)) ** 0.5
    labels = batch.labels.bincount(minlength=3) / num
    wanted = [sum(scene.weight for scene in task.scenes if scene.label == label) for label in range(3)]
    assert labels.tolist() == pytest.approx(wanted, abs=0.02)


def test_the_context_tells_the_answer(task):
    """Sequences with one context have one answer, so that the optimum is certainty."""
    answers = {}
    for *context, target in law(task):
        assert answers.setdefault(tuple(context), target) == target


def test_chance_is_the_most_frequent_answer(task):
    marginal = torch.zeros(task.vocab_size, dtype=torch.float64)
    for row, weight in law(task).items():
        marginal[row[-1]] += weight
    assert task.chance().accuracy == pytest.approx(float(marginal.max()))
    assert task.chance().cross_entropy == pytest.approx(float(-torch.xlogy(marginal, marginal).sum()))


def test_batches_descriptions_and_pools(task):
    again = build_task(describe_task(task))
    first, second = (next(iter(one.batches(64, batch_size=32, seed=3))) for one in (task, again))
    assert torch.equal(first.inputs["tokens"], second.inputs["tokens"])
    assert ("positions" in first.inputs) == (task.placement != "fixed")
    assert torch.equal(rows_of(first), rows_of(second))
    assert int(first.inputs["tokens"].shape[1]) == task.sequence_length
    assert int(rows_of(first)[:, task.sequence_length : -1].max()) < task.num_labels
    assert int(first.inputs["tokens"].max()) < task.vocab_size
    with pytest.raises(UnknownNameError, match="nearest: train"):
        task.sample(2, generator=generator(), pool="trian")


def test_large_laws_have_representatives_only():
    task = AssociativeRecall(num_blocks=64, num_rare=512, num_slots=65)
    with pytest.raises(NotEnumerableError, match=r"recall, which has about 10\^\d+ sequences; .*use representatives\(\)"):
        task.enumerate("train", 64)
    assert len(task.representatives().tokens) == 64
    assert len(task.representatives(causal=False).tokens) == 1
    assert task.representatives().weights.tolist() == pytest.approx([1 / 64] * 64)
    with pytest.raises(ConfigError, match="batch_size=0"):
        SMALL["recall"].enumerate("train", 0)


def test_common_relations_are_pairs_of_tokens():
    assert SMALL["recall"].relation is None
    assert SMALL["recall common"].relation.tolist() == [[0, 1], [2, 3]]
    assert sorted(SMALL["recall symmetric"].relation.tolist()) == [[0, 1], [1, 0], [2, 3], [3, 2], [4, 5], [5, 4]]
