"""Heat maps: matrices as shades, such as where each token attends, which variable matches which, or what a neuron does.

One panel a matrix. Small ones have their numbers in their cells. Matrices that change over training get a slider. A map names
no colours: its trace says whether its scale is ``sequential`` (from nothing to the palette's colour) or ``diverging`` (through
nothing in the middle), and the page takes both from the reader's scheme.

>>> block = HeatMap(panel="scores", rows=("a", "b"), columns=("a", "b"), values=(((8.0, -2.0), (-1.5, 7.0)),))
>>> figure = draw_heat_maps(HeatMaps(maps=(block,), title="Identity", quantity="score", scale="diverging"))
>>> figure.rows[1]
('scores', 'a', 'b', -2.0)
>>> figure.plot["data"][0]["zmin"], figure.plot["data"][0]["zmax"]
(-8.0, 8.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from invariscope.errors import ConfigError, ShapeError
from invariscope.figures.figure import Cell, Figure
from invariscope.figures.frames import Frame
from invariscope.figures.marks import MAX_POINTS, check_some, meta, thin
from invariscope.figures.panels import Panels, panel_key

__all__ = ["HeatMap", "HeatMaps", "Matrix", "draw_heat_maps"]

Matrix = tuple[tuple[float | None, ...], ...]
"""Rows from above; None leaves a cell blank."""

MAX_WRITTEN = 12
"""Rows and columns up to which cells have their numbers."""
MAX_LABELS = 24
"""Rows or columns up to which each has its label."""
LABEL_PIXELS = 7
SLIDER = "Training step"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """One panel.

    Args:
        panel: its title.
        rows, columns: labels, from above and from the left; they need not differ.
        values: one matrix, or one for each of ``HeatMaps.steps``.
        rows_title, columns_title: what rows and columns are.
        key: a short text opposite the title.
    """

    panel: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[Matrix, ...]
    rows_title: str = ""
    columns_title: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMaps:
    """What the figure shows.

    Args:
        maps: one panel each.
        title: of the figure.
        quantity: what a cell is, with its unit.
        scale: ``sequential`` for values from 0 on, ``diverging`` for values of both signs.
        limits: what the ends of the scale mean; None: the least and the largest value of all maps and steps (sequential: from
            0; diverging: equally far on both sides).
        own_limits: each panel by its own largest value, for shapes and not sizes; needs ``limits`` to be None.
        steps: of the slider; empty for maps that stand still.
        square: whether cells are square.
        height_pixels: of one panel on a wide page.
        columns: panels side by side on a wide page.
        subject: the caption's first sentence. note: a sentence for its end.
    """

    maps: tuple[HeatMap, ...]
    title: str
    quantity: str
    scale: Literal["sequential", "diverging"] = "sequential"
    limits: tuple[float, float] | None = None
    own_limits: bool = False
    steps: tuple[int, ...] = ()
    square: bool = True
    height_pixels: int = 380
    columns: int = 2
    subject: str = ""
    note: str = ""


def draw_heat_maps(numbers: HeatMaps, *, name: str = "heat_map") -> Figure:
    """Draw one panel a matrix, and one frame a step.

    Args:
        numbers: what to draw.
        name: the figure's file name.

    Returns:
        The figure; its table has one row a cell and step. Above :data:`MAX_POINTS` of them it holds an even choice, and the
        caption says so.

    Raises:
        TooFewSamplesError: without maps, rows or columns.
        ShapeError: where a matrix has not one value a cell, or there is not one matrix a step.
        ConfigError: for a scale or limits that make no sense, a single step, or one twice.
    """
    _check(name, numbers)
    count = min(numbers.columns, len(numbers.maps))
    panels = Panels(
        titles=tuple(one.panel for one in numbers.maps), columns=count, height_pixels=numbers.height_pixels,
        narrow_height_pixels=min(numbers.height_pixels, 300),
    )  # fmt: skip
    layout = panels.layout(
        x=[_axis(one.columns, one.columns_title) for one in numbers.maps],
        y=[_axis(one.rows, one.rows_title, downwards=True) for one in numbers.maps],
    )
    layout["showlegend"] = False
    longest = max(len(label) for one in numbers.maps for label in one.rows)
    layout["meta"]["left"] = LABEL_PIXELS * longest + (40 if any(one.rows_title for one in numbers.maps) else 14)
    limits = [_limits(numbers, [one] if numbers.own_limits else numbers.maps) for one in numbers.maps]
    traces: list[dict[str, Any]] = []
    for index, (one, ends) in enumerate(zip(numbers.maps, limits, strict=True)):
        if numbers.square:
            axes = panels.axes(index)
            suffix = axes["yaxis"][1:]
            layout[f"yaxis{suffix}"] |= {"scaleanchor": axes["xaxis"], "constrain": "domain", "constraintoward": "top"}
            layout[f"xaxis{suffix}"] |= {"constrain": "domain", "constraintoward": "left"}
        key = ", ".join(text for text in (one.key, _reach(ends) if numbers.own_limits else "") if text)
        layout["annotations"] += [panel_key(index, key)] if key else []
        traces.append(_trace(one, numbers, ends, first=index == 0) | panels.axes(index))
    frames = tuple(
        Frame(label=f"step {step}", traces={index: {"z": _cells(one.values[at])} for index, one in enumerate(numbers.maps)})
        for at, step in enumerate(numbers.steps)
    )
    rows = _rows(numbers)
    return Figure(
        name=name,
        title=numbers.title,
        caption=_caption(numbers, len(rows)),
        alt=_alt(numbers),
        plot={"data": traces, "layout": layout},
        columns=("map", *(("step",) if numbers.steps else ()), "row", "column", numbers.quantity),
        rows=tuple(thin(rows)),
        frames=frames,
        slider=SLIDER if frames else "",
    )


def _check(name: str, numbers: HeatMaps) -> None:
    check_some(name, "maps", numbers.maps)
    if numbers.scale not in ("sequential", "diverging"):
        raise ConfigError(f"figure {name!r}: scale {numbers.scale!r}", expected="sequential or diverging", do="choose one")
    if numbers.limits is not None and (numbers.own_limits or not numbers.limits[0] < numbers.limits[1]):
        raise ConfigError(
            f"figure {name!r}: limits {numbers.limits}" + (" with own_limits" if numbers.own_limits else ""),
            expected="a lower end below an upper one, or limits of each panel's own",
            do="leave out limits to take them from the values",
        )
    num = len(numbers.steps) or 1
    for one in numbers.maps:
        check_some(name, f"rows and columns in {one.panel!r}", one.rows and one.columns)
        if len(one.values) != num:
            raise ShapeError(
                f"{one.panel!r} has {len(one.values)} matrices", expected=f"{num}, one a step", do="give each step its matrix"
            )
        for matrix in one.values:
            if len(matrix) != len(one.rows) or any(len(row) != len(one.columns) for row in matrix):
                sizes = sorted({len(row) for row in matrix})
                raise ShapeError(
                    f"{one.panel!r}: a matrix of {len(matrix)} rows of {' or '.join(map(str, sizes)) or 'no'} cells",
                    expected=f"{len(one.rows)} rows of {len(one.columns)}, one a label",
                    do="give one value a cell, None for a blank",
                )


def _axis(labels: Sequence[str], title: str, *, downwards: bool = False) -> dict[str, Any]:
    # Labels may repeat, as tokens do, so cells are numbered and labels are only written beside them.
    every = -(-len(labels) // MAX_LABELS) if len(labels) > MAX_LABELS else 1
    if every > 1:
        every = next(step for step in (5, 10, 20, 50, 100, len(labels)) if step >= every)
    places = list(range(0, len(labels), every))
    ends = [-0.5, len(labels) - 0.5]
    return {
        "range": ends[::-1] if downwards else ends,
        "tickvals": places,
        "ticktext": [labels[at] for at in places],
        "tickfont": {"size": 11},
        "showgrid": False,
        "zeroline": False,
        "showline": True,
        "mirror": True,
        **({"tickangle": 0} if max(map(len, labels)) <= 2 else {}),
        **({"title": {"text": title}} if title else {}),
    }


def _limits(numbers: HeatMaps, maps: Sequence[HeatMap]) -> tuple[float, float]:
    if numbers.limits is not None:
        return numbers.limits
    found = [value for one in maps for matrix in one.values for row in matrix for value in row if value is not None]
    if numbers.scale == "diverging":
        reach = max((abs(value) for value in found), default=0.0) or 1.0
        return -reach, reach
    low, high = min([0.0, *found]), max([0.0, *found])
    return low, high if high > low else low + 1.0


def _reach(ends: tuple[float, float]) -> str:
    return f"\u00b1 {ends[1]:.3g}" if ends[0] == -ends[1] else f"{ends[0]:.3g} to {ends[1]:.3g}"


def _written(numbers: HeatMaps) -> bool:
    return all(max(len(one.rows), len(one.columns)) <= MAX_WRITTEN for one in numbers.maps)


def _trace(one: HeatMap, numbers: HeatMaps, ends: tuple[float, float], *, first: bool) -> dict[str, Any]:
    written = _written(numbers)
    trace: dict[str, Any] = {
        "type": "heatmap",
        "z": _cells(one.values[-1]),
        "zmin": ends[0],
        "zmax": ends[1],
        "name": one.panel,
        "xgap": 1 if len(one.columns) <= MAX_LABELS else 0,
        "ygap": 1 if len(one.rows) <= MAX_LABELS else 0,
        "hoverongaps": False,
        "customdata": [[f"{row}, {column}" for column in one.columns] for row in one.rows],
        "hovertemplate": f"%{{customdata}}: %{{z:.3g}}<extra>{one.panel}</extra>",
        "showscale": first and not written,
        "meta": meta(0, "core") | {"scale": numbers.scale},
    }
    if written:
        trace |= {"texttemplate": f"%{{z:{_digits(ends)}}}", "textfont": {"size": 11}}
    elif first:
        bar: dict[str, Any] = {"title": {"text": numbers.quantity}}
        if numbers.own_limits:
            middle = [0.0] if numbers.scale == "diverging" else []
            texts = ["lowest", "0", "highest"] if middle else ["lowest", "highest"]
            bar |= {"tickvals": [ends[0], *middle, ends[1]], "ticktext": texts}
        trace["colorbar"] = bar
    return trace


def _cells(matrix: Matrix) -> list[list[float | None]]:
    return [list(row) for row in matrix]


def _digits(ends: tuple[float, float]) -> str:
    largest = max(map(abs, ends))
    return ".0f" if largest >= 100 else ".1f" if largest >= 2 else ".2f"


def _rows(numbers: HeatMaps) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for one in numbers.maps:
        names = _told_apart(one.rows), _told_apart(one.columns)
        for at, matrix in enumerate(one.values):
            when = (numbers.steps[at],) if numbers.steps else ()
            rows += [
                (one.panel, *when, row, column, value)
                for row, cells in zip(names[0], matrix, strict=True)
                for column, value in zip(names[1], cells, strict=True)
                if value is not None
            ]
    return rows


def _told_apart(labels: Sequence[str]) -> list[str]:
    """Labels with their place where one of them stands twice."""
    return list(labels) if len(set(labels)) == len(labels) else [f"{at}: {label}" for at, label in enumerate(labels)]


def _caption(numbers: HeatMaps, num_rows: int) -> str:
    quantity = numbers.quantity[:1].upper() + numbers.quantity[1:]
    parts = [numbers.subject or f"{quantity}, one cell a row and column."]
    if numbers.scale == "diverging":
        parts.append("Values above 0 have one colour, values below 0 the other, and 0 is pale.")
    else:
        parts.append("The stronger the colour, the larger the value.")
    if numbers.own_limits:
        parts.append("Each panel has a scale of its own, whose reach stands above it.")
    if any(value is None for one in numbers.maps for matrix in one.values for row in matrix for value in row):
        parts.append("Blank: no value.")
    if num_rows > MAX_POINTS:
        parts.append(f"The table holds an even choice of {MAX_POINTS} of {num_rows} values.")
    return " ".join([*parts, numbers.note]).strip()


def _alt(numbers: HeatMaps) -> str:
    moving = f" with a slider over {len(numbers.steps)} steps" if numbers.steps else ""
    parts = [f"Heat map of {numbers.quantity}{moving}, one panel each for {', '.join(one.panel for one in numbers.maps)}."]
    for one in numbers.maps:
        names = _told_apart(one.rows), _told_apart(one.columns)
        cells = [
            (value, row, column)
            for row, values in zip(names[0], one.values[-1], strict=True)
            for column, value in zip(names[1], values, strict=True)
            if value is not None
        ]
        size = f"{one.panel}: {len(one.rows)} rows, {len(one.columns)} columns"
        if cells:
            least, most = min(cells, key=lambda cell: cell[0]), max(cells, key=lambda cell: cell[0])
            size += "".join(
                f"; {which} {value:.3g} in row {row}, column {column}"
                for which, (value, row, column) in (("largest", most), ("smallest", least))
            )
        parts.append(f"{size}{f' (step {numbers.steps[-1]})' if numbers.steps else ''}.")
    return " ".join(parts)
