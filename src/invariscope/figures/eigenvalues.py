"""Eigenvalues in the complex plane: the fitted operator's spectrum on the true one, with intervals and controls.

A plot of eigenvalues that lie "near" the truth proves little: a persistent chain gives an untrained model's leading components
.66-.72 +- .21-.24i for free. So every value carries its interval, and the untrained and random-subspace spectra stand in the
same plane, as open symbols. The unit circle gives the scale: a transition matrix has its spectrum inside.

>>> truth = (0.75 + 0.25j, 0.75 - 0.25j, 0.5 + 0j)
>>> fitted = Spectrum(panel="paper", name="seed 0", values=(0.751 + 0.249j, 0.751 - 0.249j, 0.498 + 0j))
>>> draw_eigenvalues(Eigenvalues(spectra=(fitted,), truth={"paper": truth})).rows[0]
('paper', 'truth', 'reference', 0.75, 0.25, None, None, None, None)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from invariscope.figures.figure import Cell, Figure
from invariscope.figures.marks import Role, check_lengths, check_some, interval_bars, meta, slots, symbol
from invariscope.figures.panels import Panels

__all__ = ["Box", "Eigenvalues", "Spectrum", "draw_eigenvalues"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The interval of one eigenvalue, along the real and along the imaginary axis."""

    real_low: float
    real_high: float
    imag_low: float
    imag_high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spectrum:
    """One operator's eigenvalues.

    Args:
        panel: the arm, such as the chain's name.
        name: the model or control, such as ``seed 0`` or ``untrained``.
        values: eigenvalues (no unit).
        intervals: one a value, None where there is none; empty for none at all.
        role: ``core`` or ``control``.
    """

    panel: str
    name: str
    values: tuple[complex, ...]
    intervals: tuple[Box | None, ...] = ()
    role: Role = "core"


@dataclass(frozen=True, slots=True, kw_only=True)
class Eigenvalues:
    """The numbers of an eigenvalue figure.

    Args:
        spectra: in the order of the legend.
        truth: the task's eigenvalues, one tuple an arm.
        intervals: what the bars are, for the caption.
        where: the site, for the title.
        note: a sentence for the end of the caption.
    """

    spectra: tuple[Spectrum, ...]
    truth: Mapping[str, tuple[complex, ...]]
    intervals: str = "bars: 95\u00a0% bootstrap intervals"
    where: str = ""
    note: str = ""


def draw_eigenvalues(numbers: Eigenvalues, *, name: str = "eigenvalues") -> Figure:
    """Draw spectra in the complex plane with equal axes, one panel an arm.

    Args:
        numbers: what to draw.
        name: the figure's file name.

    Returns:
        The figure; its table has one row an eigenvalue, the truth first.

    Raises:
        TooFewSamplesError: without any spectrum.
        ShapeError: where a spectrum has not one interval a value.
    """
    check_some(name, "spectra", numbers.spectra)
    for spectrum in numbers.spectra:
        if spectrum.intervals:
            owner = f"spectrum {spectrum.name!r} in {spectrum.panel!r}"
            check_lengths(owner, values=spectrum.values, intervals=spectrum.intervals)
    arms = tuple(dict.fromkeys([*numbers.truth, *(spectrum.panel for spectrum in numbers.spectra)]))
    slot_of = slots([(spectrum.name, spectrum.role) for spectrum in numbers.spectra])
    panels = Panels(titles=arms, columns=min(len(arms), 3), height_pixels=290 if len(arms) > 2 else 380, narrow_height_pixels=300)
    span = {"range": [-1.1, 1.1], "dtick": 0.5, "zeroline": True}
    layout = panels.layout(
        x=span | {"title": {"text": "real part"}, "constrain": "domain"},
        y=[
            span | {"title": {"text": "imaginary part"}, "scaleanchor": panels.axes(index)["xaxis"], "constrain": "domain"}
            for index in range(len(arms))
        ],
    )
    traces: list[dict[str, Any]] = []
    for index, arm in enumerate(arms):
        axes = panels.axes(index)
        circle = {
            "type": "circle",
            "name": "guide",
            "layer": "below",
            "xref": axes["xaxis"],
            "yref": axes["yaxis"],
            "line": {"width": 1.25},
        }
        layout["shapes"].append(circle | {"x0": -1, "x1": 1, "y0": -1, "y1": 1})
        own = [spectrum for spectrum in numbers.spectra if spectrum.panel == arm]
        if numbers.truth.get(arm):
            traces.append(_truth(numbers.truth[arm]) | axes)
        # Controls before cores: what is under test lies on top.
        for spectrum in sorted(own, key=lambda spectrum: spectrum.role == "core"):
            traces.append(_fitted(spectrum, slot_of[spectrum.name]) | axes)
    seen: set[str] = set()
    for trace in traces:
        trace["showlegend"] = trace["name"] not in seen
        seen.add(trace["name"])
    caption = (
        "Eigenvalues of the operator fitted on core coordinates. Crosses: the task's own eigenvalues (without the 1, which "
        f"centring removes); filled symbols: trained models; open symbols: controls; circle: modulus 1; {numbers.intervals}."
    )
    return Figure(
        name=name,
        title="The operator's spectrum beside the task's" + (f" ({numbers.where})" if numbers.where else ""),
        caption=f"{caption} {numbers.note}".strip(),
        alt=_alt(numbers, arms),
        plot={"data": traces, "layout": layout},
        columns=("arm", "model", "role", "real", "imaginary", "real low", "real high", "imaginary low", "imaginary high"),
        rows=tuple(_rows(numbers)),
    )


