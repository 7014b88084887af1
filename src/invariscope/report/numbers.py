"""Numbers as a reader wants them: four significant digits, a true minus, no false precision, marks as signs.

>>> format_number(0.92584), format_number(3.0), format_number(0.99998), format_number(-0.00002345), format_number(300000)
('0.9258', '3', '1.000', '−2.345 × 10⁻⁵', '300\u202f000')
>>> format_measured(0.9258, 0.9251, 0.9266)
'0.9258 [0.9251, 0.9266]'
"""

from __future__ import annotations

from invariscope.storage.claims import Mark

__all__ = ["format_duration", "format_mark", "format_measured", "format_number"]

_DIGITS = 4
_NARROW_SPACE = "\u202f"
_MINUS = "\u2212"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_SIGNS = {"at_least": "≥", "at_most": "≤", "above": ">", "below": "<"}


def format_number(value: float | None) -> str:
    """A number with four significant digits; an en dash where there is none.

    Whole numbers stay whole. A number that rounds to a whole one without being it keeps its zeros: 0.99998 is ``1.000``.
    """
    if value is None:
        return "–"
    size = abs(value)
    if value == int(value) and size < 1e15:
        return f"{int(value):,}".replace(",", _NARROW_SPACE if size >= 10_000 else "").replace("-", _MINUS)
    if 1e-4 <= size < 1e5:
        text = f"{value:.{_DIGITS}g}"
        # ".4g" drops the zeros of 1.000 and may write 9999.6 as 1e+04.
        text = f"{value:#.{_DIGITS}g}".rstrip(".") if "." not in text and "e" not in text else text
        return (f"{value:.0f}" if "e" in text else text).replace("-", _MINUS)
    mantissa, exponent = f"{value:.{_DIGITS - 1}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa} × 10{str(int(exponent)).translate(_SUPERSCRIPTS)}".replace("-", _MINUS)


def format_measured(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """A value with its interval in brackets, where it has one."""
    if value is None or low is None or high is None:
        return format_number(value)
    return f"{format_number(value)} [{format_number(low)}, {format_number(high)}]"


def format_mark(mark: Mark) -> str:
    """A mark as a sign and a number.

    >>> format_mark(Mark(kind="at_least", target=0.98)), format_mark(Mark(kind="within", target=3, tolerance=0))
    ('≥ 0.98', 'exactly 3')
    """
    target = format_number(mark.target)
    if mark.kind != "within":
        return f"{_SIGNS[mark.kind]} {target}"
    if not mark.tolerance:
        return f"exactly {target}"
    return f"{format_number(mark.target - mark.tolerance)} to {format_number(mark.target + mark.tolerance)}"


def format_duration(seconds: float) -> str:
    """A duration in the two largest units that matter.

    >>> format_duration(7.31), format_duration(83), format_duration(7384)
    ('7.3 s', '1 min 23 s', '2 h 3 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{round(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
