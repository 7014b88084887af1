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

MANY_LAYERS = 14
"""Layers of a curve above which symbols shrink and only the first core shows its intervals."""


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
        chance: a horizontal line in every panel; None: none. chance_label: its name in the key, where it is another level
            than chance, such as a rule's threshold.
        chosen: a vertical line by panel, at the layer that a rule takes.
        subject: how the caption begins, without a full stop; empty: the quantity under an edit on held-out prompts.
        note: a sentence for the end of the caption.
    """

    curves: tuple[LayerCurve, ...]
    title: str
    quantity: str
    chance: float | None = None
    chance_label: str = "chance"
    chosen: Mapping[str, int] = field(default_factory=dict)
    subject: str = ""
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
            key.append(f"{DASH_SIGNS['dash']} {numbers.chance_label} {numbers.chance:g}")
        if title in numbers.chosen:
            layout["shapes"].append(rank_line(index, numbers.chosen[title]))
            key.append(f"{DASH_SIGNS['dot']} layer {numbers.chosen[title]}")
        if key:
            layout["annotations"].append(panel_key(index, ", ".join(key)))
    many = _many(numbers)
    sizes = {"core": 6, "control": 5} if many else {"core": 8, "control": 7}
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
            "marker": {"symbol": symbol(slot, curve.role), "size": sizes[curve.role]},
            "hovertemplate": f"layer %{{x}}: %{{y:.3f}}<extra>{curve.name}</extra>",
            "meta": meta(slot, curve.role),
            # Cores lie above controls and the first above the others; the legend keeps the caller's order.
            "zorder": (2 if slot == 0 else 1) if curve.role == "core" else 0,
            **panels.axes(titles.index(curve.panel)),
        }
        # Intervals of controls would bury the core's line, over many layers those of other cores too; the table has them.
        barred = curve.role == "core" and (slot == 0 or not many)
        bars = interval_bars(curve.values, curve.lows, curve.highs) if barred else None
        # Caps of neighbouring layers would meet.
        traces.append(trace | ({"error_y": bars | ({"thickness": 1, "width": 0} if many else {})} if bars else {}))
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


def _many(numbers: LayerCurves) -> bool:
    return max(len(curve.layers) for curve in numbers.curves) > MANY_LAYERS


def _caption(numbers: LayerCurves) -> str:
    subject = numbers.subject or (
        f"{numbers.quantity} under the edit named above each panel, against the layer whose output is edited; held-out prompts"
    )
    parts = [f"{subject[0].upper()}{subject[1:]}."]
    cores = [curve for curve in numbers.curves if curve.role == "core"]
    bars = any(low is not None for curve in cores for low in curve.lows)
    if len(cores) < len(numbers.curves):
        one_only = _many(numbers) and len({curve.name for curve in cores}) > 1
        which = ", the first with" if one_only else ", with"
        filled = f"Filled symbols: cores{which} 95\u00a0% intervals" if bars else "Filled symbols: cores"
        parts.append(f"{filled}; open symbols and thin lines: controls of equal rank.")
    elif bars:
        parts.append("Bars: 95\u00a0% intervals.")
    if numbers.chosen:
        parts.append("The upright is the layer that the rule takes, which sees no held-out prompt.")
    return " ".join([*parts, numbers.note]).strip()


def _alt(numbers: LayerCurves) -> str:
    parts = [f"Line charts of {numbers.quantity} against the layer."]
    for curve in numbers.curves:
        first, last = (f"{curve.values[end]:.2f} at layer {curve.layers[end]}" for end in (0, -1))
        parts.append(f"{curve.panel}, {curve.name}: {first}, {last}.")
    if numbers.chance is not None:
        parts.append(f"Dashed line: {numbers.chance_label} {numbers.chance:g}.")
    parts += [f"Layer taken in {panel}: {layer}." for panel, layer in numbers.chosen.items()]
    return " ".join(parts)
