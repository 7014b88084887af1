"""Content: what the page says follows from the folder's files, and bad folders are named."""

import shutil
import subprocess
import sys

import pytest

from invariscope.errors import FolderError, ForeignFileError
from invariscope.report.content import VERDICTS, answer_of, read_content
from invariscope.storage import Claim, Mark, write_claims
from report.synthetic_run import claims, rank_curve, training_curves, write_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def content(folder):
    return read_content(folder)


def counts(*numbers):
    return dict(zip(VERDICTS, numbers, strict=True))


@pytest.mark.parametrize(
    ("given", "aside", "sentence"),
    [
        (counts(13, 0, 0, 0), 0, "All 13 claims are reproduced."),
        (counts(0, 0, 1, 0), 0, "The one claim is not reproduced."),
        (counts(0, 0, 0, 2), 0, "All 2 claims are not measured."),
        (counts(0, 0, 0, 0), 0, "This run tested no claim."),
        (
            counts(10, 0, 1, 0),
            2,
            "Of 11 claims, 10 are reproduced and 1 is not reproduced. 2 more are true by construction and do not count.",
        ),
        (
            counts(3, 2, 1, 1),
            0,
            "Of 7 claims, 3 are reproduced, 2 are reproduced with a caveat, 1 is not reproduced and 1 is not measured.",
        ),
    ],
)
def test_the_answer_names_every_verdict_that_occurs(given, aside, sentence):
    assert answer_of(given, num_by_construction=aside) == sentence


def test_claims_by_construction_are_apart_and_not_counted(content):
    assert content.counts == counts(3, 1, 1, 1)
    assert [claim.id for claim in content.by_construction] == ["markov-cores/by-construction-final-norm"]
    assert len(content.claims) == 6


def test_a_row_has_the_numbers_of_its_claim(content):
    row = content.claims[3]
    assert (row.verdict, row.paper, row.measured, row.interval, row.mark) == (
        "not reproduced",
        "0.92",
        "0.9613",
        "[0.9544, 0.9702]",
        "≥ 0.98",
    )
    assert [(control.value, control.mark, control.passed) for control in row.controls] == [
        ("0.31", "≤ 0.5", True),
        ("0.71", "≤ 0.65", False),
    ]
    assert row.basis == "seeds 0, 1, 2"
    assert content.claims[2].basis == "seeds 0, 1, 2, n\u00a0=\u00a0300\u202f000"
    assert content.claims[2].note == "the interval [0.0131, 0.0342] crosses the mark at most 0.03"
    assert content.claims[5].measured == "–"


def test_figures_come_in_the_order_of_the_claims(content):
    names = [figure.name for figure in content.figures]
    assert names == ["rank_curve", "ablation_bars", "eigenvalues", "similarity_bars", "training_curves"]


def test_a_claim_links_only_to_a_figure_that_is_there(tmp_path):
    content = read_content(write_run(tmp_path, drawn=[training_curves()]))
    assert [claim.figure for claim in content.claims if claim.figure] == ["training_curves"]


def test_figures_that_no_claim_names_come_last(tmp_path):
    only = [claim for claim in claims() if claim.figure == "training_curves"]
    content = read_content(write_run(tmp_path, drawn=[rank_curve(), training_curves()], tested=only))
    assert [figure.name for figure in content.figures] == ["training_curves", "rank_curve"]


def test_papers_are_named_once(content):
    assert content.papers == (("arXiv:2602.22600", "https://arxiv.org/abs/2602.22600"),)


def test_how_it_was_made(content):
    facts = dict(content.making)
    assert facts["Versions"].startswith("python 3.11.7, torch 2.13.0+cpu")
    assert facts["Code"] == "0123456789ab, with uncommitted changes"
    assert facts["Cores and threads"] == "2 cores, OMP_NUM_THREADS 1, torch 1"
    assert facts["Took"] == "1 min 23 s"
    assert content.command.startswith("invariscope run markov-cores")
    assert '"d_model": 64' in content.collapsed[0][1]
    assert content.headline_facts == ("preset quick", "seeds 0, 1, 2", "on cpu", "took 1 min 23 s", "2026-03-01")


@pytest.mark.parametrize(("status", "words"), [("running", "had not finished"), ("failed", "had failed"), ("finished", "")])
def test_a_run_that_did_not_finish_says_so(tmp_path, status, words):
    warning = read_content(write_run(tmp_path, status=status, drawn=[])).warning
    assert words in warning
    assert bool(warning) == bool(words)


def test_a_folder_without_a_manifest_is_refused(tmp_path):
    with pytest.raises(ForeignFileError, match=r"manifest\.json"):
        read_content(tmp_path)


def test_a_run_without_claims_is_refused_with_what_to_do(tmp_path, folder):
    shutil.copy(folder / "manifest.json", tmp_path)
    with pytest.raises(
        FolderError, match=r"holds no claims\.json; expected a run that has reached its claims; give the run's command"
    ):
        read_content(tmp_path)


@pytest.mark.parametrize("name", ["claims.json", "figures/rank_curve.json", "manifest.json"])
def test_a_truncated_file_is_named(tmp_path, name):
    path = write_run(tmp_path, drawn=[rank_curve()]) / name
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ForeignFileError, match=name.replace("/", ".").replace(".", r".")):
        read_content(tmp_path)


def test_many_neighbouring_seeds_are_written_as_a_span(tmp_path):
    mark = Mark(kind="at_most", target=1)
    many = Claim(id="a/b", statement="s", source="x", mark=mark, measured=0.5, seeds=tuple(range(5, 15)), num=10, preset="quick")
    write_run(tmp_path, drawn=[], tested=[])
    write_claims(tmp_path / "claims.json", [many], experiment="markov-cores", preset="quick")
    assert read_content(tmp_path).claims[0].basis == "seeds 5 to 14"


def test_neither_torch_nor_plotly_is_loaded_before_a_page_is_written():
    code = "import sys, invariscope.report; print([m for m in ('torch', 'plotly') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
