"""Layer curves: values reach traces and table; controls carry no bars; lines for chance and the chosen layer."""

from __future__ import annotations

import pytest

from invariscope.errors import ShapeError, TooFewSamplesError
from invariscope.figures import LayerCurve, LayerCurves, draw_layer_curves
from invariscope.figures.layer_curves import MANY_LAYERS


def curve(name="core", role="core", panel="tiny: flip", **changes) -> LayerCurve:
    fields = {"layers": (0, 1), "values": (0.9, 0.1), "lows": (0.8, 0.0), "highs": (1.0, 0.2)} | changes
    return LayerCurve(panel=panel, name=name, role=role, **fields)


def draw(*curves, **changes):
    return draw_layer_curves(LayerCurves(curves=curves, title="Layers", quantity="AUC", **changes))


def test_values_reach_traces_and_table():
    figure = draw(curve(), curve("random", "control"), chance=0.5, chosen={"tiny: flip": 1})
    core, random = figure.plot["data"]
    assert (core["x"], core["y"]) == ([0, 1], [0.9, 0.1])
    assert core["error_y"]["array"] == pytest.approx([0.1, 0.1])
    assert "error_y" not in random
    assert random["marker"]["symbol"].endswith("open")
    assert figure.rows[3] == ("tiny: flip", "random", "control", 1, 0.1, 0.0, 0.2)
    assert "0.10 at layer 1" in figure.alt
    assert "Dashed line: chance 0.5. Layer taken in tiny: flip: 1." in figure.alt
    assert core["zorder"] > random["zorder"]
    shapes = figure.plot["layout"]["shapes"]
    assert shapes[0]["y0"] == 0.5
    assert shapes[1]["x0"] == 1


@pytest.mark.parametrize(("quantity", "written"), [("AUC", "AUC"), ("accuracy", "Accuracy")])
def test_the_quantity_stands_on_the_axis_in_the_table_and_in_the_texts(quantity, written):
    figure = draw_layer_curves(LayerCurves(curves=(curve(),), title="Layers", quantity=quantity, chance=0.5))
    assert figure.plot["layout"]["yaxis"]["title"]["text"] == figure.columns[4] == quantity
    assert figure.caption.startswith(f"{written} under the edit named above each panel")
    assert figure.alt.startswith(f"Line charts of {quantity} against the layer.")


def test_one_line_has_one_entry_in_the_legend():
    figure = draw(curve(), curve(panel="tiny: keep"))
    assert [trace["showlegend"] for trace in figure.plot["data"]] == [True, False]


def test_another_level_than_chance_is_named_and_the_caption_claims_no_edit():
    bare = curve(lows=(None, None), highs=(None, None))
    figure = draw(bare, chance=0.95, chance_label="threshold", subject="Share against the layer")
    assert any(note["text"].endswith("threshold 0.95") for note in figure.plot["layout"]["annotations"])
    assert figure.caption == "Share against the layer."
    assert "chance" not in figure.alt


def test_the_caption_speaks_of_intervals_and_controls_where_there_are_some():
    assert "Bars: 95\u00a0% intervals." in draw(curve()).caption
    assert "controls" not in draw(curve()).caption
    assert "cores, with 95\u00a0% intervals; open symbols" in draw(curve(), curve("random", "control")).caption


def test_over_many_layers_only_the_first_core_shows_its_intervals_and_the_table_has_all():
    num = MANY_LAYERS + 1
    long = {"layers": tuple(range(num)), "values": (0.5,) * num, "lows": (0.4,) * num, "highs": (0.6,) * num}
    figure = draw(curve(**long), curve("other", **long), curve("random", "control", **long))
    assert ["error_y" in trace for trace in figure.plot["data"]] == [True, False, False]
    assert figure.plot["data"][0]["error_y"]["width"] == 0
    assert "cores, the first with 95\u00a0% intervals" in figure.caption
    assert all(row[5:] == (0.4, 0.6) for row in figure.rows)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match="curve 'core'"):
        draw(curve(values=(0.1,)))
    with pytest.raises(TooFewSamplesError, match="layers in curve 'core'"):
        draw(curve(layers=(), values=(), lows=(), highs=()))
    with pytest.raises(TooFewSamplesError, match="curves"):
        draw()
