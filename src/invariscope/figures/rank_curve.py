"""Rank curve: what is lost when only the first k directions are kept, and what is destroyed when they are removed.

The question behind a core's rank k: from which k on is it *sufficient* (keeping it alone loses almost nothing) and
*necessary* (removing it leaves nothing)? Both are read on one scale, the way from the cross-entropy of the full model (0 %) to
the cross-entropy with the site set to its mean activation (100 %); arXiv:2602.22600 scans the same two curves over accuracy.
Below stand the singular values of H Jᵀ, on a logarithmic axis, for the rank that the data alone would suggest.

>>> curve = RankSeries(
...     panel="four states", name="seed 0", rank=3, keep_loss=(40.0, 12.0, 0.1), removed=(55.0, 90.0, 100.2),
...     singular_values=(1.0, 0.63, 0.27),
... )
>>> draw_rank_curve(RankCurves(series=(curve,))).rows[2]
('four states', 'seed 0', 3, 0.1, 100.2, 0.27)
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from invariscope.figures.figure import Figure
from invariscope.figures.marks import Role, check_some, meta, slots, symbol
from invariscope.figures.panels import Panels, level_line, panel_key, rank_line

__all__ = ["RankCurves", "RankSeries", "draw_rank_curve"]

_KEEP, _REMOVE, _SINGULAR = 0, 1, 2
_MAX_ACROSS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSeries:
    """One model's curves.

    Args:
        panel: the arm, such as the chain's name; one pair of panels each.
        name: the model, such as ``seed 0``.
        keep_loss: per cent of the way to the mean activation that is lost when the first k directions are kept, k = 1, 2, ...
            None where that rank has no core.
        removed: per cent of the way that is covered when they are removed.
        singular_values: of H Jᵀ, divided by the largest.
        rank: the rank that was chosen, marked in the panel.
        role: ``core`` for a trained model, ``control`` for one that is compared with it.
    """

    panel: str
    name: str
    keep_loss: tuple[float | None, ...]
    removed: tuple[float | None, ...]
    singular_values: tuple[float, ...]
    rank: int | None = None
    role: Role = "core"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCurves:
    """The numbers of a rank curve.

    Args:
        series: the models, in the order of the legend.
        sufficient_percent: the mark below which keeping is sufficient.
        necessary_percent: the mark above which removing shows necessity.
        where: the site and the projection, for the title.
        note: a sentence for the end of the caption.
    """

    series: tuple[RankSeries, ...]
    sufficient_percent: float = 2.0
    necessary_percent: float = 98.0
    where: str = ""
    note: str = ""


def draw_rank_curve(numbers: RankCurves, *, name: str = "rank_curve") -> Figure:
    """Draw a rank curve, one column of two panels an arm.

    Args:
        numbers: what to draw.
        name: the figure's file name.

    Returns:
        The figure; its table has one row a model and rank.

    Raises:
        TooFewSamplesError: without any series.
    """
    check_some(name, "series", numbers.series)
    arms = tuple(dict.fromkeys(series.panel for series in numbers.series))
    slot_of = slots([(series.name, series.role) for series in numbers.series])
    # Up to three arms: effects above, singular values below. More: one row an arm.
    across = len(arms) <= _MAX_ACROSS
    order = [(arm, below) for below in (False, True) for arm in arms] if across else [(a, b) for a in arms for b in (False, True)]
    panels = Panels(titles=tuple(arm for arm, _ in order), columns=len(arms) if across else 2, height_pixels=250)
    top = max((len(series.removed) for series in numbers.series), default=1)
    effect_axis = {"title": {"text": "% of the way to the mean"}, "rangemode": "tozero"}
    singular_axis = {"title": {"text": "share of the largest"}, "type": "log", "exponentformat": "none", "dtick": 1}
    layout = panels.layout(
        x={"title": {"text": "rank k"}, "dtick": 1, "range": [0.6, top + 0.4]},
        y=[singular_axis if below else effect_axis for _, below in order],
    )
    layout["annotations"] += [
        panel_key(index, "singular values" if below else "kept alone, removed") for index, (_, below) in enumerate(order)
    ]
    layout["legend"] = {"traceorder": "grouped"}
    for arm in arms:
        index = order.index((arm, False))
        layout["shapes"] += [
            level_line(index, numbers.sufficient_percent, f"sufficient: {numbers.sufficient_percent:g} %"),
            level_line(index, numbers.necessary_percent, f"necessary: {numbers.necessary_percent:g} %", below=True),
        ]
        for rank in sorted({series.rank for series in numbers.series if series.panel == arm and series.rank is not None}):
            layout["shapes"] += [rank_line(index, rank), rank_line(order.index((arm, True)), rank)]
    traces: list[dict[str, Any]] = []
    seen: set[int] = set()
    for series in numbers.series:
        slot = slot_of[series.name]
        for kind, text, values in (
            (_KEEP, "kept alone: lost", series.keep_loss),
            (_REMOVE, "removed: destroyed", series.removed),
            (_SINGULAR, "singular values", tuple(value if value > 0 else None for value in series.singular_values)),
        ):
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers",
                    "cliponaxis": False,
                    "x": list(range(1, len(values) + 1))[:top],
                    "y": list(values)[:top],
                    "name": text,
                    "legendgroup": text,
                    "showlegend": kind not in seen,
                    "line": {"dash": ("solid", "dash", "dot")[kind], "width": 2},
                    "marker": {"symbol": symbol(slot, series.role) + ("-open" if kind == _REMOVE else ""), "size": 8},
                    "hovertemplate": f"{series.name}, k = %{{x}}: %{{y:.4g}}<extra>{text}</extra>",
                    "meta": meta(kind, series.role),
                    **panels.axes(order.index((series.panel, kind == _SINGULAR))),
                }
            )
            seen.add(kind)
    models = ", ".join(f"{model} {symbol(slot, _role(numbers, model))}" for model, slot in slot_of.items())
    caption = (
        "The share of the way from the full model's cross-entropy (0\u00a0%) to the cross-entropy at the mean activation "
        "(100\u00a0%) that is lost when only the first k directions are kept (solid, filled), and covered when they are removed "
        "(dashed, open). "
        "A core suffices where the solid line is below the lower mark and is necessary where the dashed line is above the upper "
        f"one; the dotted upright marks the chosen rank. The other panels hold the singular values of H Jᵀ. Symbols: {models}."
    )
    return Figure(
        name=name,
        title="How many directions carry the computation" + (f" ({numbers.where})" if numbers.where else ""),
        caption=f"{caption} {numbers.note}".strip(),
        alt=_alt(numbers, arms),
        plot={"data": traces, "layout": layout},
        columns=("arm", "model", "rank", "kept alone: lost (%)", "removed: destroyed (%)", "singular value / largest"),
        rows=tuple(
            (series.panel, series.name, rank, keep, removed, singular)
            for series in numbers.series
            for rank, (keep, removed, singular) in enumerate(
                zip_longest(series.keep_loss, series.removed, series.singular_values), start=1
            )
        ),
    )


def _role(numbers: RankCurves, model: str) -> Role:
    return next(series.role for series in numbers.series if series.name == model)


def _alt(numbers: RankCurves, arms: tuple[str, ...]) -> str:
    parts = [f"Line chart against rank, one column an arm ({', '.join(arms)})."]
    for series in numbers.series:
        if series.rank is None or not 1 <= series.rank <= min(len(series.keep_loss), len(series.removed)):
            continue
        keep, removed = series.keep_loss[series.rank - 1], series.removed[series.rank - 1]
        if keep is not None and removed is not None:
            parts.append(
                f"{series.panel}, {series.name}: keeping {series.rank} loses {keep:.2g} %, removing destroys {removed:.4g} %."
            )
    return " ".join(parts)
