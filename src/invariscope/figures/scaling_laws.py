"""Scaling laws: a quantity against a size, both on logarithmic axes, with the slope that is fitted or expected.

>>> law = ScalingLaw(panel="noise", name="sampled", sizes=(64, 256), values=(0.4, 0.2), slope=-0.5)
>>> figure = draw_scaling_laws(ScalingLaws(laws=(law,), title="Noise", x_title="batch", quantity="share"))
>>> figure.rows[1], figure.plot["layout"]["xaxis"]["type"]
(('noise', 'sampled', 256, 0.2), 'log')
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from invariscope.errors import ConfigError
from invariscope.figures.figure import Figure
from invariscope.figures.marks import Role, check_lengths, check_some, dash, meta, slots, symbol
from invariscope.figures.panels import Panels, panel_key

__all__ = ["ScalingLaw", "ScalingLaws", "draw_scaling_laws"]


LONG_AXIS = 2.2
"""Decades above which an axis has a tick a decade."""
FEWEST_TICKS = 2
MUCH = 0.02
"""Width of a slope's interval below which two digits would hide it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingLaw:
    """One line.

    Args:
        panel: where. name: in the legend.
        sizes, values: positive, one value a size.
        slope: of the whole line on logarithmic axes, for the caption; None: none is said.
        interval: of the slope; the note says what it is. None: none is said.
        role: ``core``, or ``control`` for what the others are compared with.
    """

    panel: str
    name: str
    sizes: tuple[float, ...]
    values: tuple[float, ...]
    slope: float | None = None
    interval: tuple[float, float] | None = None
    role: Role = "core"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingLaws:
    """What the figure shows.

    Args:
        laws: in the order of the legend. title: of the figure. x_title, quantity: of the axes.
        keys: a short text by panel. note: for the end of the caption. columns: panels side by side on a wide page.
    """

    laws: tuple[ScalingLaw, ...]
    title: str
    x_title: str
    quantity: str
    keys: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    columns: int = 2


def draw_scaling_laws(numbers: ScalingLaws, *, name: str = "scaling_laws") -> Figure:
    """Draw one panel a group, one line a law.

    Args:
        numbers: what to draw. name: the figure's file name.

    Returns:
        The figure; its table has one row a point.

    Raises:
        TooFewSamplesError: without laws or points. ShapeError: where a law has not one value a size.
        ConfigError: for a size or value that has no logarithm.
    """
    check_some(name, "laws", numbers.laws)
    for law in numbers.laws:
        check_some(name, f"sizes in {law.name!r}", law.sizes)
        check_lengths(f"law {law.name!r}", sizes=law.sizes, values=law.values)
        if min(*law.sizes, *law.values) <= 0 or not all(map(math.isfinite, (*law.sizes, *law.values))):
            raise ConfigError(
                f"law {law.name!r} with a size or value that is not positive", expected="positive numbers", do="leave it out"
            )
    titles = tuple(dict.fromkeys(law.panel for law in numbers.laws))
    slot_of = slots([(law.name, law.role) for law in numbers.laws])
    panels = Panels(titles=titles, columns=min(numbers.columns, len(titles)), height_pixels=280, narrow_height_pixels=240)
    layout = panels.layout(
        x=[_axis(numbers.x_title, [x for law in numbers.laws if law.panel == title for x in law.sizes]) for title in titles],
        y=[_axis(numbers.quantity, [y for law in numbers.laws if law.panel == title for y in law.values]) for title in titles],
    )
    layout["annotations"] += [
        panel_key(index, numbers.keys[title]) for index, title in enumerate(titles) if title in numbers.keys
    ]
    seen: set[str] = set()
    traces: list[dict[str, Any]] = []
    for law in numbers.laws:
        slot = slot_of[law.name]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "x": list(law.sizes),
                "y": list(law.values),
                "name": law.name,
                "legendgroup": law.name,
                "showlegend": law.name not in seen,
                "line": {"dash": dash(slot if law.role == "core" else slot + 1), "width": 2},
                "marker": {"symbol": symbol(slot, law.role), "size": 7},
                "hovertemplate": f"{numbers.x_title} %{{x}}: %{{y:.4g}}<extra>{law.name}</extra>",
                "meta": meta(slot, law.role),
            }
            | panels.axes(titles.index(law.panel))
        )
        seen.add(law.name)
    slopes = [f"{law.panel}, {law.name}: slope {_slope(law)}" for law in numbers.laws if law.slope is not None]
    quantity = numbers.quantity[:1].upper() + numbers.quantity[1:]
    return Figure(
        name=name,
        title=numbers.title,
        caption=" ".join(
            part
            for part in (
                f"{quantity} against {numbers.x_title}, both axes logarithmic.",
                f"Slopes: {'; '.join(slopes)}." if slopes else "",
                numbers.note,
            )
            if part
        ),
        alt=_alt(numbers, titles),
        plot={"data": traces, "layout": layout},
        columns=("panel", "line", numbers.x_title, numbers.quantity),
        rows=tuple(
            (law.panel, law.name, size, value) for law in numbers.laws for size, value in zip(law.sizes, law.values, strict=True)
        ),
    )


def _slope(law: ScalingLaw) -> str:
    if law.interval is None:
        return f"{law.slope:.2f}"
    # As many digits as the interval has something to say about.
    low, high = law.interval
    digits = 2 if high - low > MUCH else 4
    return f"{law.slope:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def _axis(title: str, values: Sequence[float]) -> dict[str, Any]:
    low, high = math.log10(min(values)), math.log10(max(values))
    room = max(0.05 * (high - low), 0.05)
    span = low - room, high + room
    return {"type": "log", "title": {"text": title}, "range": [round(end, 4) for end in span], **_ticks(*span)}


def _ticks(low: float, high: float) -> dict[str, Any]:
    """Whole powers of ten on a long axis; on a short one 1, 2 and 5 times them, or a few numbers in between."""
    if high - low > LONG_AXIS:
        return {"dtick": 1}
    powers = range(math.floor(low), math.ceil(high) + 1)
    found = [digit * 10.0**power for power in powers for digit in (1, 2, 5) if low <= math.log10(digit) + power <= high]
    if len(found) < FEWEST_TICKS:
        found = [float(f"{10 ** (low + share * (high - low)):.2g}") for share in (0.1, 0.5, 0.9)]
    return {"tickvals": found, "ticktext": [f"{value:g}" for value in found]}


def _alt(numbers: ScalingLaws, titles: Sequence[str]) -> str:
    parts = [f"Line chart of {numbers.quantity} against {numbers.x_title}, both logarithmic; panels: {', '.join(titles)}."]
    for law in numbers.laws:
        (first, start), (last, end) = (law.sizes[0], law.values[0]), (law.sizes[-1], law.values[-1])
        parts.append(f"{law.panel}, {law.name}: {start:.3g} at {first:g}, {end:.3g} at {last:g}.")
    return " ".join(parts)
