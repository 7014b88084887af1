"""What tells one trace from another without colour: symbols, dashes and hatchings, and how a trace names its palette slot.

About one man in twelve confuses red and green, and paper is often grey. So two traces never differ by colour alone: each slot
has a symbol, a dash and a hatching of its own, in one fixed order that every figure uses. The thing under test is drawn full
(filled symbols, solid bars), controls are drawn hollow (open symbols, hatched bars).

>>> meta(1, "control")
{'slot': 1, 'role': 'control'}
>>> symbol(1, "core"), symbol(1, "control")
('square', 'triangle-down-open')
>>> thin(list(range(5)), limit=3)
[0, 2, 4]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from invariscope.errors import ConfigError, ShapeError, TooFewSamplesError

__all__ = [
    "MAX_POINTS",
    "Role",
    "check_lengths",
    "check_some",
    "dash",
    "interval_bars",
    "meta",
    "pattern",
    "slots",
    "symbol",
    "thin",
]

Role = Literal["core", "control"]

MAX_POINTS = 2000
"""Points a trace above which a figure is thinned: more are not seen on a screen, and the report has to stay small."""

_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "hexagon", "star", "pentagon", "star-diamond")
_CONTROL_SYMBOLS = ("triangle-up-open", "triangle-down-open", "square-open", "pentagon-open", "hexagon-open", "star-open")
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_PATTERNS = ("", "-", ".", "x", "|", "+")
_CONTROL_PATTERNS = ("/", "\\", ".", "x", "|", "-", "+")


def meta(slot: int, role: str) -> dict[str, Any]:
    """What the page's script reads to colour a trace: a palette slot and a role."""
    return {"slot": slot, "role": role}


def symbol(slot: int, role: Role) -> str:
    """Marker symbol of a slot: filled for the thing under test, open for a control."""
    symbols = _SYMBOLS if role == "core" else _CONTROL_SYMBOLS
    return symbols[slot % len(symbols)]


def dash(slot: int) -> str:
    """Line dash of a slot."""
    return _DASHES[slot % len(_DASHES)]


def pattern(slot: int, role: Role) -> str:
    """Hatching of a bar: solid first for the thing under test, always hatched for a control."""
    patterns = _PATTERNS if role == "core" else _CONTROL_PATTERNS
    return patterns[slot % len(patterns)]


def slots(names: Sequence[tuple[str, Role]]) -> dict[str, int]:
    """A slot for every name, in order of appearance, counted apart for cores and controls.

    >>> slots([("core", "core"), ("random", "control"), ("core", "core"), ("pca", "control")])
    {'core': 0, 'random': 0, 'pca': 1}
    """
    found: dict[str, int] = {}
    counts = {"core": 0, "control": 0}
    for name, role in names:
        if role not in counts:
            raise ConfigError(f"role {role!r} of {name!r}", expected="core or control", do="references are drawn as lines")
        if name not in found:
            found[name] = counts[role]
            counts[role] += 1
    return found


def thin(values: Sequence[Any], *, limit: int = MAX_POINTS) -> list[Any]:
    """At most ``limit`` of the values, evenly spaced by index, always with the first and the last."""
    if len(values) <= limit:
        return list(values)
    return [values[round(i * (len(values) - 1) / (limit - 1))] for i in range(limit)]


def interval_bars(values: Sequence[float], lows: Sequence[float | None], highs: Sequence[float | None]) -> dict[str, Any] | None:
    """Plotly's error bars from interval ends (None where no value has an interval).

    Plotly wants lengths. An end on the wrong side of its value (a bootstrap interval may miss it) gives length 0.

    >>> interval_bars([1.0, 2.0], [0.5, None], [1.25, None])["array"]
    [0.25, 0.0]
    """
    if all(low is None or high is None for low, high in zip(lows, highs, strict=True)):
        return None
    return {
        "type": "data",
        "symmetric": False,
        "array": [0.0 if high is None else max(high - value, 0.0) for value, high in zip(values, highs, strict=True)],
        "arrayminus": [0.0 if low is None else max(value - low, 0.0) for value, low in zip(values, lows, strict=True)],
        "thickness": 1.5,
        "width": 3,
    }


def check_some(figure: str, what: str, items: Sequence[object]) -> None:
    """Refuse to draw nothing."""
    if not items:
        raise TooFewSamplesError(f"figure {figure!r} without {what}", expected="at least one", do="leave the figure out instead")


def check_lengths(owner: str, **sequences: Sequence[object]) -> None:
    """Refuse sequences of unequal length, naming each with its length."""
    if len({len(values) for values in sequences.values()}) > 1:
        lengths = ", ".join(f"{name} of {len(values)}" for name, values in sequences.items())
        raise ShapeError(f"{owner}: {lengths}", expected="equal lengths", do="give one value a point, None for a gap")
