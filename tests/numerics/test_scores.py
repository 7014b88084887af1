"""Scores of predictions: cross-entropy, divergence and accuracy, against sums written out."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from invariscope.errors import ShapeError
from invariscope.numerics.scores import accuracy_rows, cross_entropy_rows, divergence_rows

LOGITS = torch.tensor([[0.0, math.log(3.0), 0.0], [2.0, 1.0, 0.0]], dtype=torch.float64)
LAW = torch.tensor([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]], dtype=torch.float64)


def test_cross_entropy_by_hand():
    assert cross_entropy_rows(LOGITS, targets=torch.tensor([1, 0])).tolist() == pytest.approx(
        [-math.log(3 / 5), math.log(math.exp(2) + math.e + 1) - 2]
    )
    # q = (1/5, 3/5, 1/5) in the first row.
    first = -0.75 * math.log(1 / 5) - 0.25 * math.log(3 / 5)
    assert cross_entropy_rows(LOGITS, probabilities=LAW).tolist() == pytest.approx(
        [first, math.log(math.exp(2) + math.e + 1) - 1]
    )


def test_the_law_goes_before_the_sampled_answer():
    both = cross_entropy_rows(LOGITS, targets=torch.tensor([2, 2]), probabilities=LAW)
    assert torch.equal(both, cross_entropy_rows(LOGITS, probabilities=LAW))


def test_divergence_is_cross_entropy_minus_entropy_and_zero_at_the_law():
    entropy = torch.tensor([1.5 * math.log(2), 0.0], dtype=torch.float64)
    assert torch.allclose(divergence_rows(LOGITS, probabilities=LAW), cross_entropy_rows(LOGITS, probabilities=LAW) - entropy)
    assert divergence_rows(LAW[:1].log() + 7, probabilities=LAW[:1]).abs().max() < 1e-15


def test_accuracy_by_hand():
    assert accuracy_rows(LOGITS, probabilities=LAW).tolist() == [0.25, 0.0]
    assert accuracy_rows(LOGITS, targets=torch.tensor([1, 1])).tolist() == [1.0, 0.0]
    assert accuracy_rows(LOGITS, targets=torch.tensor([1, 1])).dtype == torch.get_default_dtype()


@given(logits=st.lists(st.floats(-30, 30), min_size=4, max_size=4), shift=st.floats(-100, 100), answer=st.integers(0, 3))
@settings(deadline=None, derandomize=True, max_examples=50)
def test_shifts_do_not_count_and_a_one_hot_law_is_its_answer(logits: list[float], shift: float, answer: int):
    x = torch.tensor([logits], dtype=torch.float64)
    hot = torch.nn.functional.one_hot(torch.tensor([answer]), 4).double()
    sampled = cross_entropy_rows(x, targets=torch.tensor([answer]))
    assert torch.allclose(sampled, cross_entropy_rows(x + shift, probabilities=hot), atol=1e-9)
    assert float(sampled) >= 0
    assert float(divergence_rows(x, probabilities=hot.mean(0, keepdim=True) * 0 + 0.25)) >= -1e-12


def test_an_impossible_answer_with_probability_zero_costs_nothing():
    logits = torch.tensor([[0.0, 0.0, -math.inf]])
    assert cross_entropy_rows(logits, probabilities=torch.tensor([[0.5, 0.5, 0.0]])).tolist() == pytest.approx([math.log(2)])
    assert cross_entropy_rows(logits, probabilities=torch.tensor([[0.5, 0.25, 0.25]])).tolist() == [math.inf]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_scored_in_single(dtype: torch.dtype):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(50, 12, generator=generator).to(dtype)
    targets = torch.randint(12, (50,), generator=generator)
    scores = cross_entropy_rows(logits, targets=targets)
    assert scores.dtype == torch.float32
    assert torch.allclose(scores.double(), cross_entropy_rows(logits.double(), targets=targets), atol=1e-5)


def wide(law: Tensor) -> Tensor:
    return torch.nn.functional.pad(law, (0, 2))


def test_outputs_beyond_the_law_have_probability_zero():
    logits = torch.tensor([[1.0, 0.0, 0.0, 9.0, 0.0], [5.0, 1.0, 0.0, 0.0, 0.0]])
    short, padded = LAW.float(), wide(LAW).float()
    for score in (cross_entropy_rows, accuracy_rows):
        assert torch.equal(score(logits, probabilities=short), score(logits, probabilities=padded))
    assert accuracy_rows(logits, probabilities=short).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("score", [cross_entropy_rows, accuracy_rows])
def test_a_law_that_does_not_fit_is_refused(score: object):
    with pytest.raises(ShapeError) as caught:
        score(LOGITS, probabilities=wide(LAW))  # pyright: ignore[reportCallIssue]
    assert caught.value.given == "a law of shape [2, 5] for logits of shape [2, 3]"
    assert "an output for every answer" in caught.value.do
    with pytest.raises(ShapeError, match="expected one law a row"):
        score(LOGITS, probabilities=LAW[:1])  # pyright: ignore[reportCallIssue]
