"""The report in a real Chromium, opened from the disk: no request, no error, both schemes, a phone, the keyboard, paper.

The pages are made from a synthetic run folder, so that these tests need no training.
"""

import shutil

import pytest

from browser.opened import (
    CLOSE_ALL,
    CONTRASTS,
    FILLS,
    OPEN_ALL,
    OVERLAPS,
    RIGHTMOST,
    SCHEMES,
    TICK,
    WIDTHS,
    Opened,
    executable,
)
from invariscope.report import build_report
from report.synthetic_run import figures, rank_curve, similarity_bars, write_run

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

PANEL_LEFTS = """() => [...document.querySelectorAll("[data-figure=training_curves] .annotation-text")]
  .filter((text) => !text.textContent.includes("mark")).map((text) => Math.round(text.getBoundingClientRect().left))"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return build_report(write_run(tmp_path_factory.mktemp("run")))


@pytest.fixture(scope="module")
def small_report(tmp_path_factory):
    """With one figure: for what does not depend on their number, because drawing takes a second."""
    return build_report(write_run(tmp_path_factory.mktemp("small"), drawn=[similarity_bars()]))


@pytest.fixture(scope="module")
def shared(browser, report):
    """Pages by scheme and width that tests look at and leave as they found them."""
    pages = {(scheme, width): Opened(browser, report, scheme=scheme, width=width) for scheme in SCHEMES for width in WIDTHS}
    yield pages
    for page in pages.values():
        page.context.close()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_no_request_no_error_and_every_figure_drawn(shared, report, scheme, width):
    opened = shared[scheme, width]
    assert opened.requests == [report.as_uri()]
    assert opened.errors == []
    for figure in figures():
        plot = opened.page.locator(f"[data-figure={figure.name}]")
        box = plot.locator("svg.main-svg").first.bounding_box()
        assert box["height"] > 200
        assert box["width"] > 0.8 * width - 100
        assert plot.locator(".trace").count() == len(figure.plot["data"])


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_every_text_stands_out_from_its_background(shared, scheme, width):
    page = shared[scheme, width].page
    page.evaluate(OPEN_ALL)
    found = page.evaluate(CONTRASTS)
    page.evaluate(CLOSE_ALL)
    assert sum(inside for *_, inside in found) > 60
    assert sum(not inside for *_, inside in found) > 200
    assert [entry for entry in found if entry[0] < 4.5] == []


def test_schemes_differ_on_the_page_and_in_every_figure(shared):
    shots = {}
    for scheme in SCHEMES:
        page = shared[scheme, 1280].page
        shots[scheme] = [page.screenshot(), *(plot.screenshot() for plot in page.locator(".plot").all())]
    assert len(shots["light"]) == 6
    assert all(light != dark for light, dark in zip(shots["light"], shots["dark"], strict=True))


@pytest.mark.parametrize("width", WIDTHS)
def test_titles_keys_and_legends_do_not_cover_each_other(shared, width):
    assert shared["light", width].page.evaluate(OVERLAPS) == []


def test_panels_that_are_narrow_on_a_middling_page_keep_their_titles_apart(browser, report):
    with Opened(browser, report, width=860) as opened:
        assert opened.page.evaluate(OVERLAPS) == []


@pytest.mark.parametrize(("width", "columns"), [(390, 1), (1280, 3)])
def test_panels_stand_under_each_other_on_a_phone_and_beside_each_other_on_a_desk(shared, width, columns):
    lefts = shared["light", width].page.evaluate(PANEL_LEFTS)
    assert len(lefts) == 3
    assert len(set(lefts)) == columns


def test_names_and_roles_are_there_for_a_screen_reader(shared):
    page = shared["light", 390].page
    # As cards the rows are no table for CSS, so their roles have to be said.
    assert page.get_by_role("table", name="Claims").count() == 1
    assert page.get_by_role("rowheader").count() == 7
    assert page.get_by_role("heading", level=1).inner_text() == "markov-cores"
    for figure in figures():
        assert page.get_by_role("img", name=figure.alt, exact=True).count() == 1


def test_the_page_never_scrolls_sideways(browser, report):
    with Opened(browser, report, width=390) as opened:
        opened.page.evaluate(OPEN_ALL)
        for width in (390, 320, 700, 900, 1280):
            opened.page.set_viewport_size({"width": width, "height": 900})
            opened.wait_until(f"() => document.querySelector('.plot svg').getBoundingClientRect().width > {0.8 * width - 100}")
            opened.wait_until(f"() => document.querySelector('.plot svg').getBoundingClientRect().width < {width}")
            assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
            opened.wait_until(f"() => ({RIGHTMOST})() <= {width + 0.5}")
        assert opened.errors == []


def test_figures_follow_when_the_scheme_changes_while_the_page_is_open(browser, small_report):
    with Opened(browser, small_report) as opened:
        before = opened.page.evaluate(FILLS)
        opened.page.emulate_media(color_scheme="dark")
        opened.page.wait_for_selector("html[data-drawn=dark]")
        after = opened.page.evaluate(FILLS)
        solid = [(x, y) for x, y in zip(before, after, strict=True) if x.startswith("rgb")]
        assert len(solid) == 6
        assert all(x != y for x, y in solid)
        assert opened.errors == []


def test_paper_is_white_even_for_a_reader_in_the_dark(browser, small_report):
    with Opened(browser, small_report, scheme="dark") as opened:
        opened.page.emulate_media(media="print", color_scheme="dark")
        opened.wait_until(f"() => ({TICK})() === 'rgb(68, 68, 68)'")
        assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert opened.page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"


def test_the_browser_itself_refuses_requests(browser, small_report):
    with Opened(browser, small_report) as opened:
        opened.page.evaluate("fetch('https://example.invalid/x').catch(() => null)")
        assert any("Content Security Policy" in error for error in opened.errors)


def test_tables_open_by_keyboard_and_focus_is_visible(browser, small_report):
    with Opened(browser, small_report) as opened:
        page = opened.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the claims"
        num_opened = 0
        while num_opened < 3:
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement !== document.body"), f"only {num_opened} were reached"
            if page.evaluate("document.activeElement.matches('summary')"):
                assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
                page.keyboard.press("Enter")
                assert page.evaluate("document.activeElement.parentElement.open")
                # What was opened scrolls inside itself, and the keyboard has to reach it.
                page.keyboard.press("Tab")
                assert page.evaluate("document.activeElement.matches('.scroll[tabindex=\\'0\\']')")
                num_opened += 1
        assert page.locator("figure table.data").first.is_visible()


def test_the_csv_is_downloaded_without_a_request_and_holds_the_table(browser, small_report, tmp_path):
    with Opened(browser, small_report, accept_downloads=True) as opened:
        with opened.page.expect_download() as download:
            opened.page.locator("#figure-similarity_bars a.download").click()
        path = tmp_path / "similarity_bars.csv"
        download.value.save_as(path)
        assert download.value.suggested_filename == "similarity_bars.csv"
        assert path.read_text() == similarity_bars().csv_text()
        assert opened.errors == []


def test_links_to_figures_lead_to_them(browser, small_report):
    with Opened(browser, small_report) as opened:
        opened.page.locator("#claim-markov-cores-cca-12-state a").click()
        assert opened.page.evaluate("document.querySelector(':target').id") == "figure-similarity_bars"


def test_without_scripts_the_page_still_has_its_claims_and_tables(browser, small_report):
    with Opened(browser, small_report, java_script_enabled=False, wait=False) as opened:
        text = opened.page.locator("main").inner_text()
        assert "scripts are switched off" in text
        assert "After attention, three directions" in text
        assert opened.page.locator("table.data").count() == 1
        assert opened.errors == []


def test_a_figure_that_cannot_be_drawn_says_so_and_spares_the_others(browser, tmp_path):
    path = build_report(write_run(tmp_path, drawn=[rank_curve(), similarity_bars()]))
    path.write_text(path.read_text().replace('"annotations": [{', '"annotations": 7, "was": [{', 1))
    with Opened(browser, path) as opened:
        assert "could not be drawn" in opened.page.locator("[data-figure=rank_curve]").inner_text()
        assert opened.page.locator("[data-figure=similarity_bars] svg.main-svg").count() > 0
        assert any("rank_curve" in error for error in opened.errors)


@pytest.mark.parametrize(("motion", "behaviour"), [("reduce", "auto"), ("no-preference", "smooth")])
def test_reduced_motion_is_honoured(browser, small_report, motion, behaviour):
    with Opened(browser, small_report, reduced_motion=motion, wait=False) as opened:
        assert opened.page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == behaviour


def test_a_missing_browser_is_a_failure_that_says_what_to_install(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(pytest.fail.Exception, match=r"no Chromium found .*apt-get install chromium"):
        executable()
