"""The page as a file: whole, small, in the right order, and no text from the folder becomes markup."""

import base64
import html
import json
import re
from html.parser import HTMLParser

import pytest

from invariscope.errors import ConfigError
from invariscope.figures import RankCurves, RankSeries, draw_rank_curve
from invariscope.report import build_report, page
from invariscope.storage import Claim, Mark
from report.synthetic_run import LABEL_WITH_MARKUP, claims, core_curves, core_planes, rank_curve, training_curves, write_run


class Elements(HTMLParser):
    """Every start tag with its attributes, and the text outside scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self._inside = [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", "".join(self.words))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def source(folder):
    return build_report(folder).read_text()


@pytest.fixture(scope="module")
def elements(source):
    return Elements(source)


def test_one_file_below_the_limit_with_one_copy_of_plotly(folder, source):
    assert build_report(str(folder)) == folder / "report.html"
    assert len(source.encode()) < page.MAX_REPORT_BYTES
    assert source.count("plotly.js v") == 1


def test_equal_folders_give_equal_bytes(folder, source):
    assert build_report(folder).read_text() == source


def test_nothing_is_loaded_from_elsewhere(elements):
    loading = [(tag, attrs) for tag, attrs in elements.tags if {"src", "srcset", "data", "poster"} & set(attrs) or tag == "link"]
    assert [attrs["href"][:5] for _, attrs in loading] == ["data:"]
    policy = next(attrs["content"] for tag, attrs in elements.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")


def test_the_answer_comes_first_then_claims_figures_making(elements):
    text = elements.text
    order = ("Of 6 claims, 3 are", "After attention, three", "How many directions", "The same command on one machine")
    places = [text.index(words) for words in order]
    assert places == sorted(places)


def test_every_verdict_is_a_word_and_a_sign(source):
    for claim in claims():
        name = claim.verdict.replace(" ", "-")
        badge = re.search(rf'<span class="verdict {name}"><svg class="icon".*?</svg><span>{claim.verdict}</span>', source, re.S)
        assert badge, claim.verdict


def test_a_failed_claim_is_counted_at_the_top_even_when_there_is_none(tmp_path):
    good = [claim for claim in claims() if claim.verdict == "reproduced"]
    text = Elements(build_report(write_run(tmp_path, drawn=[], tested=good)).read_text()).text
    assert "0not reproduced" in text
    assert "not measured" not in text


def test_by_construction_rows_stand_apart_below_the_others(source):
    head, aside = source.split('class="by-construction"', maxsplit=1)
    assert "by-construction-final-norm" in aside
    assert 'id="claim-markov-cores-by-construction-final-norm"' not in head


def test_every_figure_has_alt_text_a_caption_a_table_and_its_csv(source, elements):
    plots = [attrs for _, attrs in elements.tags if "data-figure" in attrs]
    assert len(plots) == 5
    assert all(attrs["role"] == "img" and len(attrs["aria-label"]) > 80 for attrs in plots)
    assert source.count("<figcaption>") == source.count('<table class="data">') == 5
    links = {attrs["download"]: attrs["href"] for _, attrs in elements.tags if "download" in attrs}
    head, data = links["rank_curve.csv"].split(",")
    assert head == "data:text/csv;charset=utf-8;base64"
    assert base64.b64decode(data).decode() == rank_curve().csv_text()


def test_a_moving_figure_has_a_labelled_slider_that_stands_at_its_last_frame(tmp_path):
    source = build_report(write_run(tmp_path, drawn=[core_planes(), core_curves(), rank_curve()])).read_text()
    found = Elements(source)
    sliders = {attrs["id"]: attrs for tag, attrs in found.tags if tag == "input"}
    assert list(sliders) == ["frames-core_curves", "frames-core_over_training"]
    slider = sliders["frames-core_over_training"]
    assert (slider["type"], slider["min"], slider["max"], slider["value"]) == ("range", "0", "6", "6")
    assert slider["aria-valuetext"] == "step 400"
    assert [attrs["for"] for tag, attrs in found.tags if tag == "label"] == list(sliders)
    # Without scripts it could move nothing: the script shows it.
    assert all("hidden" in attrs for _, attrs in found.tags if attrs.get("class") == "frames")
    assert "Training step step 400" in found.text
    plot = json.loads(source.split('id="plot-core_over_training">')[1].split("</script>")[0])
    assert [frame["label"] for frame in plot["frames"]] == [frame.label for frame in core_planes().frames]
    assert plot["frames"][-1]["traces"][0] == {"trace": 2, "x": plot["data"][2]["x"], "y": plot["data"][2]["y"]}


def test_long_tables_are_cut_and_say_so(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "_MAX_TABLE_ROWS", 10)
    source = build_report(write_run(tmp_path, drawn=[training_curves()])).read_text()
    body = source.split('<table class="data">')[1].split("</table>")[0]
    assert body.count("<tr>") == 11
    assert f"The first 10 rows; the CSV has all {len(training_curves().rows)}." in source


def test_text_from_the_folder_never_becomes_markup(tmp_path):
    evil = LABEL_WITH_MARKUP
    series = RankSeries(panel=evil, name=evil, keep_loss=(1.0,), removed=(99.0,), singular_values=(1.0,), rank=1)
    figure = draw_rank_curve(RankCurves(series=(series,), where=evil))
    claim = Claim(
        id=f"a/{evil}",
        statement=evil,
        source=evil,
        unit=evil,
        note=evil,
        mark=Mark(kind="above", target=0),
        measured=1,
        preset="quick",
    )
    source = build_report(write_run(tmp_path, drawn=[figure], tested=[claim])).read_text()
    assert evil not in source
    assert "</b>" not in source
    parsed = Elements(source)
    assert parsed.text.count(html.unescape(evil)) >= 4
    assert sum(tag == "script" for tag, _ in parsed.tags) == 3
    ids = [attrs["id"] for _, attrs in parsed.tags if attrs.get("id", "").startswith("claim-a")]
    assert re.fullmatch(r"claim-[a-zA-Z0-9_-]+", ids[0])


def test_a_page_without_figures_carries_no_plotly(tmp_path):
    source = build_report(write_run(tmp_path, drawn=[])).read_text()
    assert "plotly.js v" not in source
    assert 'id="figures"' not in source
    assert len(source) < 100_000


def test_a_page_above_the_limit_is_refused_and_the_old_one_stays(tmp_path, monkeypatch):
    path = build_report(write_run(tmp_path, drawn=[rank_curve()]))
    before = path.read_bytes()
    monkeypatch.setattr(page, "MAX_REPORT_BYTES", 1_000_000)
    with pytest.raises(ConfigError, match=r"a report of \d\.\d MB .*; expected at most 1 MB; draw fewer points; .* 'rank_curve'"):
        build_report(tmp_path)
    assert path.read_bytes() == before


def test_an_unfinished_run_is_marked_on_the_page(tmp_path):
    assert "had not finished" in Elements(build_report(write_run(tmp_path, status="running", drawn=[])).read_text()).text
