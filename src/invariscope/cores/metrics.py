"""What is measured of a model under an edit: one number a row, its unit, its direction and its chance level.

A :class:`Metric` says how good each row is; means, intervals and chance levels are the library's business. ``auc`` is the
exception that pools: one number for all rows. Judge sufficiency by cross-entropy: accuracy can be full at a rank that has lost
half of what the model knows, and .50 with an AUC of .99.

>>> rows = Rows(b=torch.tensor([0]), t=torch.tensor([0]), groups=torch.tensor([0]), targets=torch.tensor([1]))
>>> accuracy()(torch.tensor([[0.0, 2.0]]), rows)
tensor([1.])
"""

from __future__ import annotations

from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from invariscope.errors import ObjectiveError
from invariscope.estimate import Estimate
from invariscope.numerics.resampling import estimate_mean, group_index, quantile_interval
from invariscope.numerics.scores import accuracy_rows, cross_entropy_rows, divergence_rows
from invariscope.positions import Rows
from invariscope.sites import Objective

__all__ = ["Metric", "accuracy", "auc", "cross_entropy", "divergence", "estimate_metric", "metric_value"]


class Metric(Protocol):
    """One number a row.

    Attributes:
        name, unit: as printed.
        higher_is_better: which way is good.
    """

    name: str
    unit: str
    higher_is_better: bool

    def __call__(self, logits: Float[Tensor, "n V"], rows: Rows) -> Float[Tensor, "n"]:
        """The number of each row."""
        ...

    def chance(self, rows: Rows) -> float | None:
        """What the best constant answer gets on these rows; None where there is none."""
        ...


def _answers(rows: Rows, metric: str, exact: bool | None) -> dict[str, Tensor]:
    use_law = rows.probabilities is not None if exact is None else exact
    found = rows.probabilities if use_law else rows.targets
    if found is None:
        raise ObjectiveError(
            f"{metric} on batches without {'probabilities' if use_law else 'targets or probabilities'}",
            expected="batches that know the answer" + (" and its exact law" if use_law else ""),
            do="fill Batch.targets, or Batch.probabilities for exact expectations",
        )
    return {"probabilities": found} if use_law else {"targets": found}


def _weights(rows: Rows) -> Float[Tensor, "n"]:
    return torch.ones(rows.num, dtype=torch.float64) if rows.weights is None else rows.weights.double().cpu()


def _mean_law(answers: dict[str, Tensor], rows: Rows) -> Tensor:
    weights = _weights(rows)
    if "probabilities" in answers:
        law = weights @ answers["probabilities"].double().cpu()
    else:
        law = torch.bincount(answers["targets"].cpu(), weights=weights)
    return law / law.sum()


class cross_entropy:  # noqa: N801 (reads as the function that it replaces: iv.cross_entropy())
    """-log probability of the answer, in nats; chance is the entropy of the mean law of the answers.

    Args:
        exact: True: the expectation under the exact law; False: the sampled target; None: exact where the batches know the law.
    """

    name, unit, higher_is_better = "cross_entropy", "nats", False

    def __init__(self, exact: bool | None = None) -> None:
        self.exact = exact

    def __call__(self, logits: Float[Tensor, "n V"], rows: Rows) -> Float[Tensor, "n"]:
        """Nats of each row."""
        return cross_entropy_rows(logits, **_answers(rows, self.name, self.exact))

    def chance(self, rows: Rows) -> float:
        """Entropy of the mean law."""
        law = _mean_law(_answers(rows, self.name, self.exact), rows)
        return float(torch.special.entr(law).sum())


class divergence:  # noqa: N801 (reads as a function: iv.divergence())
    """Kullback-Leibler divergence of the prediction from the exact law of the answer, in nats; 0 is optimal.

    Chance is the divergence of the best constant answer: the mutual information of context and answer.
    """

    name, unit, higher_is_better = "divergence", "nats", False

    def __call__(self, logits: Float[Tensor, "n V"], rows: Rows) -> Float[Tensor, "n"]:
        """Nats of each row."""
        return divergence_rows(logits, **_answers(rows, self.name, exact=True))

    def chance(self, rows: Rows) -> float:
        """Divergence of the mean law."""
        law = _answers(rows, self.name, exact=True)["probabilities"]
        constant = _mean_law({"probabilities": law}, rows).log()
        return float(metric_value(self, divergence_rows(constant.expand(rows.num, -1), probabilities=law.cpu()), rows))


