"""The figures of a core over training: two planes that move, and curves with a cursor."""

from __future__ import annotations

from invariscope.experiments.markov_cores.claims import MARKS
from invariscope.experiments.markov_cores.config import Config
from invariscope.experiments.markov_cores.findings import Findings, FollowFindings
from invariscope.figures import (
    CoreOverTraining,
    Figure,
    FollowCurve,
    FollowCurves,
    draw_core_over_training,
    draw_follow_curves,
)

__all__ = ["draw_followed"]

COORDINATES = {"core": "core's coordinates", "law": "next-token law read from the core"}


def draw_followed(config: Config, findings: Findings) -> list[Figure]:
    """Both figures of the model that was followed; none where none was."""
    return [figure for found in findings.followed for figure in (_planes(config, found), _curves(config, found))]


def _where(config: Config, found: FollowFindings) -> str:
    return f"{config.arms()[found.arm].chain}, seed {found.seed}, after attention"


def _planes(config: Config, found: FollowFindings) -> Figure:
    labels = config.task(found.arm).groups
    return draw_core_over_training(
        CoreOverTraining.from_series(
            found.series,
            groups=() if labels is None else tuple(int(labels[token]) for token in found.series.tokens),
            grouped_by="the state's group in the chain",
            where=_where(config, found),
            note=f"Adjoint cores of rank {found.series.rank}; the operator is fitted on the "
            f"{COORDINATES[found.series.coordinates]} at {found.series.operator_sequences} sequences. Step 0 is the model before "
            "training.",
        )
    )


def _curves(config: Config, found: FollowFindings) -> Figure:
    series = found.series
    return draw_follow_curves(
        FollowCurves(
            curves=(FollowCurve.from_series(series, name=f"seed {found.seed}"),),
            overlap_chance=series.checkpoints[0].overlap.null_mean,
            expected_rank=series.rank,
            spectrum_mark=MARKS["spectrum"].target,
            cursor=True,
            where=_where(config, found),
            note="The rank marked is the number of the chain's eigenvalues that are not 0.",
        ),
        name="core_over_training_curves",
    )
