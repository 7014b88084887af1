"""Metrics: against scikit-learn and by hand; the exact law is what sampled answers estimate."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from torch import Tensor

from cores.hand_made import generator, rows
from invariscope.cores import accuracy, auc, cross_entropy, divergence
from invariscope.cores.metrics import estimate_metric, metric_value
from invariscope.errors import ObjectiveError, ShapeError
from invariscope.positions import Rows
from invariscope.sites import logits, margin

MARGIN = margin(positive=[1], negative=[0])


def two_way(margins: Tensor) -> Tensor:
    return torch.stack([torch.zeros_like(margins), margins], 1)


def area(margins: Tensor, labels: Tensor, weights: Tensor | None = None) -> float:
    found = rows(len(margins), labels=labels) if weights is None else rows(len(margins), labels=labels, weights=weights)
    metric = auc(MARGIN)
    return metric_value(metric, metric(two_way(margins), found), found)


@given(
    st.lists(st.tuples(st.integers(-4, 4), st.integers(0, 1), st.integers(0, 3)), min_size=4, max_size=40).filter(
        lambda items: {label for _, label, weight in items if weight} == {0, 1}
    )
)
@settings(deadline=None, derandomize=True)
def test_auc_is_scikit_learns_with_ties_and_weights(items: list[tuple[int, int, int]]):
    margins, labels, weights = (torch.tensor(column) for column in zip(*items, strict=True))
    margins = margins.double() / 2
    if len(labels.unique()) == 2:
        assert area(margins, labels) == pytest.approx(roc_auc_score(labels, margins), abs=1e-12)
    expected = roc_auc_score(labels, margins, sample_weight=weights)
    assert area(margins, labels, weights.double()) == pytest.approx(expected, abs=1e-12)


def test_auc_by_hand():
    labels = torch.tensor([1, 1, 0, 0])
    assert area(torch.tensor([2.0, 3.0, 0.0, 1.0]), labels) == 1.0
    assert area(torch.tensor([0.0, 1.0, 2.0, 3.0]), labels) == 0.0
    assert area(torch.ones(4), labels) == 0.5
    assert area(torch.tensor([1.0, 3.0, 1.0, 0.0]), labels) == 3.5 / 4


def test_an_area_is_full_where_the_accuracy_is_a_coin_flip():
    labels = torch.tensor([1, 0] * 20)
    shifted = 5.0 + labels.double()
    assert area(shifted, labels) == 1.0
    assert float(accuracy()(two_way(shifted), rows(40, targets=labels)).mean()) == 0.5


def test_auc_needs_both_classes_and_one_output():
    with pytest.raises(ObjectiveError, match=r"labels are not 0 and 1; expected both classes; fill Batch\.labels"):
        area(torch.ones(3), torch.ones(3).long())
    with pytest.raises(ObjectiveError, match="labels are not 0 and 1"):
        metric_value(auc(MARGIN), torch.ones(3), rows(3))
    with pytest.raises(ObjectiveError, match=r"with 2 outputs; expected one output; pass iv\.margin"):
        auc(logits(tokens=[0, 1]))


def test_the_interval_of_an_area_covers_it_moves_with_weights_and_is_reproducible():
    labels = torch.tensor([0, 1] * 50)
    margins = labels + torch.randn(100, generator=generator())
    known = rows(100, labels=labels)
    metric = auc(MARGIN)
    values = metric(two_way(margins), known).double()
    estimates = [estimate_metric(metric, values, known, generator(seed)) for seed in (1, 1, 2)]
    assert estimates[0] == estimates[1] != estimates[2]
    first = estimates[0]
    assert first.low is not None
    assert first.high is not None
    assert first.low < first.value < first.high
    assert (first.chance, first.num, first.unit, first.method) == (0.5, 100, "share", "bootstrap over 100 groups")
    # Normal theory (Hanley and McNeil 1982, doi:10.1148/radiology.143.1.7063747) says about .05 either side here.
    assert 0.1 < first.high - first.low < 0.3
    # All weight on the rows that are ranked rightly: the interval must follow the value.
    right = torch.where(labels == 1, margins > 0.6, margins < 0.4).double()
    weighted = rows(100, labels=labels, weights=right)
    estimate = estimate_metric(metric, values, weighted, generator())
    assert (estimate.value, estimate.low, estimate.high) == (1.0, 1.0, 1.0)


def test_means_are_weighted_and_intervals_are_over_groups():
    values = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)
    known = rows(3, weights=torch.tensor([1.0, 1.0, 2.0]), targets=torch.tensor([0, 0, 1]))
    assert metric_value(cross_entropy(), values, known) == 1.25
    grouped = Rows(b=torch.arange(4), t=torch.zeros(4), groups=torch.tensor([0, 0, 1, 1]), targets=torch.zeros(4).long())
    estimate = estimate_metric(accuracy(), torch.tensor([1.0, 1.0, 0.0, 0.0]), grouped, generator())
    assert (estimate.value, estimate.low, estimate.high) == (0.5, 0.0, 1.0)
    assert estimate.method == "bootstrap over 2 groups"


LAW = torch.tensor([[0.5, 0.5, 0.0], [0.25, 0.25, 0.5]], dtype=torch.float64)


def test_exact_is_what_sampled_answers_estimate():
    num = 40_000
    law = LAW.repeat(num // 2, 1)
    targets = torch.multinomial(law, 1, generator=generator())[:, 0]
    scores = torch.randn(2, 3, generator=generator(1)).repeat(num // 2, 1)
    known = rows(num, targets=targets, probabilities=law)
    for metric in (cross_entropy, accuracy):
        exact, sampled = (metric(exact=flag)(scores, known).double() for flag in (True, False))
        assert float(exact.mean()) == pytest.approx(float(sampled.mean()), abs=4 * float(sampled.std()) / num**0.5)
        assert torch.equal(metric()(scores, known).double(), exact)
        assert float(exact.std()) < float(sampled.std())


def test_chance_by_hand():
    known = rows(2, probabilities=LAW, targets=torch.tensor([0, 2]))
    mean = [0.375, 0.375, 0.25]
    entropy = -sum(p * math.log(p) for p in mean)
    assert cross_entropy().chance(known) == pytest.approx(entropy)
    assert accuracy().chance(known) == pytest.approx(0.375)
    assert divergence().chance(known) == pytest.approx(entropy - (math.log(2) + 1.5 * math.log(2)) / 2)
    assert cross_entropy(exact=False).chance(known) == pytest.approx(math.log(2))
    assert accuracy(exact=False).chance(rows(3, targets=torch.tensor([1, 1, 4]))) == pytest.approx(2 / 3)
    weighted = rows(2, probabilities=LAW, weights=torch.tensor([3.0, 1.0]))
    assert accuracy().chance(weighted) == pytest.approx(0.75 * 0.5 + 0.25 * 0.25)
    assert cross_entropy(exact=False).chance(rows(2, targets=torch.tensor([0, 1]), weights=torch.tensor([3.0, 1.0]))) == (
        pytest.approx(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))
    )


def test_no_constant_answer_beats_chance():
    known = rows(2, probabilities=LAW)
    for seed in range(20):
        constant = torch.randn(3, generator=generator(seed)).expand(2, 3)
        for metric in (cross_entropy(), divergence()):
            assert metric_value(metric, metric(constant, known), known) >= metric.chance(known) - 1e-6
        assert metric_value(accuracy(), accuracy()(constant, known), known) <= accuracy().chance(known) + 1e-6


def test_divergence_is_the_distance_from_the_law():
    known = rows(2, probabilities=LAW)
    assert divergence()(LAW.log(), known).abs().max() < 1e-12
    scores = torch.randn(2, 3, generator=generator())
    entropy = torch.special.entr(LAW).sum(1)
    assert torch.allclose(divergence()(scores, known), cross_entropy()(scores, known).double() - entropy, atol=1e-6)


@pytest.mark.parametrize(
    ("metric", "known", "given"),
    [
        (cross_entropy(), {}, "cross_entropy on batches without targets or probabilities"),
        (accuracy(exact=False), {"probabilities": LAW}, "accuracy on batches without targets or probabilities"),
        (cross_entropy(exact=True), {"targets": torch.tensor([0, 1])}, "cross_entropy on batches without probabilities"),
        (divergence(), {"targets": torch.tensor([0, 1])}, "divergence on batches without probabilities"),
    ],
)
def test_batches_that_do_not_know_the_answer_are_refused(metric: Any, known: dict[str, Tensor], given: str):
    for ask in (lambda: metric(torch.zeros(2, 3), rows(2, **known)), lambda: metric.chance(rows(2, **known))):
        with pytest.raises(ObjectiveError) as caught:
            ask()
        assert caught.value.given == given
        assert "fill Batch.targets" in caught.value.do


def test_a_model_with_too_few_outputs_is_refused():
    with pytest.raises(ShapeError, match=r"a law of shape \[2, 3\] for logits of shape \[2, 2\]"):
        cross_entropy()(torch.zeros(2, 2), rows(2, probabilities=LAW))
