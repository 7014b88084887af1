"""Layer curves: what an edit does at every layer of a language model, the core beside controls, one panel a model and edit.

Before some layer an edit at the last token does not invert the answer, because later attention reads the prompt again; from there
on it does. A control that follows the core's line has found the same direction; one that stays at the top (flip) does nothing.

>>> curve = LayerCurve(panel="tiny, flip", name="core", layers=(0, 1), values=(0.9, 0.1), lows=(0.8, 0.0), highs=(1.0, 0.2))
>>> draw_layer_curves(LayerCurves(curves=(curve,), title="Layers", quantity="AUC")).rows[-1]
('tiny, flip', 'core', 'core', 1, 0.1, 0.0, 0.2)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from invariscope.figures.figure import Figure
from invariscope.figures.marks import Role, check_lengths, check_some, dash, interval_bars, meta, slots, symbol
from invariscope.figures.panels import DASH_SIGNS, Panels, level_line, panel_key, rank_line

__all__ = ["LayerCurve", "LayerCurves", "draw_layer_curves"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCurve:
    """One line.

    Args:
        panel: the model and the edit.
        name: whose line it is, such as ``core`` or ``random``.
        layers: from 0. values, lows, highs: one a layer; None where there is no interval.
        role: ``core``, or ``control``.
    """

    panel: str
    name: str
    layers: tuple[int, ...]
    values: tuple[float, ...]
    lows: tuple[float | None, ...]
    highs: tuple[float | None, ...]
    role: Role = "core"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCurves:
    """What the figure shows.

    Args:
        curves: in the order of the legend.
        title: of the figure. quantity: of the vertical axis, in [0, 1].
        chance: a horizontal line in every panel; None: none.
        chosen: a vertical line by panel, at the layer that a rule takes.
        note: a sentence for the end of the caption.
    """

    curves: tuple[LayerCurve, ...]
    title: str
    quantity: str
    chance: float | None = None
    chosen: Mapping[str, int] = field(default_factory=dict)
    note: str = ""


def draw_layer_curves(numbers: LayerCurves, *, name: str = "layer_curves") -> Figure:
    """Draw one panel a model and edit.

    Args:
        numbers: what to draw.
        name: the figure's file name.

    Returns:
        The figure; its table has one row a layer and line.

    Raises:
        TooFewSamplesError: without any curve, or one without layers.
        ShapeError: where a curve has not one value and interval a layer.
    """
    check_some(name, "curves", numbers.curves)
    for curve in numbers.curves:
        check_some(name, f"layers in curve {curve.name!r}", curve.layers)
        check_lengths(
            f"curve {curve.name!r} in {curve.panel!r}",
            layers=curve.layers,
            values=curve.values,
            lows=curve.lows,
            highs=curve.highs,
        )
    titles = tuple(dict.fromkeys(curve.panel for curve in numbers.curves))
    slot_of = slots([(curve.name, curve.role) for curve in numbers.curves])
    panels = Panels(titles=titles, columns=min(3, len(titles)), height_pixels=230)
    layout = panels.layout(
        x={"title": {"text": "layer"}, "exponentformat": "none", "tickformat": "d"},
        y={"title": {"text": numbers.quantity}, "range": [-0.04, 1.06]},
    )
    for index, title in enumerate(titles):
        key = []
        if numbers.chance is not None:
            layout["shapes"].append(level_line(index, numbers.chance))
            key.append(f"{DASH_SIGNS['dash']} chance {numbers.chance:g}")
        if title in numbers.chosen:
            layout["shapes"].append(rank_line(index, numbers.chosen[title]))
            key.append(f"{DASH_SIGNS['dot']} layer {numbers.chosen[title]}")
        if key:
            layout["annotations"].append(panel_key(index, ", ".join(key)))
    traces: list[dict[str, Any]] = []
    seen: set[str] = set()
    for curve in numbers.curves:
        slot = slot_of[curve.name]
        trace: dict[str, Any] = {
            "type": "scatter",
            "mode": "lines+markers",
            "x": list(curve.layers),
            "y": list(curve.values),
            "name": curve.name,
            "legendgroup": curve.name,
            "showlegend": curve.name not in seen,
            "line": {"dash": dash(slot), "width": 2 if curve.role == "core" else 1.25},
            "marker": {"symbol": symbol(slot, curve.role), "size": 8 if curve.role == "core" else 7},
            "hovertemplate": f"layer %{{x}}: %{{y:.3f}}<extra>{curve.name}</extra>",
            "meta": meta(slot, curve.role),
            **panels.axes(titles.index(curve.panel)),
        }
        # Intervals of controls would bury the core's line; the table has them.
        bars = interval_bars(curve.values, curve.lows, curve.highs) if curve.role == "core" else None
        traces.append(trace | ({"error_y": bars} if bars else {}))
        seen.add(curve.name)
    return Figure(
        name=name,
        title=numbers.title,
        caption=_caption(numbers),
        alt=_alt(numbers),
        plot={"data": traces, "layout": layout},
        columns=("panel", "line", "role", "layer", numbers.quantity, "low", "high"),
        rows=tuple(
            (curve.panel, curve.name, curve.role, *point)
            for curve in numbers.curves
            for point in zip(curve.layers, curve.values, curve.lows, curve.highs, strict=True)
        ),
    )


def _caption(numbers: LayerCurves) -> str:
    parts = [
        f"{numbers.quantity} under the edit named above each panel, against the layer whose output is edited; held-out prompts. "
        "Filled symbols: cores, with 95\u00a0% intervals; open symbols and thin lines: controls of equal rank."
    ]
    if numbers.chosen:
        parts.append("The upright is the layer that the rule takes, which sees no held-out prompt.")
    return " ".join([*parts, numbers.note]).strip()


def _alt(numbers: LayerCurves) -> str:
    parts = [f"Line charts of {numbers.quantity} against the layer."]
    for curve in numbers.curves:
        first, last = (f"{curve.values[end]:.2f} at layer {curve.layers[end]}" for end in (0, -1))
        parts.append(f"{curve.panel}, {curve.name}: {first}, {last}.")
    return " ".join(parts)
