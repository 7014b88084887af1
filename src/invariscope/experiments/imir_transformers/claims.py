"""The claims of ``imir-transformers`` and their marks, written down before the runs.

What was looked at before: a training of seed 0, and other sequences of the same language model, on which the definition of a
head's match (α of what is read, times β) was found. α of trainings is over labels since the first run of ``quick``, in which α
over all places missed the mark; that one stands as a control.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from invariscope.experiments.imir_transformers.config import Config
from invariscope.experiments.imir_transformers.findings import Correlation, LanguageFindings, TrainingFindings
from invariscope.manifold import InductionMoment, InductionSeries
from invariscope.storage.claims import Claim, Control, Mark

__all__ = ["LEARNT", "MARKS", "make_claims"]

PAPER = "arXiv:2607.11875"
PATTERNS = "arXiv:2209.11895"
LEARNT = 0.95
"""Accuracy from which questions count as learnt."""
MARKS = {
    "circuit-stands-out": Mark(kind="at_least", target=2.0),
    "memory-first": Mark(kind="at_most", target=0.5),
    "rarer-later": Mark(kind="above", target=1.0),
    "context-pulls": Mark(kind="at_least", target=0.9),
    "memory-answers-conflicts": Mark(kind="at_least", target=0.5),
    "language-previous-token": Mark(kind="at_least", target=0.5),
    "language-previous-token-read": Mark(kind="at_least", target=0.5),
    "language-match": Mark(kind="at_least", target=0.5),
    "language-induction-heads": Mark(kind="at_least", target=0.5),
}


def make_claims(
    config: Config, trainings: Sequence[TrainingFindings], language: LanguageFindings | None, *, preset: str
) -> list[Claim]:
    """Every claim with its number.

    Args:
        config: what was run. trainings, language: what came out. preset: its name.
    """
    series = [one.series for one in trainings]
    learnt = [one for one in series if one.first("rare", LEARNT) is not None]
    everywhere = [one.alpha_everywhere for one in trainings if one.series in learnt]
    found = [
        _of_trainings(
            config,
            "circuit-stands-out",
            "A model that has learnt recall has an induction circuit: least of α, β, γ above its null",
            [_least_z(one.moments[-1]) for one in learnt],
            [
                Control(
                    name="before training",
                    value=max((_least_z(one.moments[0]) for one in learnt), default=None),
                    mark=Mark(kind="below", target=2.0),
                ),
                Control(name="α over all places", value=min(everywhere, default=None)),
            ],
            unit="standard deviations of the null",
            figure="coordinates",
            note=f"{_learnt(learnt, series)} {_values(learnt)} α is over the places of labels, as in the manifold, since a first "
            "run in which α over all places missed the mark: items have no reason to look back.",
            preset=preset,
        ),
        _of_trainings(
            config,
            "memory-first",
            "Memory is learnt before induction: step at which common questions are answered over that for rare ones",
            [_first(one, "common") / _first(one, "rare") for one in learnt],
            [
                Control(
                    name="rare questions right by then",
                    value=max((_at(one, _first(one, "common")).rare or 0.0 for one in learnt), default=None),
                    mark=Mark(kind="below", target=0.5),
                )
            ],
            unit="ratio",
            figure="answers",
            note=_learnt(learnt, series),
            preset=preset,
        ),
        _rarer_later(config, trainings, preset),
        _of_trainings(
            config,
            "context-pulls",
            "Once memory is learnt, what pulls at the circuit are questions that only the context answers: their share of the "
            "pull on α, β, γ",
            [statistics.median(map(_context_share, between)) for one in learnt if (between := _between(one))],
            [
                Control(
                    name="before training",
                    value=max((_context_share(one.moments[0]) for one in learnt), default=None),
                    mark=Mark(kind="below", target=0.9),
                )
            ],
            unit="share",
            figure="coordinates",
            note="Median over checkpoints from where common questions are answered to where rare ones are.",
            preset=preset,
        ),
        _of_trainings(
            config,
            "memory-answers-conflicts",
            "Where both are learnt and disagree, memory answers: share of conflicts",
            [one.moments[-1].conflict_memory or 0.0 for one in learnt],
            [
                Control(name="the context", value=max((one.moments[-1].conflict_context or 0.0 for one in learnt), default=None)),
                Control(
                    name="memory, before training",
                    value=max((one.moments[0].conflict_memory or 0.0 for one in learnt), default=None),
                    mark=Mark(kind="below", target=0.5),
                ),
            ],
            unit="share",
            figure="answers",
            note="Contexts of common items that have exchanged their partners.",
            preset=preset,
        ),
    ]
    return found if language is None else [*found, *_of_language(language, preset)]


def _of_trainings(
    config: Config,
    name: str,
    statement: str,
    values: Sequence[float],
    controls: Sequence[Control],
    *,
    unit: str,
    figure: str,
    note: str,
    preset: str,
) -> Claim:
    """Judged by the training that does worst; the interval goes over all."""
    worst = max if MARKS[name].kind == "at_most" else min
    return Claim(
        id=f"imir-transformers/{name}",
        statement=statement,
        source=PAPER,
        unit=unit,
        mark=MARKS[name],
        measured=worst(values, default=None),
        low=min(values, default=None),
        high=max(values, default=None),
        num=len(values),
        seeds=config.seeds,
        controls=tuple(controls),
        note=note,
        figure=figure,
        preset=preset,
    )


def _rarer_later(config: Config, trainings: Sequence[TrainingFindings], preset: str) -> Claim:
    most, least = config.rare_shares[0], config.rare_shares[-1]
    steps = {(one.rare_share, one.seed): one.series.first("rare", LEARNT) for one in trainings}
    end = config.train.steps
    values = [
        (steps[least, seed] or end) / at for seed in config.seeds if least != most and (at := steps[most, seed]) is not None
    ]
    never = sum(steps[least, seed] is None for seed in config.seeds)
    bound = (
        f" In {never} of {len(config.seeds)} trainings rare questions were not learnt by the end, which counts." if never else ""
    )
    return _of_trainings(
        config,
        "rarer-later",
        f"The rarer the rare questions, the later induction: steps at f_r = {least:g} over those at {most:g}",
        values,
        [Control(name="gradient flow with memory at once (f)", value=most / least)],
        unit="ratio",
        figure="answers",
        note=f"AdamW, which takes much of a gradient's size away.{bound}",
        preset=preset,
    )


def _of_language(found: LanguageFindings, preset: str) -> list[Claim]:
    def claim(name: str, statement: str, scores: Correlation, figure: str, note: str) -> Claim:
        return Claim(
            id=f"imir-transformers/{name}",
            statement=f"{statement}: rank correlation over {len(found.heads)} heads of {found.name}",
            source=PATTERNS,
            unit="Spearman's ρ",
            mark=MARKS[name],
            measured=scores.value,
            low=scores.low,
            high=scores.high,
            num=len(found.heads),
            seeds=(),
            controls=(
                Control(name="shuffled among the heads of a layer", value=scores.null_mean, mark=Mark(kind="below", target=0.5)),
                Control(name="the same, 97.5 % quantile", value=scores.null_high),
            ),
            note=note,
            figure=figure,
            preset=preset,
        )

    top = sorted(found.heads, key=lambda head: -head.induction)[: found.num_top]
    names = ", ".join(f"{head.layer}.{head.head}" for head in top)
    return [
        claim(
            "language-previous-token",
            "α of embeddings alone says which heads attend to the previous token",
            found.alpha,
            "heads",
            "A layer reads much else than embeddings.",
        ),
        claim(
            "language-previous-token-read",
            "α of the mean of what each layer reads says it",
            found.alpha_read,
            "heads",
            "Random tokens, other ones than those of the patterns.",
        ),
        claim(
            "language-match",
            "The largest α β says which heads attend as induction heads",
            found.match,
            "heads",
            f"γ alone: ρ = {found.gamma.value:.2f}. Most heads are no induction heads, and their order is of no interest: the "
            "next claim asks for those that are.",
        ),
        Claim(
            id="imir-transformers/language-induction-heads",
            statement=f"Of the {found.num_top} heads that attend most as induction heads, a share is among the "
            f"{found.num_candidates} of the largest α β",
            source=PATTERNS,
            unit="share",
            mark=MARKS["language-induction-heads"],
            measured=found.found,
            low=found.found_low,
            high=found.found_high,
            num=found.num_top,
            seeds=(),
            controls=(
                Control(name="shuffled among the heads of a layer", value=found.found_null, mark=Mark(kind="below", target=0.5)),
                Control(name="any heads", value=found.num_candidates / len(found.heads)),
            ),
            note=f"{names}; their attention is {top[-1].induction:.2f} to {top[0].induction:.2f}, an even one {found.even:.2f}.",
            figure="heads",
            preset=preset,
        ),
    ]


def _least_z(moment: InductionMoment) -> float:
    return min(one.z for one in moment.coordinates if one.name != "δ")


def _context_share(moment: InductionMoment) -> float:
    circuit = [one for one in moment.coordinates if one.name != "δ"]
    context, common = sum(abs(one.context_pull) for one in circuit), sum(abs(one.common_pull) for one in circuit)
    return context / (context + common) if context + common > 0 else 0.0


def _first(series: InductionSeries, name: str) -> int:
    """The step at which questions are learnt; the last one's where they never are."""
    found = series.first(name, LEARNT)
    return series.moments[-1].step if found is None else found


def _at(series: InductionSeries, step: int) -> InductionMoment:
    return next(moment for moment in series.moments if moment.step == step)


def _between(series: InductionSeries) -> list[InductionMoment]:
    first, last = _first(series, "common"), _first(series, "rare")
    return [moment for moment in series.moments if first <= moment.step < last]


def _learnt(learnt: Sequence[InductionSeries], series: Sequence[InductionSeries]) -> str:
    return f"{len(learnt)} of {len(series)} trainings have learnt recall (rare questions {LEARNT:g}) by the end."


def _values(learnt: Sequence[InductionSeries]) -> str:
    if not learnt:
        return ""
    return "At the end of the first: " + ", ".join(str(one) for one in learnt[0].moments[-1].coordinates) + "."
