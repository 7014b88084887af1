"""Extract the core of a model at a site: moments from data, a rank by rule, the projection back (arXiv:2602.22600).

>>> from invariscope.models import Transformer, TransformerConfig
>>> from invariscope.tasks import MarkovChain
>>> task = MarkovChain([[0.9, 0.1], [0.5, 0.5]], 4)
>>> shape = TransformerConfig(vocab_size=2, context_length=4, width=8, num_heads=2, mlp_width=8)
>>> model = Transformer(shape, generator=torch.Generator().manual_seed(0))
>>> batches = task.batches(64, batch_size=32, seed=0, pool="train")
>>> core = extract_core(model, batches, site="blocks.0.resid_mid", positions="all", rank=1)
>>> core.dim, core.rank, core.provenance.num_samples
(8, 1, 256)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import torch
from torch import nn

from invariscope.batch import Batch, check_batches
from invariscope.cores.core import Core, Provenance
from invariscope.cores.measure import Edit, check_any, measure_edits
from invariscope.cores.metrics import Metric, cross_entropy, metric_value
from invariscope.cores.moments import MAX_CONDITION, Moments
from invariscope.cores.ranks import Rank, RankCurve, SufficiencyRule, numerical_rank
from invariscope.errors import RankError
from invariscope.models import fingerprint
from invariscope.positions import Positions, Rows, describe_positions
from invariscope.sites import LogitsOf, Objective, logits, resolve_sketch, site_gradients

__all__ = ["collect_moments", "extract_core", "rank_curve"]


def collect_moments(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    sites: Sequence[str],
    objective: Objective | None = None,
    positions: Positions = "last",
    outputs_at: Positions | None = None,
    reach: Literal["same", "later"] = "same",
    sketch: int | Literal["auto"] | None = "auto",
    generator: torch.Generator | None = None,
    logits_of: LogitsOf | None = None,
) -> dict[str, Moments]:
    """Moments at every site, in one forward pass a batch.

    Args:
        model: any module.
        batches: re-iterable batches.
        sites: names, see :mod:`invariscope.sites.names`.
        objective: None: ``logits()``, all log-probabilities.
        positions, outputs_at, reach, sketch, logits_of: as in :func:`invariscope.sites.site_gradients`.
        generator: of the sketch's signs; None: seed 0.

    Raises:
        ReiterableError, UnknownNameError, PositionError, NonFiniteError, TooFewSamplesError: each with what to do.
    """
    objective = logits() if objective is None else objective
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    moments: dict[str, Moments] = {}
    name = fingerprint(model)
    for batch in check_batches(batches):
        found = site_gradients(
            model,
            batch,
            sites=sites,
            objective=objective,
            positions=positions,
            outputs_at=outputs_at,
            reach=reach,
            sketch=sketch,
            generator=generator,
            logits_of=logits_of,
        )
        for site, gradients in found.items():
            if site not in moments:
                num_rows = gradients.jacobians.shape[1]
                moments[site] = Moments(
                    gradients.activations.shape[1],
                    provenance=Provenance(
                        site=site,
                        positions=describe_positions(positions),
                        outputs_at=describe_positions(positions if outputs_at is None else outputs_at),
                        objective=objective.name,
                        reach=reach,
                        sketch=resolve_sketch(sketch, objective.num_outputs or num_rows),
                        model=name,
                    ),
                    device=gradients.activations.device,
                )
            rows = gradients.rows
            moments[site].update(gradients.activations, gradients.jacobians, labels=rows.labels, weights=rows.weights)
    check_any(list(moments))
    return moments


def extract_core(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    site: str,
    objective: Objective | None = None,
    positions: Positions = "last",
    rank: Rank,
    projection: str = "oblique",
    outputs_at: Positions | None = None,
    reach: Literal["same", "later"] = "same",
    sketch: int | Literal["auto"] | None = "auto",
    generator: torch.Generator | None = None,
    logits_of: LogitsOf | None = None,
) -> Core:
    """The core of ``model`` at ``site``.

    Args:
        rank: an int, ``by_energy``, ``by_gap`` or ``by_sufficiency``; with the last, ``core.rank_curve`` holds the whole curve.
        projection: ``activation``, ``adjoint`` or ``oblique``.
        The others: as in :func:`collect_moments`.

    Raises:
        RankError: for a rank above what the data carry, or where no rank suffices; and as :func:`collect_moments` does.
    """
    moments = collect_moments(
        model,
        batches,
        sites=[site],
        objective=objective,
        positions=positions,
        outputs_at=outputs_at,
        reach=reach,
        sketch=sketch,
        generator=generator,
        logits_of=logits_of,
    )[site]
    if not isinstance(rank, SufficiencyRule):
        return moments.core(rank, projection)
    metric = rank.metric or cross_entropy()
    curve = rank_curve(
        moments,
        model,
        batches,
        metric=metric,
        projection=projection,
        positions=positions,
        outputs_at=outputs_at,
        max_rank=None,
        stop_at=rank.tolerance,
        logits_of=logits_of,
    )
    chosen = curve.sufficient(rank.tolerance)
    if chosen is None:
        raise RankError(
            f"by_sufficiency({rank.tolerance:g}) at {site!r}: full {curve.full:.4g}, site at its mean {curve.mean:.4g}, chance "
            f"{curve.chance:.4g} {curve.unit}, best keep {min(curve.keep, key=lambda value: abs(value - curve.full)):.4g}",
            expected="a model above chance, and a rank whose keep suffices",
            do="train the model, give more samples, or choose the rank by by_energy(...)",
        )
    core = moments.core(chosen, projection)
    provenance = dataclasses.replace(core.provenance, rank_rule=f"{rank.name} of {metric.name}")
    return dataclasses.replace(core, provenance=provenance, rank_curve=curve)


CURVE_RANKS = 8


def rank_curve(
    moments: Moments,
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    metric: Metric | None = None,
    projection: str = "oblique",
    positions: Positions,
    outputs_at: Positions | None = None,
    max_rank: int | None = CURVE_RANKS,
    stop_at: float | None = None,
    logits_of: LogitsOf | None = None,
) -> RankCurve:
    """What each rank from 1 on keeps and what its removal costs, measured on ``batches``.

    Args:
        moments: of this model at its site.
        metric: None: cross-entropy, exact where the batches know the law.
        max_rank: largest rank; None: all that the data carry and the projection allows.
        stop_at: measure eight ranks at a time, and stop once one loses at most this share, or the model is at chance.

    Returns:
        The curve; ranks at which the oblique projector does not exist are left out.

    Raises:
        RankError: for a ``max_rank`` below 1, or where activations and Jacobians have no direction in common.
    """
    metric = metric or cross_entropy()
    site, mean = moments.provenance.site, moments.mean
    outputs_at = positions if outputs_at is None else outputs_at
    possible = _largest_rank(moments, projection)
    largest = possible if max_rank is None else min(max_rank, possible)

    if largest < 1:
        raise RankError(
            f"a rank curve up to {largest} at {site!r}",
            expected="at least rank 1, and a direction that matters",
            do="give a larger max_rank, or check the objective" if possible else "check the objective",
        )

    def constant(rows: torch.Tensor) -> torch.Tensor:
        return mean.to(rows).expand_as(rows)

    values: dict[tuple[str, int], float] = {}
    curve: RankCurve | None = None
    edits: dict[tuple[str, int], Edit | None] = {("full", 0): None, ("mean", 0): constant}
    for start in range(1, largest + 1, CURVE_RANKS):
        ranks = range(start, min(start + CURVE_RANKS, largest + 1))
        cores = {k: moments.core(k, projection) for k in ranks}
        edits |= {("keep", k): core.keep for k, core in cores.items()} | {("remove", k): core.remove for k, core in cores.items()}
        measured, rows = measure_edits(
            model, batches, edits, [metric], site=site, positions=positions, outputs_at=outputs_at, logits_of=logits_of
        )
        values |= {key: metric_value(metric, column, rows) for (key, _), column in measured.items()}
        edits = {}
        curve = _curve(metric, projection, values, rows)
        if stop_at is not None and (curve.sufficient(stop_at) is not None or not curve.better_than_chance):
            break
    assert curve is not None
    return curve


def _curve(metric: Metric, projection: str, values: Mapping[tuple[str, int], float], rows: Rows) -> RankCurve:
    ranks = tuple(sorted(k for edit, k in values if edit == "keep"))
    chance = metric.chance(rows)
    return RankCurve(
        metric=metric.name,
        unit=metric.unit,
        projection=projection,
        ranks=ranks,
        keep=tuple(values["keep", k] for k in ranks),
        remove=tuple(values["remove", k] for k in ranks),
        full=values["full", 0],
        mean=values["mean", 0],
        chance=values["mean", 0] if chance is None else chance,
        num=rows.num,
        higher_is_better=metric.higher_is_better,
    )


def _largest_rank(moments: Moments, projection: str) -> int:
    sigma = moments.singular_values
    carried = numerical_rank(sigma)
    if projection != "oblique":
        return carried
    return min(carried, int((sigma * MAX_CONDITION >= sigma[0]).sum()))
