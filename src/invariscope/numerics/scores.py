"""How good predictions are, one number a row: cross-entropy and accuracy, on sampled answers or under an exact law.

Under the exact law p of the answer, -Σ p log q is the expectation that a sampled answer only estimates: for the small Markov
models sampling is off by .003-.008 nats, ten times their distance from the optimum.

Half-precision logits are scored in float32: bfloat16 keeps three digits, and a cross-entropy of 2 would be off by .01.

>>> cross_entropy_rows(torch.zeros(1, 4), targets=torch.tensor([2]))
tensor([1.3863])
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from invariscope.errors import ShapeError

__all__ = ["accuracy_rows", "cross_entropy_rows", "divergence_rows"]


def cross_entropy_rows(
    logits: Float[Tensor, "n V"],
    *,
    targets: Int[Tensor, "n"] | None = None,
    probabilities: Float[Tensor, "n V"] | None = None,
) -> Float[Tensor, "n"]:
    """-Σ_y p(y) log q(y) in nats for each row; p is the exact law where given, else all on the target.

    Args:
        logits: [n, V].
        targets: the answers, [n].
        probabilities: the exact law, [n, V]; with fewer columns than logits, the outputs beyond have probability 0.

    Raises:
        ShapeError: where the law has more outputs than the logits.

    Notes:
        0 log 0 = 0: an output that is impossible and has the logit -inf costs nothing.
    """
    log_q = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    if probabilities is not None:
        p = _check_law(probabilities, logits).to(log_q.dtype)
        return -torch.where(p > 0, p * log_q[:, : p.shape[1]], 0.0).sum(-1)
    assert targets is not None, "cross_entropy_rows needs targets or probabilities"
    return -log_q.gather(-1, targets[:, None])[:, 0]


def divergence_rows(logits: Float[Tensor, "n V"], *, probabilities: Float[Tensor, "n V"]) -> Float[Tensor, "n"]:
    """Σ_y p(y) log(p(y) / q(y)) in nats for each row: how far the prediction is from the exact law."""
    cross_entropy = cross_entropy_rows(logits.double(), probabilities=probabilities)
    return cross_entropy - torch.special.entr(probabilities.double()).sum(-1)


def accuracy_rows(
    logits: Float[Tensor, "n V"],
    *,
    targets: Int[Tensor, "n"] | None = None,
    probabilities: Float[Tensor, "n V"] | None = None,
) -> Float[Tensor, "n"]:
    """Probability that the largest logit is the answer: under the exact law where given, else 0 or 1.

    Args:
        logits, targets, probabilities: as for :func:`cross_entropy_rows`.

    Raises:
        ShapeError: where the law has more outputs than the logits.
    """
    guess = logits.argmax(-1)
    if probabilities is not None:
        num = _check_law(probabilities, logits).shape[1]
        right = probabilities.gather(-1, guess.clamp_max(num - 1)[:, None])[:, 0]
        return torch.where(guess < num, right, 0.0).to(torch.get_default_dtype())
    assert targets is not None, "accuracy_rows needs targets or probabilities"
    return (guess == targets).to(torch.get_default_dtype())


def _check_law(probabilities: Tensor, logits: Tensor) -> Tensor:
    if len(probabilities) != len(logits) or probabilities.shape[1] > logits.shape[1]:
        raise ShapeError(
            f"a law of shape {list(probabilities.shape)} for logits of shape {list(logits.shape)}",
            expected="one law a row, over at most as many outputs as there are logits",
            do="score a model with an output for every answer of the task",
        )
    return probabilities
