"""Rank curve: every number is drawn in its arm's panel, as it was given."""

import pytest

from invariscope.errors import TooFewSamplesError
from invariscope.figures import RankCurves, RankSeries, draw_rank_curve


def series(panel="four", name="seed 0", **changes):
    given = {"rank": 2, "keep_loss": (40.0, 1.5, 0.1), "removed": (55.0, 99.0, 100.2), "singular_values": (1.0, 0.5, 0.0)}
    return RankSeries(panel=panel, name=name, **given | changes)


def traces(figure, kind):
    return [trace for trace in figure.plot["data"] if trace["name"] == kind]


def test_numbers_are_drawn_and_tabled_as_given():
    figure = draw_rank_curve(RankCurves(series=(series(),)))
    assert traces(figure, "kept alone: lost")[0]["y"] == [40.0, 1.5, 0.1]
    assert traces(figure, "removed: destroyed")[0]["y"] == [55.0, 99.0, 100.2]
    assert figure.rows == (
        ("four", "seed 0", 1, 40.0, 55.0, 1.0),
        ("four", "seed 0", 2, 1.5, 99.0, 0.5),
        ("four", "seed 0", 3, 0.1, 100.2, 0.0),
    )


def test_a_zero_has_no_place_on_a_logarithmic_axis_but_stays_in_the_table():
    figure = draw_rank_curve(RankCurves(series=(series(),)))
    assert traces(figure, "singular values")[0]["y"] == [1.0, 0.5, None]


def test_a_rank_without_a_core_is_a_gap():
    figure = draw_rank_curve(RankCurves(series=(series(keep_loss=(40.0, None, 0.1)),)))
    assert traces(figure, "kept alone: lost")[0]["y"] == [40.0, None, 0.1]
    assert "keeping 2" not in figure.alt


def test_more_singular_values_than_ranks_are_tabled_but_not_drawn_beyond_the_ranks():
    figure = draw_rank_curve(RankCurves(series=(series(singular_values=(1.0, 0.5, 0.1, 0.05)),)))
    assert len(traces(figure, "singular values")[0]["y"]) == 3
    assert figure.rows[-1] == ("four", "seed 0", 4, None, None, 0.05)


@pytest.mark.parametrize("num_arms", [1, 3, 5])
def test_each_arm_has_two_panels_of_its_own_and_its_rank_is_marked_in_both(num_arms):
    given = tuple(series(panel=f"arm {i}", rank=i + 1) for i in range(num_arms))
    figure = draw_rank_curve(RankCurves(series=given))
    layout = figure.plot["layout"]
    notes = {
        kind: {n["xref"].split()[0]: n["text"] for n in layout["annotations"] if n["name"] == kind} for kind in ("title", "key")
    }
    assert len(notes["title"]) == 2 * num_arms
    for trace in figure.plot["data"]:
        below = trace["name"] == "singular values"
        assert (notes["key"][trace["xaxis"]] == "singular values") == below
        assert (layout["yaxis" + trace["yaxis"][1:]].get("type") == "log") == below
    marked = sorted((shape["xref"], shape["x0"]) for shape in layout["shapes"] if shape["x0"] == shape["x1"])
    assert marked == sorted((axis, int(arm[4:]) + 1) for axis, arm in notes["title"].items())


def test_marks_are_drawn_at_the_given_levels_and_the_alt_text_gives_the_numbers_at_the_rank():
    figure = draw_rank_curve(RankCurves(series=(series(),), sufficient_percent=3.0, necessary_percent=97.0))
    levels = [shape["y0"] for shape in figure.plot["layout"]["shapes"] if "label" in shape]
    assert levels == [3.0, 97.0]
    assert "four, seed 0: keeping 2 loses 1.5 %, removing destroys 99 %." in figure.alt


def test_seeds_differ_by_symbol_and_the_caption_says_which():
    figure = draw_rank_curve(RankCurves(series=(series(), series(name="seed 1"), series(name="untrained", role="control"))))
    symbols = [trace["marker"]["symbol"] for trace in traces(figure, "kept alone: lost")]
    assert len(set(symbols)) == 3
    assert all(
        f"{name} {symbol}" in figure.caption for name, symbol in zip(("seed 0", "seed 1", "untrained"), symbols, strict=True)
    )


def test_nothing_to_draw_is_refused():
    with pytest.raises(
        TooFewSamplesError, match="figure 'rank_curve' without series; expected at least one; leave the figure out"
    ):
        draw_rank_curve(RankCurves(series=()))
