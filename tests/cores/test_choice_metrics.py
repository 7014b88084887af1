"""Metrics of a choice: right, by how much, and what else has changed."""

from __future__ import annotations

import pytest
import torch

from invariscope.cores.choice_metrics import change_elsewhere, choice_accuracy, choice_margin
from invariscope.errors import ObjectiveError
from invariscope.positions import Rows
from invariscope.sites import choices, margin

TWO = margin(positive=[1], negative=[0])


def rows(num, **known) -> Rows:
    index = torch.arange(num)
    return Rows(b=index, t=torch.zeros_like(index), groups=index, **known)


def test_two_answers_follow_the_label():
    x = torch.tensor([[0.0, 3.0], [0.0, 1.0], [2.0, 2.0]])
    known = rows(3, labels=torch.tensor([1, 0, 1]))
    assert choice_accuracy(TWO)(x, known).tolist() == [1, 0, 0.5]
    assert choice_margin(TWO)(x, known).tolist() == [3, -1, 0]


def test_without_labels_answer_one_is_right():
    x = torch.tensor([[0.0, 3.0], [1.0, 0.0]])
    assert choice_accuracy(TWO)(x, rows(2)).tolist() == [1, 0]
    assert choice_accuracy(TWO).chance(rows(2)) == 0.5


def test_three_answers_are_compared_with_the_best_other():
    known = rows(2, labels=torch.tensor([2, 0]), choices=torch.tensor([[[0], [1], [2]]] * 2))
    x = torch.tensor([[1.0, 4.0, 6.0], [1.0, 4.0, 6.0]])
    assert choice_accuracy(choices(num_classes=3))(x, known).tolist() == [1, 0]
    assert choice_margin(choices(num_classes=3))(x, known).tolist() == pytest.approx([2, -5])
    with pytest.raises(ObjectiveError, match="3 answers and no labels"):
        choice_accuracy(choices(num_classes=3))(x, rows(2, choices=known.choices))


def test_chance_is_the_commonest_answer_by_weight():
    known = rows(3, labels=torch.tensor([0, 1, 1]))
    assert choice_accuracy(TWO).chance(known) == pytest.approx(2 / 3)
    weighted = rows(3, labels=torch.tensor([0, 1, 1]), weights=torch.tensor([0.8, 0.1, 0.1]))
    assert choice_accuracy(TWO).chance(weighted) == pytest.approx(0.8)
    assert choice_margin(TWO).chance(known) is None


def test_an_edit_of_the_answers_alone_changes_nothing_elsewhere():
    generator = torch.Generator().manual_seed(0)
    before = torch.randn(4, 6, generator=generator)
    moved = before.clone()
    moved[:, :2] += torch.tensor([5.0, -5.0])
    metric = change_elsewhere(before.log_softmax(-1), [0, 1])
    assert metric(moved, rows(4)) == pytest.approx(torch.zeros(4), abs=1e-6)
    whole = change_elsewhere(before.log_softmax(-1))
    p, q = before.log_softmax(-1), moved.log_softmax(-1)
    assert whole(moved, rows(4)) == pytest.approx((p.exp() * (p - q)).sum(1), rel=1e-5)
    assert (whole(moved, rows(4)) > 0.1).all()


def test_rows_are_found_by_their_sequence():
    before = torch.randn(4, 6, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    second = Rows(b=torch.tensor([2, 3]), t=torch.tensor([0, 0]), groups=torch.tensor([2, 3]))
    assert change_elsewhere(before)(before[2:], second) == pytest.approx(torch.zeros(2), abs=1e-6)