def _fitted(spectrum: Spectrum, slot: int) -> dict[str, Any]:
    boxes = spectrum.intervals or (None,) * len(spectrum.values)
    real, imag = [value.real for value in spectrum.values], [value.imag for value in spectrum.values]
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": real,
        "y": imag,
        "name": spectrum.name,
        "legendgroup": spectrum.name,
        "legendrank": 2 if spectrum.role == "core" else 3,
        "marker": {
            "symbol": symbol(slot, spectrum.role),
            "size": 9,
            "opacity": 0.7 if spectrum.role == "core" else 1.0,
            "line": {"width": 1},
        },
        "hovertemplate": f"%{{x:.4f}} %{{y:+.4f}}i<extra>{spectrum.name}</extra>",
        "meta": meta(slot, spectrum.role),
    }
    bars = {
        "error_x": interval_bars(real, [b and b.real_low for b in boxes], [b and b.real_high for b in boxes]),
        "error_y": interval_bars(imag, [b and b.imag_low for b in boxes], [b and b.imag_high for b in boxes]),
    }
    return trace | {key: bar for key, bar in bars.items() if bar}


def _truth(values: tuple[complex, ...]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [value.real for value in values],
        "y": [value.imag for value in values],
        "name": "truth",
        "legendrank": 1,
        "legendgroup": "truth",
        "marker": {"symbol": "cross-thin-open", "size": 22, "line": {"width": 1.5}},
        "hovertemplate": "%{x:.4f} %{y:+.4f}i<extra>truth</extra>",
        "meta": meta(0, "reference"),
    }


def _rows(numbers: Eigenvalues) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = [
        (arm, "truth", "reference", value.real, value.imag, None, None, None, None)
        for arm, values in numbers.truth.items()
        for value in values
    ]
    for spectrum in numbers.spectra:
        for value, box in zip(spectrum.values, spectrum.intervals or (None,) * len(spectrum.values), strict=True):
            ends = (box.real_low, box.real_high, box.imag_low, box.imag_high) if box else (None,) * 4
            rows.append((spectrum.panel, spectrum.name, spectrum.role, value.real, value.imag, *ends))
    return rows


def _text(values: tuple[complex, ...]) -> str:
    return ", ".join(f"{v.real:.3f}" if abs(v.imag) < 5e-4 else f"{v.real:.3f}{v.imag:+.3f}i" for v in values)


def _alt(numbers: Eigenvalues, arms: tuple[str, ...]) -> str:
    parts = [f"Scatter plot in the complex plane with the unit circle, one panel an arm ({', '.join(arms)})."]
    for arm in arms:
        if numbers.truth.get(arm):
            parts.append(f"{arm}, truth: {_text(numbers.truth[arm])}.")
        parts += [f"{arm}, {s.name}: {_text(s.values)}." for s in numbers.spectra if s.panel == arm]
    return " ".join(parts)
