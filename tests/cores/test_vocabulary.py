"""A few tokens in place of the whole vocabulary."""

from __future__ import annotations

import pytest
import torch

from invariscope.batch import Batch
from invariscope.cores.vocabulary import MAX_TOKENS, Vocabulary, vocabulary_of
from invariscope.positions import Rows
from invariscope.sites import choices, logits, margin


def batch(*ids) -> Batch:
    found = torch.tensor(ids)
    return Batch(inputs={"input_ids": torch.zeros(len(found), 2, dtype=torch.long)}, choices=found)


def rows(choice=None) -> Rows:
    index = torch.arange(2)
    return Rows(b=index, t=index, groups=index, choices=choice)


@pytest.mark.parametrize("reduce", ["sum", "logsumexp"])
def test_a_margin_on_few_logits_is_the_margin(reduce):
    objective = margin(positive=[8, 3], negative=[5], reduce=reduce)
    few = vocabulary_of([objective], [])
    assert few == Vocabulary((3, 5, 8))
    x = torch.randn(2, 10, generator=torch.Generator().manual_seed(0))
    moved = few.objective(objective)
    assert moved(x[:, list(few.ids)], rows()) == pytest.approx(objective(x, rows()))
    assert moved.name == objective.name
    # The one that was given is as before.
    assert objective.positive == [8, 3]


def test_choices_on_few_logits_are_the_choices():
    given = batch([[9, -1], [4, 2]], [[4, -1], [9, -1]])
    objective = choices()
    few = vocabulary_of([objective, margin(positive=[1], negative=[2])], [given])
    assert few == Vocabulary((1, 2, 4, 9))
    x = torch.randn(2, 10, generator=torch.Generator().manual_seed(0))
    moved = few.batch(given)
    assert moved.choices.tolist() == [[[3, -1], [2, 1]], [[2, -1], [3, -1]]]
    assert objective(x[:, list(few.ids)], rows(moved.choices)) == pytest.approx(objective(x, rows(given.choices)))


def test_an_objective_that_reads_everything_has_no_such_vocabulary():
    assert vocabulary_of([margin(positive=[1], negative=[2]), logits()], []) is None
    many = margin(positive=range(MAX_TOKENS), negative=[MAX_TOKENS + 1])
    assert vocabulary_of([many], []) is None


def test_a_batch_without_choices_stays_as_it_is():
    given = Batch(inputs={"input_ids": torch.zeros(1, 2, dtype=torch.long)})
    assert Vocabulary((1,)).batch(given) is given
