"""Panels of one figure: a grid on a wide page, one under the other on a phone.

Plotly places panels by domains, shares of the drawing area. :class:`Panels` computes them twice, for a wide page (``columns``
side by side) and for a narrow one (one column), from heights in pixels, and puts the second set under ``layout.meta.narrow``,
where the page's script finds it. Titles and reference lines are placed relative to their panel, so they move with it.

>>> panels = Panels(titles=("left", "right"), columns=2)
>>> layout = panels.layout(x={"title": {"text": "step"}}, y={})
>>> layout["xaxis2"]["domain"], layout["meta"]["narrow"]["domains"]["xaxis2"]
([0.55, 1.0], [0.0, 1.0])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["DASH_SIGNS", "Panels", "level_line", "panel_key", "rank_line"]

_COLUMN_GAP = 0.1

DASH_SIGNS = {"dash": "– –", "dot": "· · ·"}
"""How the key above a panel writes a line's dash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panels:
    """The places of several panels.

    Args:
        titles: one a panel, row by row.
        columns: panels side by side on a wide page.
        height_pixels: height of one panel's drawing area.
        narrow_height_pixels: the same on a narrow page.
        row_gap_pixels: between two rows, for tick labels, axis title and the next panel's title.
    """

    titles: tuple[str, ...]
    columns: int = 1
    height_pixels: int = 280
    narrow_height_pixels: int = 240
    row_gap_pixels: int = 92

    def axes(self, index: int) -> dict[str, str]:
        """The axis references of a trace in panel ``index``."""
        suffix = "" if index == 0 else str(index + 1)
        return {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}

    def layout(
        self, *, x: Mapping[str, Any] | Sequence[Mapping[str, Any]], y: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Plotly's layout with every axis placed and every panel titled.

        Args:
            x: settings of the horizontal axes, one mapping for all or one a panel.
            y: the same for the vertical axes.
        """
        layout: dict[str, Any] = {"annotations": [], "shapes": []}
        narrow: dict[str, list[float]] = {}
        for index, title in enumerate(self.titles):
            suffix = "" if index == 0 else str(index + 1)
            wide = self._domains(index, self.columns, self.height_pixels)
            phone = self._domains(index, 1, self.narrow_height_pixels)
            for name, other, settings, at in (("x", "y", x, 0), ("y", "x", y, 1)):
                own = settings if isinstance(settings, Mapping) else settings[index]
                layout[f"{name}axis{suffix}"] = dict(own) | {"domain": wide[at], "anchor": f"{other}{suffix}"}
                narrow[f"{name}axis{suffix}"] = phone[at]
            if title:
                layout["annotations"].append(_title(title, suffix))
        layout["meta"] = {
            "height": self._height(self.columns, self.height_pixels),
            "narrow": {"height": self._height(1, self.narrow_height_pixels), "domains": narrow},
        }
        return layout

    def _rows(self, columns: int) -> int:
        return -(-len(self.titles) // columns)

    def _height(self, columns: int, height: int) -> int:
        rows = self._rows(columns)
        return rows * height + (rows - 1) * self.row_gap_pixels

    def _domains(self, index: int, columns: int, height: int) -> tuple[list[float], list[float]]:
        columns = min(columns, len(self.titles))
        row, column = divmod(index, columns)
        width = (1 - _COLUMN_GAP * (columns - 1)) / columns
        left = column * (width + _COLUMN_GAP)
        total = self._height(columns, height)
        top = row * (height + self.row_gap_pixels)
        # Plotly counts from below, and rounding keeps the files equal on every machine.
        across = [round(left, 6), round(left + width, 6)]
        return across, [round(max(1 - (top + height) / total, 0.0), 6), round(1 - top / total, 6)]


def _title(text: str, suffix: str) -> dict[str, Any]:
    return {
        "name": "title",
        "text": text,
        "xref": f"x{suffix} domain",
        "yref": f"y{suffix} domain",
        "x": 0,
        "y": 1,
        "xanchor": "left",
        "yanchor": "bottom",
        "yshift": 8,
        "showarrow": False,
        "font": {"size": 13, "weight": 600},
    }


def panel_key(index: int, text: str) -> dict[str, Any]:
    """A small text above the right end of panel ``index``, opposite its title: what its reference lines are."""
    suffix = "" if index == 0 else str(index + 1)
    return _title(text, suffix) | {"name": "key", "x": 1, "xanchor": "right", "font": {"size": 11}}


def level_line(index: int, value: float, text: str = "", *, dash: str = "dash", below: bool = False) -> dict[str, Any]:
    """A horizontal reference line across panel ``index`` at ``value`` of its vertical axis, with its label where it has one."""
    suffix = "" if index == 0 else str(index + 1)
    line = {
        "type": "line",
        "name": "reference",
        "layer": "above",
        "xref": f"x{suffix} domain",
        "yref": f"y{suffix}",
        "x0": 0,
        "x1": 1,
        "y0": value,
        "y1": value,
        "line": {"width": 1.5, "dash": dash},
    }
    label = {"text": text, "textposition": "end", "yanchor": "top" if below else "bottom", "font": {"size": 11}}
    return line | ({"label": label} if text else {})


def rank_line(index: int, value: float) -> dict[str, Any]:
    """A vertical reference line through panel ``index`` at ``value`` of its horizontal axis."""
    suffix = "" if index == 0 else str(index + 1)
    return {
        "type": "line",
        "name": "reference",
        "layer": "above",
        "xref": f"x{suffix}",
        "yref": f"y{suffix} domain",
        "x0": value,
        "x1": value,
        "y0": 0,
        "y1": 1,
        "line": {"width": 1.25, "dash": "dot"},
    }
