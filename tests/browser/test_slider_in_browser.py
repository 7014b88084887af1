"""Figures that move, in a real Chromium: by keyboard and by touch, in both schemes, on a phone and on paper."""

import pytest

from browser.opened import CONTRASTS, OVERLAPS, RIGHTMOST, SCHEMES, WIDTHS, Opened
from invariscope.report import build_report
from report.synthetic_run import core_curves, core_planes, similarity_bars, write_run

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

NAME, CURVES = "core_over_training", "core_curves"
# What is on the screen, by way of plotly's own elements: places of all symbols of the plot.
PLACES = """(name) => [...document.querySelectorAll(`[data-figure=${name}] .scatterlayer .point`)]
  .map((point) => point.getAttribute("transform"))"""
LINES = """(name) => [...document.querySelectorAll(`[data-figure=${name}] .scatterlayer .js-line`)]
  .map((line) => line.getAttribute("d"))"""
TICKS = (
    "(name) => [...document.querySelectorAll(`[data-figure=${name}] :is(.xtick, .ytick) text`)].map((text) => text.textContent)"
)
# The values that plotly holds for the trace that a frame moves first.
HELD = "(name) => document.querySelector(`[data-figure=${name}]`).data[2].x"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return build_report(write_run(tmp_path_factory.mktemp("moving"), drawn=[core_planes(), core_curves(), similarity_bars()]))


def slider(opened, name=NAME):
    return opened.page.locator(f"#frames-{name}")


def said(opened, name=NAME):
    return opened.page.locator(f"#figure-{name} output").inner_text()


def wait_for_frame(opened, index):
    """Until plotly holds the numbers of a frame of the planes."""
    wanted = core_planes().frames[index].traces[2]["x"]
    opened.wait_until(f"() => JSON.stringify(({HELD})('{NAME}')) === JSON.stringify({wanted})")


def press(opened, key, index):
    """Press a key on the slider of the planes and wait until its frame is drawn."""
    slider(opened).press(key)
    wait_for_frame(opened, index)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_keyboard_moves_the_points_and_not_the_axes(browser, report, scheme, width):
    with Opened(browser, report, scheme=scheme, width=width) as opened:
        page = opened.page
        last, ticks = page.evaluate(PLACES, NAME), page.evaluate(TICKS, NAME)
        assert said(opened) == "step 400"
        slider(opened).focus()
        press(opened, "Home", 0)
        first = page.evaluate(PLACES, NAME)
        assert (said(opened), slider(opened).get_attribute("aria-valuetext")) == ("step 0", "step 0")
        # 3 eigenvalues and 12 states have moved; the task's 3 have not.
        assert sum(before != after for before, after in zip(last, first, strict=True)) == 15
        press(opened, "ArrowRight", 1)
        assert said(opened) == "step 10"
        assert page.evaluate(PLACES, NAME) not in (first, last)
        assert page.evaluate(TICKS, NAME) == ticks
        press(opened, "End", 6)
        assert page.evaluate(PLACES, NAME) == last
        assert opened.errors == []
        assert opened.requests == [report.as_uri()]


def test_the_cursor_moves_through_every_panel_and_the_curves_stand_still(browser, report):
    with Opened(browser, report) as opened:
        before, points = opened.page.evaluate(LINES, CURVES), opened.page.evaluate(PLACES, CURVES)
        slider(opened, CURVES).focus()
        slider(opened, CURVES).press("Home")
        opened.wait_until(f"() => document.querySelector('[data-figure={CURVES}]').data[4].x[0] === 0")
        after = opened.page.evaluate(LINES, CURVES)
        assert said(opened, CURVES) == "step 0"
        assert sum(one != other for one, other in zip(before, after, strict=True)) == 4
        assert opened.page.evaluate(PLACES, CURVES) == points
        # Each figure has a slider of its own.
        assert said(opened) == "step 400"


def test_the_slider_is_reached_by_tab_named_and_visibly_focused(browser, report):
    with Opened(browser, report) as opened:
        page = opened.page
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.matches('input[type=range]')"):
                break
        assert page.evaluate("document.activeElement.id") == f"frames-{CURVES}"
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        assert page.get_by_role("slider", name="Training step").count() == 2
        assert page.locator(f"#figure-{NAME} label").is_visible()


def test_a_finger_on_a_phone_finds_it(browser, report):
    with Opened(browser, report, width=390, has_touch=True) as opened:
        slider(opened).scroll_into_view_if_needed()
        box = slider(opened).bounding_box()
        assert box["height"] >= 44
        assert box["width"] > 250
        opened.page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        opened.wait_until("() => document.querySelector('#figure-core_over_training output').textContent === 'step 40'")
        assert opened.errors == []


@pytest.mark.parametrize("width", [390, 320])
def test_the_page_does_not_scroll_sideways_on_a_phone(browser, report, width):
    with Opened(browser, report, width=width) as opened:
        slider(opened).focus()
        press(opened, "Home", 0)
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.page.evaluate(RIGHTMOST) <= width + 0.5


@pytest.mark.parametrize("scheme", SCHEMES)
def test_texts_stand_out_and_do_not_cover_each_other(browser, report, scheme):
    with Opened(browser, report, scheme=scheme) as opened:
        found = opened.page.evaluate(CONTRASTS)
        assert {"Training step", "step 400", "12"} <= {text for _, text, _ in found}
        assert [entry for entry in found if entry[0] < 4.5] == []
        assert opened.page.evaluate(OVERLAPS) == []


def test_what_the_reader_has_hidden_stays_hidden_while_the_slider_moves(browser, report):
    with Opened(browser, report) as opened:
        legend = opened.page.locator(f"[data-figure={NAME}] .legend .traces").filter(has_text="states 2, 6, 10")
        num = len(opened.page.evaluate(PLACES, NAME))
        legend.locator(".legendtoggle").click()
        opened.wait_until(f"() => ({PLACES})('{NAME}').length === {num - 3}")
        slider(opened).focus()
        press(opened, "Home", 0)
        assert len(opened.page.evaluate(PLACES, NAME)) == num - 3


def test_the_slider_keeps_its_place_when_the_scheme_changes(browser, report):
    with Opened(browser, report) as opened:
        slider(opened).focus()
        press(opened, "Home", 0)
        opened.page.emulate_media(color_scheme="dark")
        opened.page.wait_for_selector("html[data-drawn=dark]")
        wait_for_frame(opened, 0)
        assert said(opened) == "step 0"
        assert opened.errors == []


def test_paper_shows_the_last_frame_and_no_slider(browser, report):
    with Opened(browser, report) as opened:
        slider(opened).focus()
        press(opened, "Home", 0)
        opened.page.emulate_media(media="print")
        wait_for_frame(opened, 6)
        assert not slider(opened).is_visible()
        opened.page.emulate_media(media="screen")
        wait_for_frame(opened, 0)


def test_nothing_moves_by_itself(browser, report):
    with Opened(browser, report) as opened:
        before = opened.page.evaluate(PLACES, NAME)
        opened.page.wait_for_timeout(400)
        assert opened.page.evaluate(PLACES, NAME) == before
        assert said(opened) == "step 400"


def test_without_scripts_there_is_no_slider_that_would_move_nothing(browser, report):
    with Opened(browser, report, java_script_enabled=False, wait=False) as opened:
        assert not slider(opened).is_visible()
        assert opened.page.locator("table.data").count() == 3
