"""How many directions a core has: three rules, and the curve from which anyone can apply another.

Two of the rules look at singular values of H Jᵀ only. ``by_energy(share)`` takes the smallest k with Σ_{i<=k} σ_i² >= share Σ
σ_i² (arXiv:2602.22600 uses .999 for Markov chains); ``by_gap()`` the largest ratio σ_k / σ_{k+1} among the first eight. The
third asks the model: ``by_sufficiency(tolerance)`` is the smallest k of which ``keep`` loses at most ``tolerance`` of what the
site carries,

    metric(keep_k) - metric(full)  <=  tolerance x (metric(site set to its mean) - metric(full)).

Energy rules drift with training and width; on one Markov model .9 gives 2, .999 gives 3 and .9999 gives 4. Print them, judge
by the causal rule.

>>> import torch
>>> sigma = torch.tensor([4.0, 2.0, 0.04, 0.01])
>>> rank_by_spectrum(by_energy(0.999), sigma), rank_by_spectrum(by_gap(), sigma)
((2, 'energy 0.999'), (2, 'largest gap of the first 8'))
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from invariscope.errors import ConfigError, RankError

__all__ = [
    "EnergyRule",
    "GapRule",
    "Rank",
    "RankCurve",
    "SufficiencyRule",
    "by_energy",
    "by_gap",
    "by_sufficiency",
    "numerical_rank",
    "rank_by_spectrum",
]

GAP_CANDIDATES = 8
# A direction whose σ is below this share of the largest is rounding.
CARRIED = 1e-12


@dataclass(frozen=True, slots=True)
class EnergyRule:
    """Smallest k with the given share of Σ σ²."""

    share: float

    @property
    def name(self) -> str:
        """As written into provenance."""
        return f"energy {self.share:g}"


@dataclass(frozen=True, slots=True)
class GapRule:
    """The k of the largest σ_k / σ_{k+1} among the first eight."""

    @property
    def name(self) -> str:
        """As written into provenance."""
        return f"largest gap of the first {GAP_CANDIDATES}"


@dataclass(frozen=True, slots=True)
class SufficiencyRule:
    """Smallest k of which ``keep`` loses at most ``tolerance`` of what the site carries; ``metric`` None: cross-entropy."""

    tolerance: float
    metric: Any = None

    @property
    def name(self) -> str:
        """As written into provenance."""
        return f"keep loses at most {self.tolerance:g}"


Rank = int | EnergyRule | GapRule | SufficiencyRule


def by_energy(share: float) -> EnergyRule:
    """Rank rule: smallest k with Σ_{i<=k} σ_i² >= share Σ σ_i²."""
    if not 0 < share <= 1:
        raise ConfigError(f"by_energy({share})", expected="a share above 0 and at most 1", do="use .999, as the paper does")
    return EnergyRule(share)


def by_gap() -> GapRule:
    """Rank rule: the k of the largest ratio σ_k / σ_{k+1} among the first eight."""
    return GapRule()


def by_sufficiency(tolerance: float, metric: Any = None) -> SufficiencyRule:
    """Rank rule (``extract_core`` only): smallest k whose ``keep`` loses at most ``tolerance`` of what the site carries.

    Args:
        tolerance: share of (metric with the site set to its mean - metric in full), such as .02.
        metric: None: cross-entropy, exact where the batches know the law.
    """
    if not 0 < tolerance < 1:
        raise ConfigError(f"by_sufficiency({tolerance})", expected="a share between 0 and 1", do="use .02")
    return SufficiencyRule(tolerance, metric)


def numerical_rank(singular_values: Float[Tensor, "m"]) -> int:
    """How many directions the data carry: σ above 1e-12 of the largest."""
    if not len(singular_values) or not bool(singular_values[0] > 0):
        return 0
    return int((singular_values > CARRIED * singular_values[0]).sum())


def rank_by_spectrum(rank: Rank, singular_values: Float[Tensor, "m"]) -> tuple[int, str]:
    """The rank, and the name of the rule that gave it.

    Raises:
        RankError: for a rank below 1 or above what the data carry, or for a rule that needs the model.
    """
    carried = numerical_rank(singular_values)
    if carried == 0:
        raise RankError(
            "activations and Jacobians whose product is zero", expected="a direction that matters", do="check the objective"
        )
    if isinstance(rank, SufficiencyRule):
        raise RankError(
            "by_sufficiency where there is no model",
            expected="an int, by_energy or by_gap",
            do="call extract_core, which runs the model",
        )
    if isinstance(rank, EnergyRule):
        energy = singular_values.double().square().cumsum(0)
        # Rounding must not push the last direction over the whole.
        reached = int((energy >= rank.share * energy[-1] * (1 - 1e-12)).nonzero()[0]) + 1
        # Directions with σ below 1e-6 of the largest do not move a sum of squares; the whole is all that is carried.
        return carried if rank.share == 1 else min(reached, carried), rank.name
    if isinstance(rank, GapRule):
        return _largest_gap(singular_values, carried), rank.name
    if not isinstance(rank, int) or isinstance(rank, bool):
        raise RankError(f"rank {rank!r}", expected="an int, by_energy(...), by_gap() or by_sufficiency(...)", do="choose one")
    if not 1 <= rank <= carried:
        raise RankError(
            f"rank {rank} of a site of dimension {len(singular_values)}",
            expected=f"1 to {carried}: the data carry no more directions",
            do="ask for a smaller rank, or give more samples or outputs",
        )
    return rank, "given"


def _largest_gap(singular_values: Tensor, carried: int) -> int:
    largest = min(GAP_CANDIDATES, carried, len(singular_values) - 1)
    if largest < 1:
        return 1
    # σ that are rounding count as the smallest that is not.
    values = singular_values.double().clamp_min(CARRIED * float(singular_values[0]))
    return int((values[:largest] / values[1 : largest + 1]).argmax()) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCurve:
    """What each rank keeps and what its removal costs, at one site.

    Args:
        metric, unit: what was measured. projection: of the cores.
        ranks: k, ascending from 1.
        keep, remove: the metric under each edit, one value a rank.
        full: the metric of the unedited model. mean: with the site set to its mean. chance: of the best constant answer.
        num: rows behind each value.
        higher_is_better: of the metric.
    """

    metric: str
    unit: str
    projection: str
    ranks: tuple[int, ...]
    keep: tuple[float, ...]
    remove: tuple[float, ...]
    full: float
    mean: float
    chance: float
    num: int
    higher_is_better: bool = False

    def keep_loss(self) -> tuple[float, ...]:
        """Per rank: share of (mean - full) that keeping the core alone loses; 0 is none, 1 is all; NaN where mean = full."""
        return _shares(self.keep, self.full, self.mean)

    def removed(self) -> tuple[float, ...]:
        """Per rank: how far removal goes from full to chance; 1 is all the way; NaN where chance = full."""
        return _shares(self.remove, self.full, self.chance)

    @property
    def better_than_chance(self) -> bool:
        """Whether the unedited model is better than both chance and the site's mean; no rule applies where not."""
        sign = -1 if self.higher_is_better else 1
        return sign * (self.mean - self.full) > 0 and sign * (self.chance - self.full) > 0

    def sufficient(self, tolerance: float) -> int | None:
        """Smallest rank whose ``keep`` loses at most ``tolerance``; None where none does, or the model is not above chance."""
        return self._first(loss <= tolerance for loss in self.keep_loss())

    def necessary(self, tolerance: float) -> int | None:
        """Smallest rank whose removal goes at least 1 - ``tolerance`` of the way to chance; scanned from 1."""
        return self._first(share >= 1 - tolerance for share in self.removed())

    def _first(self, holds: Any) -> int | None:
        if not self.better_than_chance:
            return None
        return next((rank for rank, good in zip(self.ranks, holds, strict=True) if good), None)

    def to_json(self) -> dict[str, Any]:
        """The curve as JSON values."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in dataclasses.asdict(self).items()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> RankCurve:
        """The curve that :meth:`to_json` wrote."""
        arguments: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
        return cls(**arguments)


def _shares(values: tuple[float, ...], start: float, end: float) -> tuple[float, ...]:
    if start == end:
        return tuple(math.nan for _ in values)
    return tuple((value - start) / (end - start) for value in values)
