"""Eigenvalues: coordinates, intervals, truth and the unit circle, with equal axes."""

import pytest

from invariscope.errors import ShapeError, TooFewSamplesError
from invariscope.figures import Box, Eigenvalues, Spectrum, draw_eigenvalues

TRUTH = {"paper": (0.75 + 0.25j, 0.75 - 0.25j, 0.5 + 0j)}
BOX = Box(real_low=0.70, real_high=0.78, imag_low=0.20, imag_high=0.27)
FITTED = Spectrum(panel="paper", name="seed 0", values=(0.74 + 0.26j, 0.74 - 0.26j), intervals=(BOX, None))
UNTRAINED = Spectrum(panel="paper", name="untrained", values=(0.3 + 0j,), role="control")


def trace(figure, name):
    return next(trace for trace in figure.plot["data"] if trace["name"] == name)


def test_values_are_drawn_by_real_and_imaginary_part_with_their_intervals():
    fitted = trace(draw_eigenvalues(Eigenvalues(spectra=(FITTED,), truth=TRUTH)), "seed 0")
    assert (fitted["x"], fitted["y"]) == ([0.74, 0.74], [0.26, -0.26])
    assert fitted["error_x"]["array"] == pytest.approx([0.04, 0.0])
    assert fitted["error_x"]["arrayminus"] == pytest.approx([0.04, 0.0])
    assert fitted["error_y"]["array"] == pytest.approx([0.01, 0.0])
    assert fitted["error_y"]["arrayminus"] == pytest.approx([0.06, 0.0])


def test_truth_is_a_cross_and_controls_are_open_symbols():
    figure = draw_eigenvalues(Eigenvalues(spectra=(FITTED, UNTRAINED), truth=TRUTH))
    truth, untrained = trace(figure, "truth"), trace(figure, "untrained")
    assert truth["marker"]["symbol"] == "cross-thin-open"
    assert truth["meta"]["role"] == "reference"
    assert (truth["x"], truth["y"]) == ([0.75, 0.75, 0.5], [0.25, -0.25, 0.0])
    assert untrained["marker"]["symbol"].endswith("-open")
    assert "error_x" not in untrained


def test_every_panel_has_equal_axes_and_a_unit_circle():
    other = Spectrum(panel="real", name="seed 0", values=(0.5 + 0j,))
    layout = draw_eigenvalues(Eigenvalues(spectra=(FITTED, other), truth=TRUTH)).plot["layout"]
    assert (layout["yaxis"]["scaleanchor"], layout["yaxis2"]["scaleanchor"]) == ("x", "x2")
    circles = [(s["xref"], s["x0"], s["x1"], s["y0"], s["y1"]) for s in layout["shapes"] if s["type"] == "circle"]
    assert circles == [("x", -1, 1, -1, 1), ("x2", -1, 1, -1, 1)]


def test_the_table_and_the_alt_text_hold_the_numbers():
    figure = draw_eigenvalues(Eigenvalues(spectra=(FITTED,), truth=TRUTH))
    assert figure.rows[3] == ("paper", "seed 0", "core", 0.74, 0.26, 0.70, 0.78, 0.20, 0.27)
    assert figure.rows[4] == ("paper", "seed 0", "core", 0.74, -0.26, None, None, None, None)
    assert "paper, truth: 0.750+0.250i, 0.750-0.250i, 0.500." in figure.alt


def test_a_name_is_in_the_legend_once():
    other = Spectrum(panel="real", name="seed 0", values=(0.5 + 0j,))
    figure = draw_eigenvalues(Eigenvalues(spectra=(FITTED, other), truth=TRUTH | {"real": (0.5 + 0j,)}))
    assert sorted(t["name"] for t in figure.plot["data"] if t["showlegend"]) == ["seed 0", "truth"]


def test_bad_input_is_refused():
    with pytest.raises(TooFewSamplesError, match="without spectra"):
        draw_eigenvalues(Eigenvalues(spectra=(), truth=TRUTH))
    crooked = Spectrum(panel="paper", name="seed 0", values=(0.5 + 0j, 0.4 + 0j), intervals=(BOX,))
    with pytest.raises(ShapeError, match="spectrum 'seed 0' in 'paper': values of 2, intervals of 1; expected equal lengths"):
        draw_eigenvalues(Eigenvalues(spectra=(crooked,), truth=TRUTH))
