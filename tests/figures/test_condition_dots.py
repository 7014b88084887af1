"""Condition dots: a row a condition, names inside the panel, the table beside it."""

from __future__ import annotations

import pytest

from invariscope.errors import TooFewSamplesError
from invariscope.figures import Condition, ConditionDots, draw_condition_dots

DOTS = (
    Condition(panel="0 into 1", name="core", value=2.02, low=2.01, high=2.03, role="core"),
    Condition(panel="0 into 1", name="shuffled", value=2.4),
    Condition(panel="1 into 0", name="core", value=2.03, role="core"),
)


def test_rows_from_above_with_their_names_inside_the_panel():
    figure = draw_condition_dots(ConditionDots(dots=DOTS, title="t", caption="c", references={"chance": 2.43}), name="transplant")
    assert figure.name == "transplant"
    assert [(trace["name"], trace["y"], trace["x"]) for trace in figure.plot["data"]] == [
        ("core", [1], [2.02]),
        ("shuffled", [0], [2.4]),
        ("core", [1], [2.03]),
    ]
    labels = [note for note in figure.plot["layout"]["annotations"] if note["name"] == "label"]
    assert [(note["text"], note["y"]) for note in labels] == [("core", 1), ("shuffled", 0), ("core", 1)]
    assert figure.plot["layout"]["yaxis"]["showticklabels"] is False
    assert [shape["x0"] for shape in figure.plot["layout"]["shapes"]] == [2.43, 2.43]


def test_intervals_and_table():
    figure = draw_condition_dots(ConditionDots(dots=DOTS, title="t", caption="c"))
    assert figure.plot["data"][0]["error_x"]["array"] == pytest.approx([0.01])
    assert "error_x" not in figure.plot["data"][1]
    assert figure.rows[0] == ("0 into 1", "core", "core", 2.02, 2.01, 2.03)
    assert "0 into 1: core 2.02, shuffled 2.4." in figure.alt


def test_treatment_is_filled_and_controls_are_open():
    symbols = [
        trace["marker"]["symbol"] for trace in draw_condition_dots(ConditionDots(dots=DOTS, title="t", caption="c")).plot["data"]
    ]
    assert not symbols[0].endswith("-open")
    assert symbols[1].endswith("-open")


@pytest.mark.parametrize("quantity", ["AUC", "accuracy"])
def test_panels_side_by_side_on_one_axis_of_a_pure_number(quantity):
    numbers = ConditionDots(dots=DOTS, title="t", caption="c", quantity=quantity, unit="", columns=2, span=(-0.05, 1.05))
    figure = draw_condition_dots(numbers)
    left, right = (figure.plot["layout"][axis] for axis in ("xaxis", "xaxis2"))
    assert left["domain"][1] < right["domain"][0]
    assert left["range"] == right["range"] == [-0.05, 1.05]
    assert left["title"]["text"] == figure.columns[3] == quantity
    assert figure.alt.startswith(f"Dot plot of {quantity}, one row")
    assert figure.plot["data"][0]["hovertemplate"].startswith("core: %{x:.4f}<extra>")


def test_panels_stand_below_one_another_on_axes_of_their_own_unless_asked():
    layout = draw_condition_dots(ConditionDots(dots=DOTS, title="t", caption="c")).plot["layout"]
    assert layout["xaxis"]["domain"] == layout["xaxis2"]["domain"] == [0.0, 1.0]
    assert "range" not in layout["xaxis"]


def test_nothing_to_draw_is_refused():
    with pytest.raises(TooFewSamplesError, match="conditions"):
        draw_condition_dots(ConditionDots(dots=(), title="t", caption="c"))
