"""A slider that says each moment in words, in a real Chromium: the words fit, and nothing jumps while it moves."""

import pytest

from browser.opened import OVERLAPS, RIGHTMOST, SCHEMES, WIDTHS, Opened
from invariscope.figures import AccuracyCurve, AccuracyCurves, draw_accuracy_curves
from invariscope.report import build_report
from report.synthetic_run import write_run

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

NAME = "told"
SENTENCES = (
    "Step 0: nothing learnt yet (rare questions 0.02); neither leads, in conflict 0.03 by the context, 0.00 by memory.",
    "Step 50: common ones learnt (rare questions 0.23, common questions 1.00); memory leads, in conflict 0.00 by the context, "
    "1.00 by memory; questions that only the context answers are 0.50 of the data and 1.00 of the loss, and the hardest pull, "
    "+0.03 a unit of time, is on the first of them, mostly by those, and this sentence is as long as any that a study has said "
    "so far.",
)
# How far below its title a plot begins.
TOP = """(name) => document.querySelector(`[data-figure=${name}]`).getBoundingClientRect().top
  - document.getElementById(`figure-${name}`).getBoundingClientRect().top"""
LINES = "(name) => document.querySelector(`[data-figure=${name}]`).data.slice(-2).map((trace) => trace.x)"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    curves = tuple(
        AccuracyCurve(panel=panel, name="coordinate", steps=(0, 25, 50), values=(0.0, 1.0, 4.0)) for panel in ("one", "two")
    )
    figure = draw_accuracy_curves(
        AccuracyCurves(
            curves=curves, title="Told in words", unit_axis=False, moments=tuple(zip((0, 50), SENTENCES, strict=True))
        ),
        name=NAME,
    )
    return build_report(write_run(tmp_path_factory.mktemp("words"), drawn=[figure]))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_words_follow_the_slider_and_fit(browser, report, scheme, width):
    with Opened(browser, report, scheme=scheme, width=width) as opened:
        page = opened.page
        slider, output = page.locator(f"#frames-{NAME}"), page.locator(f"#figure-{NAME} output")
        assert output.inner_text() == SENTENCES[1]
        assert page.evaluate(LINES, NAME) == [[50, 50], [50, 50]]
        before = page.evaluate(TOP, NAME)
        slider.press("Home")
        opened.wait_until(f"() => JSON.stringify(({LINES})('{NAME}')) === '[[0,0],[0,0]]'")
        assert (output.inner_text(), slider.get_attribute("aria-valuetext")) == (SENTENCES[0], SENTENCES[0])
        assert page.evaluate(RIGHTMOST) <= width
        assert page.evaluate(OVERLAPS) == []
        if width > 600:
            # On a phone the longest sentences may need another line.
            assert page.evaluate(TOP, NAME) == before
        page.locator(f"#figure-{NAME} summary").click()
        cell = page.locator(f"#figure-{NAME} td.words").first
        assert cell.inner_text() == SENTENCES[0]
        assert cell.bounding_box()["width"] < 900
