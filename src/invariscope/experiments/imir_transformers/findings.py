"""What the study finds, as records."""

from __future__ import annotations

from dataclasses import dataclass

from invariscope.manifold import InductionSeries

__all__ = ["Correlation", "HeadFinding", "LanguageFindings", "TrainingFindings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingFindings:
    """One training.

    Args:
        seed, rare_share: of it. series: its checkpoints, from before the first step.
        alpha_everywhere: α of the followed head at the end over all places, in standard deviations of its null.
    """

    seed: int
    rare_share: float
    series: InductionSeries
    alpha_everywhere: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadFinding:
    """One head of the language model.

    Args:
        layer, head: from 0.
        alpha: previous-token score of mean embeddings, above its null. alpha_read: of the mean of what the layer reads.
        match: the largest α β of a pair whose upper head it is, with α of what is read. best: the lower head of that pair.
        gamma: in standard deviations of its null.
        previous, induction: mean attention to the previous token, and as an induction head.
    """

    layer: int
    head: int
    alpha: float
    alpha_read: float
    match: float
    best: str
    gamma: float
    previous: float
    induction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """Two scores of the same heads.

    Args:
        value: Spearman's rank correlation. low, high: 95 %, heads drawn anew.
        null_mean, null_high: mean and 97.5 % quantile when scores are shuffled among the heads of each layer.
    """

    value: float
    low: float
    high: float
    null_mean: float
    null_high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageFindings:
    """The language model.

    Args:
        name: of it. heads: all of them. even: attention of a head that attends to all alike, as an induction head.
        alpha, alpha_read: correlations of them with attention to the previous token.
        match, gamma: with attention as an induction head.
        num_top: heads that attend most as induction heads. num_candidates: heads of the largest match.
        found: share of the former among the latter. found_low, found_high: 95 %, sequences drawn anew.
        found_null: mean of the share when matches are shuffled among the heads of each layer.
    """

    name: str
    heads: tuple[HeadFinding, ...]
    even: float
    alpha: Correlation
    alpha_read: Correlation
    match: Correlation
    gamma: Correlation
    num_top: int
    num_candidates: int
    found: float
    found_low: float
    found_high: float
    found_null: float
