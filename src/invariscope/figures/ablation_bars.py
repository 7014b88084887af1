"""Ablation bars: what keeping, removing and flipping does to the cross-entropy, the core beside its controls.

A core is worth something only if *other* subspaces of the same rank do less, so every edit is drawn for the core and, hatched,
for each control: random subspaces, principal components, gradients, an untrained model. Two lines say what the numbers mean:
the best possible cross-entropy (the optimum) and that of a model which knows nothing but frequencies (chance).

>>> bars = tuple(
...     Ablation(panel="four states", edit=edit, name=name, role=role, value=value)
...     for edit, name, role, value in [("keep", "core", "core", 0.926), ("keep", "random", "control", 1.31)]
... )
>>> figure = draw_ablation_bars(AblationBars(bars=bars, chance={"four states": 1.358}, optimum={"four states": 0.926}))
>>> [trace["name"] for trace in figure.plot["data"]]
['core', 'random']
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from invariscope.figures.figure import Figure
from invariscope.figures.marks import Role, check_some, interval_bars, meta, pattern, slots
from invariscope.figures.panels import DASH_SIGNS, Panels, level_line, panel_key

__all__ = ["Ablation", "AblationBars", "draw_ablation_bars"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """One bar.

    Args:
        panel: the arm, such as the chain's name.
        edit: the group of bars: ``full``, ``keep``, ``remove`` or ``flip``.
        name: the subspace or model, such as ``core`` or ``random``.
        value: the metric, in ``AblationBars.unit``.
        low, high: its interval.
        role: ``core`` or ``control``.
    """

    panel: str
    edit: str
    name: str
    value: float
    low: float | None = None
    high: float | None = None
    role: Role = "control"


@dataclass(frozen=True, slots=True, kw_only=True)
class AblationBars:
    """The numbers of an ablation figure.

    Args:
        bars: in the order of drawing.
        chance, optimum: reference values, one an arm.
        metric: what the vertical axis shows.
        unit: its unit.
        intervals: what the error bars are, for the caption.
        where: the site, for the title.
        note: a sentence for the end of the caption.
    """

    bars: tuple[Ablation, ...]
    chance: Mapping[str, float] = field(default_factory=dict)
    optimum: Mapping[str, float] = field(default_factory=dict)
    metric: str = "cross-entropy"
    unit: str = "nats"
    intervals: str = "error bars: 95\u00a0% intervals"
    where: str = ""
    note: str = ""


def draw_ablation_bars(numbers: AblationBars, *, name: str = "ablation_bars") -> Figure:
    """Draw groups of bars, one panel an arm.

    Args:
        numbers: what to draw.
        name: the figure's file name.

    Returns:
        The figure; its table has one row a bar.

    Raises:
        TooFewSamplesError: without any bar.
    """
    check_some(name, "bars", numbers.bars)
    arms = tuple(dict.fromkeys(bar.panel for bar in numbers.bars))
    edits = list(dict.fromkeys(bar.edit for bar in numbers.bars))
    slot_of = slots([(bar.name, bar.role) for bar in numbers.bars])
    panels = Panels(titles=arms, columns=1, height_pixels=250, narrow_height_pixels=230, row_gap_pixels=66)
    layout = panels.layout(
        x={"type": "category", "showgrid": False, "categoryorder": "array", "categoryarray": edits},
        y={"title": {"text": f"{numbers.metric} ({numbers.unit})"}, "rangemode": "tozero"},
    )
    layout |= {"barmode": "group", "bargap": 0.22, "bargroupgap": 0.08}
    traces: list[dict[str, Any]] = []
    for index, arm in enumerate(arms):
        lines = [(text, line, values[arm]) for text, line, values in _references(numbers) if arm in values]
        layout["shapes"] += [level_line(index, value, dash=line) for _, line, value in lines]
        if lines:
            key = ", ".join(f"{DASH_SIGNS[line]} {text} {value:.4g}" for text, line, value in lines)
            layout["annotations"].append(panel_key(index, key))
        for subspace, slot in slot_of.items():
            bars = [bar for bar in numbers.bars if bar.panel == arm and bar.name == subspace]
            if not bars:
                continue
            role = bars[0].role
            trace = {
                "type": "bar",
                "x": [bar.edit for bar in bars],
                "y": [bar.value for bar in bars],
                "name": subspace,
                "legendgroup": subspace,
                "showlegend": all(other["name"] != subspace for other in traces),
                "marker": {"pattern": {"shape": pattern(slot, role), "size": 6, "solidity": 0.35}, "line": {"width": 1.25}},
                "hovertemplate": f"{subspace}, %{{x}}: %{{y:.4f}} {numbers.unit}<extra>{arm}</extra>",
                "meta": meta(slot, role),
                **panels.axes(index),
            }
            errors = interval_bars([b.value for b in bars], [b.low for b in bars], [b.high for b in bars])
            traces.append(trace | ({"error_y": errors} if errors else {}))
    caption = (
        f"{numbers.metric.capitalize()} in {numbers.unit} of the full model and with a subspace kept, removed or flipped about "
        f"the mean activation. Solid: the core; hatched: controls of equal rank. Lines: chance and optimum; {numbers.intervals}."
    )
    return Figure(
        name=name,
        title="What the core does, and what other subspaces do" + (f" ({numbers.where})" if numbers.where else ""),
        caption=f"{caption} {numbers.note}".strip(),
        alt=_alt(numbers, arms),
        plot={"data": traces, "layout": layout},
        columns=("arm", "edit", "subspace", "role", f"{numbers.metric} ({numbers.unit})", "low", "high", "chance", "optimum"),
        rows=tuple(
            (b.panel, b.edit, b.name, b.role, b.value, b.low, b.high, numbers.chance.get(b.panel), numbers.optimum.get(b.panel))
            for b in numbers.bars
        ),
    )


def _alt(numbers: AblationBars, arms: tuple[str, ...]) -> str:
    parts = [f"Grouped bar chart of {numbers.metric} in {numbers.unit}, one panel an arm ({', '.join(arms)})."]
    for arm in arms:
        cores = [f"{bar.edit} {bar.value:.4g}" for bar in numbers.bars if bar.panel == arm and bar.role == "core"]
        lines = [f"{text} {values[arm]:.4g}" for text, _, values in _references(numbers) if arm in values]
        parts.append(f"{arm}: {', '.join(cores + lines)}.")
    return " ".join(parts)


def _references(numbers: AblationBars) -> tuple[tuple[str, str, Mapping[str, float]], ...]:
    return ("chance", "dash", numbers.chance), ("optimum", "dot", numbers.optimum)
