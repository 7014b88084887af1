"""Similarity bars: canonical correlations between cores, component by component, beside their null and their controls.

Canonical correlations of independent data are not zero (at d = 40 and n = 100 they average .57), and a mean hides the
component that fails. So each component has its own bar, held out; a tick on each bar shows what the same procedure gives when
the two sides have nothing in common; and the same similarity between untrained models or random subspaces stands beside.

>>> pair = SimilarityBar(panel="12 states", name="seeds 0 and 1", heldout=(0.999, 0.998, 0.997), null=(0.05, 0.03, 0.01))
>>> draw_similarity_bars(SimilarityBars(bars=(pair,))).rows[2]
('12 states', 'seeds 0 and 1', 'core', 3, 0.997, None, 0.01)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from invariscope.figures.figure import Figure
from invariscope.figures.marks import Role, check_lengths, check_some, meta, pattern, slots
from invariscope.figures.panels import Panels

__all__ = ["SimilarityBar", "SimilarityBars", "draw_similarity_bars"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarityBar:
    """One comparison.

    Args:
        panel: the arm, such as the chain's name.
        name: the two sides, such as ``seeds 0 and 1`` or ``untrained pair``.
        heldout: the similarity of each component on held-out data, in [0, 1], largest first.
        fitted: the same on the data it was fitted on; empty where it was not kept.
        null: mean of each component under the null; empty where there is none.
        role: ``core`` or ``control``.
    """

    panel: str
    name: str
    heldout: tuple[float, ...]
    fitted: tuple[float, ...] = ()
    null: tuple[float, ...] = ()
    role: Role = "core"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarityBars:
    """The numbers of a similarity figure.

    Args:
        bars: in the order of drawing.
        measure: what the vertical axis shows.
        where: the site, for the title.
        note: a sentence for the end of the caption.
    """

    bars: tuple[SimilarityBar, ...]
    measure: str = "canonical correlation"
    where: str = ""
    note: str = ""


def draw_similarity_bars(numbers: SimilarityBars, *, name: str = "similarity_bars") -> Figure:
    """Draw one group of bars a component, one panel an arm.

    Args:
        numbers: what to draw.
        name: the figure's file name.

    Returns:
        The figure; its table has one row a comparison and component.

    Raises:
        TooFewSamplesError: without any comparison.
        ShapeError: where fitted or null values are not one a component.
    """
    check_some(name, "comparisons", numbers.bars)
    for bar in numbers.bars:
        given = {"heldout": bar.heldout, "fitted": bar.fitted or bar.heldout, "null": bar.null or bar.heldout}
        check_lengths(f"comparison {bar.name!r} in {bar.panel!r}", **given)
    arms = tuple(dict.fromkeys(bar.panel for bar in numbers.bars))
    slot_of = slots([(bar.name, bar.role) for bar in numbers.bars])
    panels = Panels(titles=arms, columns=min(len(arms), 2), height_pixels=280)
    layout = panels.layout(
        x={"title": {"text": "component"}, "type": "category", "showgrid": False},
        y={"title": {"text": numbers.measure}, "range": [0, 1.04], "dtick": 0.25},
    )
    layout |= {"barmode": "group", "scattermode": "group", "bargap": 0.2, "bargroupgap": 0.1, "scattergap": 0.2}
    traces: list[dict[str, Any]] = []
    seen: set[str] = set()
    for bar in numbers.bars:
        slot = slot_of[bar.name]
        shared = {"x": [str(k) for k in range(1, len(bar.heldout) + 1)], "offsetgroup": bar.name}
        shared |= panels.axes(arms.index(bar.panel))
        traces.append(
            {
                "type": "bar",
                "y": list(bar.heldout),
                "name": bar.name,
                "legendgroup": bar.name,
                "showlegend": bar.name not in seen,
                "marker": {"pattern": {"shape": pattern(slot, bar.role), "size": 6, "solidity": 0.35}, "line": {"width": 1.25}},
                "hovertemplate": f"component %{{x}}: %{{y:.4f}}<extra>{bar.name}</extra>",
                "meta": meta(slot, bar.role),
                **shared,
            }
        )
        seen.add(bar.name)
        if bar.null:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "y": list(bar.null),
                    "name": "null",
                    "legendgroup": "null",
                    "showlegend": "null" not in seen,
                    "legendrank": 2000,
                    "marker": {"symbol": "line-ew-open", "size": 13, "line": {"width": 2.5}},
                    "hovertemplate": f"component %{{x}}, null: %{{y:.4f}}<extra>{bar.name}</extra>",
                    "meta": meta(0, "reference"),
                    **shared,
                }
            )
            seen.add("null")
    ticks = (
        " Ticks: mean of the same component when the whole procedure runs on data with nothing in common."
        if "null" in seen
        else ""
    )
    caption = (
        f"{numbers.measure.capitalize()} of each component on held-out data, largest first. Full bars: pairs of trained "
        f"models; hatched: controls.{ticks}"
    )
    return Figure(
        name=name,
        title="Whether two seeds share one core" + (f" ({numbers.where})" if numbers.where else ""),
        caption=f"{caption} {numbers.note}".strip(),
        alt=_alt(numbers, arms),
        plot={"data": traces, "layout": layout},
        columns=("arm", "pair", "role", "component", f"{numbers.measure} (held out)", "fitted", "null mean"),
        rows=tuple(
            (bar.panel, bar.name, bar.role, index + 1, value, _at(bar.fitted, index), _at(bar.null, index))
            for bar in numbers.bars
            for index, value in enumerate(bar.heldout)
        ),
    )


def _at(values: tuple[float, ...], index: int) -> float | None:
    return values[index] if values else None


def _alt(numbers: SimilarityBars, arms: tuple[str, ...]) -> str:
    parts = [f"Grouped bar chart of {numbers.measure} by component, one panel an arm ({', '.join(arms)})."]
    parts += [f"{bar.panel}, {bar.name}: {', '.join(f'{value:.3f}' for value in bar.heldout)}." for bar in numbers.bars]
    return " ".join(parts)
