"""A ridge probe: what can be read linearly from activations, on groups that the probe has not seen, beside chance and shuffles.

Which of C answers goes with a row is asked of a linear map to C scores, fitted by ridge regression on 0/1 targets (one-hot, or
multi-hot for a set of answers such as an unordered pair of operands), in closed form. It is right where the answer has the
largest score, or the k answers of the row have the k largest ones. The rows of a group stand on one side of the split, so that a
probe cannot win by recognising a group. What it gets with shuffled answers says how much of its accuracy is the number of rows
and answers. (:mod:`invariscope.cores.probe` is another thing: the *directions* of a logistic regression as a core.)

Legend of shapes: n rows, D dimensions, C answers.

>>> generator = torch.Generator().manual_seed(0)
>>> answers = torch.randint(3, (300,), generator=generator)
>>> rows = torch.randn(3, 8, generator=generator)[answers]
>>> found = ridge_probe(rows, answers, generator=generator)
>>> found.score.value, found.score.chance < 0.5, found.null_high < 0.5
(1.0, True, True)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from invariscope.errors import ConfigError, ShapeError, TooFewSamplesError
from invariscope.estimate import Estimate
from invariscope.numerics.halves import Halves, null_scores
from invariscope.numerics.linalg import as_float64, no_autocast
from invariscope.numerics.resampling import estimate_mean, group_index, quantile_interval, split_groups

__all__ = ["Probe", "ridge_probe"]

# On either side: fewer make neither an interval nor a null.
_LEAST_GROUPS = 10


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Probe:
    """A fitted linear probe and what it scores.

    Args:
        score: share of held-out rows that are right, with an interval over held-out groups; its ``chance`` is the share of the
            answer (or set of answers) that is most frequent among the fitted rows.
        fitted: the same share on the fitted rows.
        null_mean, null_high: mean and 97.5 % quantile of the held-out share when the answers are shuffled and the probe is
            fitted anew.
        weights: [D, C]. bias: [C]. Scores of rows x are ``x weights + bias``.
        num_fit: rows that it was fitted on.
    """

    score: Estimate
    fitted: float
    null_mean: float
    null_high: float
    weights: Float[Tensor, "D C"]
    bias: Float[Tensor, "C"]
    num_fit: int

    def __post_init__(self) -> None:
        if self.weights.ndim != 2 or self.bias.shape != self.weights.shape[1:]:
            raise ShapeError(
                f"weights of shape {list(self.weights.shape)} and a bias of shape {list(self.bias.shape)}",
                expected="[D, C] and [C]",
                do="make it with ridge_probe",
            )

    def scores(self, x: Float[Tensor, "n D"]) -> Float[Tensor, "n C"]:
        """Score of every answer for every row.

        Raises:
            ShapeError: where the dimension is not the fitted one. NonFiniteError: where an entry is not finite.
        """
        x = as_float64("x", x, ndim=2)
        if x.shape[1] != len(self.weights):
            raise ShapeError(
                f"rows of {x.shape[1]} dimensions",
                expected=f"{len(self.weights)}, as fitted",
                do="score the site that was fitted",
            )
        with no_autocast(x):
            return x @ self.weights.to(x.device) + self.bias.to(x.device)


def ridge_probe(
    x: Float[Tensor, "n D"],
    y: Int[Tensor, "n"] | Bool[Tensor, "n C"] | Int[Tensor, "n C"],
    *,
    generator: torch.Generator,
    groups: Int[Tensor, "n"] | None = None,
    num_classes: int | None = None,
    heldout_share: float = 0.5,
    ridge: float = 1e-3,
    num_permutations: int = 20,
) -> Probe:
    """Ridge regression on 0/1 targets, scored on held-out groups.

    ``W = (X^T X + lambda I)^-1 X^T Y`` with X and Y centred on the fitted rows and ``lambda = ridge trace(X^T X) / D``.

    Args:
        x: [n, D], activations.
        y: [n], the class of each row from 0; or [n, C], not zero where an answer belongs to the row: then a row is right where
            its own answers score higher than all others (how many they are is given).
        generator: for the split, the interval and the shuffles.
        groups: rows that stay together, [n]; None: rows are independent.
        num_classes: C, for classes; None: one more than the largest.
        heldout_share: share of the groups that the probe is scored on.
        ridge: penalty, as a share of the mean variance.
        num_permutations: repetitions of the null.

    Raises:
        ShapeError: where x and y do not fit. NonFiniteError: where an entry is not finite.
        TooFewSamplesError: for fewer than 10 groups on either side, a row without an answer, or a single answer.
        ConfigError: for a negative class, a penalty that is not positive, or less than one permutation.

    Notes:
        The null moves whole groups where all have one size (:func:`~invariscope.numerics.permuted_groups`), so what is constant
        inside a group stays so.
    """
    x, targets = as_float64("x", x, ndim=2), _targets(y, num_classes)
    targets = targets.to(x.device)
    if len(x) != len(targets) or x.shape[1] == 0:
        raise ShapeError(
            f"x of shape {list(x.shape)} with answers for {len(targets)} rows",
            expected="one answer a row, and at least one column",
            do="read activations and answers from the same batches",
        )
    if not ridge > 0:
        raise ConfigError(f"ridge = {ridge}", expected="a positive number", do="leave it at .001")
    index = group_index(groups, len(x))[0].to(x.device)
    heldout = split_groups(index, heldout_share, generator)
    for half, doing in ((~heldout, "fitted"), (heldout, "held out")):
        if (num := len(index[half].unique())) < _LEAST_GROUPS:
            raise TooFewSamplesError(
                f"{num} groups to be {doing}", expected=f"at least {_LEAST_GROUPS} on either side", do="give more groups"
            )
    halves = Halves(
        a_fit=x[~heldout],
        b_fit=targets[~heldout],
        a_test=x[heldout],
        b_test=targets[heldout],
        groups_fit=index[~heldout],
        groups_test=index[heldout],
    )
    mean = halves.a_fit.mean(0)
    read = _reader(halves.a_fit - mean, ridge)

    def right(shuffled: Halves) -> Float[Tensor, "1"]:
        return _right(shuffled.a_test - mean, shuffled.b_test, read, shuffled.b_fit).mean()[None]

    null = null_scores(halves, right, num=num_permutations, generator=generator)[:, 0]
    score = estimate_mean(
        _right(halves.a_test - mean, halves.b_test, read, halves.b_fit),
        generator=generator,
        groups=halves.groups_test,
        unit="share",
        chance=_chance(halves.b_fit, halves.b_test),
    )
    weights, centre = _weights(read, halves.b_fit)
    return Probe(
        score=score,
        fitted=float(_right(halves.a_fit - mean, halves.b_fit, read, halves.b_fit).mean()),
        null_mean=float(null.mean()),
        null_high=quantile_interval(null, 0.95)[1],
        weights=weights,
        bias=centre - mean @ weights,
        num_fit=len(halves.a_fit),
    )


def _targets(y: Tensor, num_classes: int | None) -> Float[Tensor, "n C"]:
    """0/1 targets."""
    if not isinstance(y, Tensor) or y.ndim not in (1, 2) or (y.ndim == 1 and (y.is_floating_point() or y.dtype == torch.bool)):
        what = f"{y.dtype} of shape {list(y.shape)}" if isinstance(y, Tensor) else type(y).__name__
        raise ShapeError(f"y, {what}", expected="integers [n], or a mask [n, C]", do="give the class or the set of each row")
    if y.ndim == 1:
        low, high = (int(y.min()), int(y.max())) if len(y) else (0, -1)
        if low < 0 or (num_classes is not None and high >= num_classes):
            raise ConfigError(
                f"classes from {low} to {high}",
                expected=f"from 0 to {'C - 1' if num_classes is None else num_classes - 1}",
                do="number the answers from 0",
            )
        targets = torch.nn.functional.one_hot(y.long(), high + 1 if num_classes is None else num_classes).double()
    else:
        targets = as_float64("y", y, ndim=2).ne(0).double()
        if not bool(targets.any(1).all()):
            raise TooFewSamplesError(
                f"{int((~targets.any(1)).sum())} rows of {len(targets)} without an answer",
                expected="one at least",
                do="leave such rows out",
            )
    if len(targets) == 0 or not bool((targets != targets[0]).any()):
        raise TooFewSamplesError(
            f"{len(targets)} rows, all of one answer", expected="at least two answers", do="give rows whose answers differ"
        )
    return targets


def _reader(centred: Float[Tensor, "m D"], ridge: float) -> Float[Tensor, "D m"]:
    """What targets are multiplied with to give the weights: (X^T X + lambda I)^-1 X^T."""
    with no_autocast(centred):
        gram = centred.T @ centred
        penalty = ridge * gram.diagonal().mean()
        # Activations that do not vary have no scale of their own; any penalty then gives weights of zero.
        gram.diagonal().add_(penalty if float(penalty) > 0 else 1.0)
        return torch.cholesky_solve(centred.T, torch.linalg.cholesky(gram))


def _weights(read: Float[Tensor, "D m"], targets: Float[Tensor, "m C"]) -> tuple[Float[Tensor, "D C"], Float[Tensor, "C"]]:
    centre = targets.mean(0)
    with no_autocast(read):
        return read @ (targets - centre), centre


def _right(
    centred: Float[Tensor, "n D"], targets: Float[Tensor, "n C"], read: Float[Tensor, "D m"], fit_targets: Float[Tensor, "m C"]
) -> Float[Tensor, "n"]:
    """1 where the lowest of a row's own answers scores above the highest of all others."""
    weights, centre = _weights(read, fit_targets)
    with no_autocast(centred):
        scores = centred @ weights + centre
    own = targets > 0
    lowest = torch.where(own, scores, torch.inf).min(1).values
    highest = torch.where(own, -torch.inf, scores).max(1).values
    return (lowest > highest).double()


def _chance(fit_targets: Float[Tensor, "m C"], test_targets: Float[Tensor, "n C"]) -> float:
    """Share of the held-out rows that have the answer that is most frequent among the fitted ones."""
    answers, counts = torch.unique(fit_targets, dim=0, return_counts=True)
    return float((test_targets == answers[counts.argmax()]).all(1).double().mean())
