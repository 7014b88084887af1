"""How good predictions are, one number a row: cross-entropy and accuracy, on sampled answers or under an exact law.

Under the exact law p of the answer, -Σ p log q is the expectation that a sampled answer only estimates: for the small Markov
models sampling is off by .003-.008 nats, ten times their distance from the optimum.

>>> cross_entropy_rows(torch.zeros(1, 4), targets=torch.tensor([2]))
tensor([1.3863])
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["accuracy_rows", "cross_entropy_rows"]


def cross_entropy_rows(
    logits: Float[Tensor, "n V"],
    *,
    targets: Int[Tensor, "n"] | None = None,
    probabilities: Float[Tensor, "n V"] | None = None,
) -> Float[Tensor, "n"]:
    """-Σ_y p(y) log q(y) in nats for each row; p is the exact law where given, else all on the target."""
    log_q = logits.log_softmax(-1)
    if probabilities is not None:
        return -(probabilities.to(log_q.dtype) * log_q).sum(-1)
    assert targets is not None, "cross_entropy_rows needs targets or probabilities"
    return -log_q.gather(-1, targets[:, None])[:, 0]


def accuracy_rows(
    logits: Float[Tensor, "n V"],
    *,
    targets: Int[Tensor, "n"] | None = None,
    probabilities: Float[Tensor, "n V"] | None = None,
) -> Float[Tensor, "n"]:
    """Probability that the largest logit is the answer: under the exact law where given, else 0 or 1."""
    guess = logits.argmax(-1)
    if probabilities is not None:
        return probabilities.gather(-1, guess[:, None])[:, 0].to(torch.get_default_dtype())
    assert targets is not None, "accuracy_rows needs targets or probabilities"
    return (guess == targets).to(torch.get_default_dtype())
