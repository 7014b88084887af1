"""Condition dots: one measured number under several conditions, a row each, with intervals and reference lines.

The form for an experiment with one treatment and many controls, such as a transplant: what matters is which rows lie at the
reference and which do not, and a row has room for the condition's full name.

>>> rows = [("core", 2.023, "core"), ("shuffled map", 2.45, "control")]
>>> dots = tuple(Condition(panel="0 into 1", name=name, value=value, role=role) for name, value, role in rows)
>>> figure = draw_condition_dots(ConditionDots(dots=dots, title="Transplant", caption="Lower is better."))
>>> [(trace["name"], trace["y"]) for trace in figure.plot["data"]]
[('core', [1]), ('shuffled map', [0])]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from invariscope.figures.figure import Figure
from invariscope.figures.marks import Role, check_some, interval_bars, meta, slots, symbol
from invariscope.figures.panels import Panels, panel_key, rank_line

__all__ = ["Condition", "ConditionDots", "draw_condition_dots"]

ROW_PIXELS = 44


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One row.

    Args:
        panel: the arm, such as ``seed 0 into seed 1``.
        name: the condition.
        value, low, high: the measured number and its interval.
        role: ``core`` for the treatment, ``control`` for what it is compared with.
    """

    panel: str
    name: str
    value: float
    low: float | None = None
    high: float | None = None
    role: Role = "control"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionDots:
    """What the figure shows.

    Args:
        dots: in the order of drawing, from above.
        references: vertical lines with their names.
        title, caption: of the figure.
        quantity, unit: what the horizontal axis shows; no unit for a pure number.
        columns: panels side by side on a wide page.
        span: of every horizontal axis, where panels are to be compared by eye; None: each its own.
    """

    dots: tuple[Condition, ...]
    title: str
    caption: str
    references: Mapping[str, float] = field(default_factory=dict)
    quantity: str = "cross-entropy"
    unit: str = "nats"
    columns: int = 1
    span: tuple[float, float] | None = None


def draw_condition_dots(numbers: ConditionDots, *, name: str = "condition_dots") -> Figure:
    """Draw one row a condition, one panel an arm.

    Args:
        numbers: what to draw.
        name: the figure's file name.

    Returns:
        The figure; its table has one row a condition.

    Raises:
        TooFewSamplesError: without any condition.
    """
    check_some(name, "conditions", numbers.dots)
    arms = tuple(dict.fromkeys(dot.panel for dot in numbers.dots))
    conditions = list(dict.fromkeys(dot.name for dot in numbers.dots))
    slot_of = slots([(dot.name, dot.role) for dot in numbers.dots])
    height = ROW_PIXELS * len(conditions) + 20
    panels = Panels(titles=arms, columns=numbers.columns, height_pixels=height, narrow_height_pixels=height, row_gap_pixels=96)
    axis = f"{numbers.quantity} ({numbers.unit})" if numbers.unit else numbers.quantity
    layout = panels.layout(
        x={"title": {"text": axis}, **({"range": list(numbers.span)} if numbers.span else {})},
        # Names stand above their row inside the panel: beside it a phone has no room for them.
        y={"range": [-0.6, len(conditions) - 0.2], "tickvals": list(range(len(conditions))), "showticklabels": False},
    )
    layout["showlegend"] = False
    traces: list[dict[str, Any]] = []
    for index, arm in enumerate(arms):
        layout["shapes"] += [rank_line(index, value) for value in numbers.references.values()]
        if numbers.references:
            layout["annotations"].append(
                panel_key(
                    index, ", ".join(f"\u00b7 \u00b7 \u00b7 {text} {value:.4g}" for text, value in numbers.references.items())
                )
            )
        for dot in numbers.dots:
            if dot.panel != arm:
                continue
            slot = slot_of[dot.name]
            layout["annotations"].append(_label(index, len(conditions) - 1 - conditions.index(dot.name), dot.name))
            trace = {
                "type": "scatter",
                "mode": "markers",
                "x": [dot.value],
                "y": [len(conditions) - 1 - conditions.index(dot.name)],
                "name": dot.name,
                "marker": {"symbol": symbol(slot, dot.role), "size": 11, "line": {"width": 1 if dot.role == "core" else 2}},
                "hovertemplate": f"{dot.name}: %{{x:.4f}} {numbers.unit}".rstrip() + f"<extra>{arm}</extra>",
                "meta": meta(0, dot.role),
                **panels.axes(index),
            }
            errors = interval_bars([dot.value], [dot.low], [dot.high])
            traces.append(trace | ({"error_x": errors} if errors else {}))
    rows = tuple((dot.panel, dot.name, dot.role, dot.value, dot.low, dot.high) for dot in numbers.dots)
    return Figure(
        name=name,
        title=numbers.title,
        caption=numbers.caption,
        alt=_alt(numbers, arms),
        plot={"data": traces, "layout": layout},
        columns=("arm", "condition", "role", axis, "low", "high"),
        rows=rows,
    )


def _label(index: int, row: int, text: str) -> dict[str, Any]:
    """The name of a row, above its line at the left end of panel ``index``."""
    suffix = "" if index == 0 else str(index + 1)
    return {
        "name": "label",
        "text": text,
        "xref": f"x{suffix} domain",
        "yref": f"y{suffix}",
        "x": 0,
        "y": row,
        "xanchor": "left",
        "yanchor": "bottom",
        "xshift": 4,
        "yshift": 6,
        "showarrow": False,
        "font": {"size": 11},
    }


def _alt(numbers: ConditionDots, arms: tuple[str, ...]) -> str:
    quantity = f"{numbers.quantity} in {numbers.unit}" if numbers.unit else numbers.quantity
    parts = [f"Dot plot of {quantity}, one row a condition, one panel an arm ({', '.join(arms)})."]
    for arm in arms:
        values = [f"{dot.name} {dot.value:.4g}" for dot in numbers.dots if dot.panel == arm]
        parts.append(f"{arm}: {', '.join(values)}.")
    parts += [f"Line: {text} {value:.4g}." for text, value in numbers.references.items()]
    return " ".join(parts)