class accuracy:  # noqa: N801 (reads as the function that it replaces: iv.accuracy())
    """Probability that the largest logit is the answer; chance is the frequency of the commonest answer.

    Args:
        exact: as for :class:`cross_entropy`.
    """

    name, unit, higher_is_better = "accuracy", "share", True

    def __init__(self, exact: bool | None = None) -> None:
        self.exact = exact

    def __call__(self, logits: Float[Tensor, "n V"], rows: Rows) -> Float[Tensor, "n"]:
        """Probability of being right, of each row."""
        return accuracy_rows(logits, **_answers(rows, self.name, self.exact))

    def chance(self, rows: Rows) -> float:
        """Frequency of the commonest answer."""
        return float(_mean_law(_answers(rows, self.name, self.exact), rows).max())


class auc:  # noqa: N801 (reads as the function that it replaces: iv.auc(margin))
    """Area under the curve: probability that a row of label 1 has the larger margin than one of label 0; ties count half.

    It is pooled: one number for all rows, not a mean over them.

    Args:
        margin: an objective with one output.
        name: as printed; several in one table need names of their own.
    """

    unit, higher_is_better = "share", True

    def __init__(self, margin: Objective, *, name: str = "auc") -> None:
        if margin.num_outputs != 1:
            raise ObjectiveError(
                f"auc of {margin.name!r} with {margin.num_outputs} outputs", expected="one output", do="pass iv.margin(...)"
            )
        self.margin, self.name = margin, name

    def __call__(self, logits: Float[Tensor, "n V"], rows: Rows) -> Float[Tensor, "n"]:
        """The margin of each row."""
        return self.margin(logits, rows)[:, 0]

    def chance(self, rows: Rows) -> float:
        """One half."""
        return 0.5

    def pool(self, values: Float[Tensor, "n"], rows: Rows, weights: Float[Tensor, "n"]) -> float:
        """The area of all rows with their multiplicities ``weights``."""
        if rows.labels is None or not set(rows.labels.unique().tolist()) == {0, 1}:
            raise ObjectiveError("auc on batches whose labels are not 0 and 1", expected="both classes", do="fill Batch.labels")
        # Rank by distinct margin, so that ties count half.
        _, level = torch.unique(values, return_inverse=True)
        num = int(level.max()) + 1
        positive, negative = (
            torch.zeros(num, dtype=torch.float64).index_add_(0, level, weights * (rows.labels == label)) for label in (1, 0)
        )
        below = negative.cumsum(0) - negative
        pairs = float(positive.sum() * negative.sum())
        return float((positive * (below + negative / 2)).sum()) / pairs if pairs else float("nan")


def metric_value(metric: Metric, values: Float[Tensor, "n"], rows: Rows) -> float:
    """The metric over all rows: its weighted mean, or its pooled value."""
    weights = _weights(rows)
    pool = getattr(metric, "pool", None)
    return pool(values, rows, weights) if pool is not None else float(weights @ values.double() / weights.sum())


NUM_POOLED_DRAWS = 200


def estimate_metric(metric: Metric, values: Float[Tensor, "n"], rows: Rows, generator: torch.Generator) -> Estimate:
    """The metric over all rows with a bootstrap interval over groups and its chance level."""
    pool = getattr(metric, "pool", None)
    if pool is None:
        return estimate_mean(
            values, generator=generator, groups=rows.groups, weights=rows.weights, unit=metric.unit, chance=metric.chance(rows)
        )
    index, num_groups = group_index(rows.groups, rows.num)
    weights = _weights(rows)
    found = []
    for _ in range(NUM_POOLED_DRAWS):
        drawn = torch.randint(num_groups, (num_groups,), generator=generator, device=generator.device).cpu()
        counts = torch.bincount(drawn, minlength=num_groups).double()
        found.append(pool(values, rows, weights * counts[index]))
    draws = torch.tensor(found, dtype=torch.float64)
    low, high = quantile_interval(draws[draws.isfinite()], 0.95)
    return Estimate(
        value=metric_value(metric, values, rows),
        low=low,
        high=high,
        num=rows.num,
        unit=metric.unit,
        method=f"bootstrap over {num_groups} groups",
        chance=metric.chance(rows),
    )
