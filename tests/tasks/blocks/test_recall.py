"""Recall and its inversion, as people read them."""

import pytest
import torch

from invariscope.tasks.blocks import AssociativeRecall, PermutationInversion


def solved(text):
    *blocks, query = (part.strip("()") for part in text.split(") ("))
    return dict(block.split() for block in blocks), query.split()[0]


def test_the_label_of_the_item_follows():
    task = AssociativeRecall(num_blocks=3, num_common=4, rare_share=0.5, fresh_share=0.5)
    batch = task.sample(100, generator=torch.Generator().manual_seed(0))
    for tokens, target, label in zip(batch.inputs["tokens"], batch.targets[:, 0], batch.labels, strict=True):
        pairs, asked = solved(task.text(tokens))
        answer = pairs[asked]
        assert answer == task.vocabulary.word(int(target))
        # Common items have their own label, or a rare one where it is fresh.
        assert (asked[0], answer[0]) == {0: ("t", "t"), 1: ("A", "B"), 2: ("A", "t")}[int(label)]
        assert label != 1 or asked[1:] == answer[1:]


def test_where_a_value_comes_from_follows():
    task = PermutationInversion(num_blocks=4, num_rare=4)
    batch = task.sample(2000, generator=torch.Generator().manual_seed(0))
    fixed = 0
    for tokens, target in zip(batch.inputs["tokens"], batch.targets[:, 0], strict=True):
        pairs, asked = solved(task.text(tokens))
        assert sorted(pairs) == sorted(pairs.values()) == ["t0", "t1", "t2", "t3"]
        assert pairs[task.vocabulary.word(int(target))] == asked
        fixed += sum(a == b for a, b in pairs.items())
    # A random permutation has one fixed point on average.
    assert fixed / 2000 == pytest.approx(1.0, abs=0.08)
