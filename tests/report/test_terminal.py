"""The terminal summary: a table for people, one line a claim for logs, and letters that the console can write."""

import io

import pytest
from rich.console import Console

from invariscope.errors import ForeignFileError
from invariscope.report import build_report, print_summary
from report.synthetic_run import claims, write_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("run"), drawn=[])


def printed(folder, *, encoding="utf-8", **settings):
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    print_summary(folder, Console(file=file, **settings))
    file.flush()
    return raw.getvalue().decode(encoding)


def test_a_log_gets_one_line_a_claim_without_colour(folder):
    text = printed(folder, width=40)
    lines = text.splitlines()
    assert "\x1b" not in text
    for claim, line in zip(claims(), lines, strict=False):
        assert claim.verdict in line
        assert claim.id in line
    assert sum("not reproduced |" in line for line in lines) == 1
    assert (
        "0.9613 [0.9544, 0.9702] correlation | mark ≥ 0.98 | control untrained pair, smallest 0.31 [0.2, 0.4] (mark ≤ 0.5, met)"
        in text
    )
    assert "control untrained pair, mean 0.71 [0.6, 0.8] (mark ≤ 0.65, missed)" in text
    assert "by construction, not counted" in lines[6]


def test_a_terminal_gets_a_table_with_every_claim(folder):
    text = printed(folder, force_terminal=True, width=140, color_system="standard")
    assert "\x1b" in text
    for words in ("✗ not reproduced", "◐ reproduced with caveat", "rank-resid-mid", "exactly 3", "untrained 11 [9, 12]"):
        assert words in text


def test_a_narrow_terminal_loses_no_verdict(folder):
    text = printed(folder, force_terminal=True, width=60, no_color=True)
    assert text.count("✓ reproduced") >= 3
    assert all(len(line) <= 60 for line in text.splitlines() if "│" in line or "─" in line)


def test_the_answer_and_the_report_are_named(tmp_path):
    folder = write_run(tmp_path, drawn=[])
    assert f"No report yet: invariscope report {folder}" in printed(folder)
    path = build_report(folder)
    text = printed(folder, width=20)
    assert f"Report: {path}\n" in text
    assert "Of 6 claims, 3 are reproduced, 1 is reproduced with a caveat" in text


def test_a_console_in_ascii_gets_ascii(folder):
    text = printed(folder, encoding="ascii")
    assert "x not reproduced | markov-cores/cca-12-state" in text
    assert "mark >= 0.98" in text
    assert "5.213 x 10-5 nats" in text
    assert "?" not in text


def test_a_terminal_in_ascii_gets_a_table_in_ascii(folder):
    assert "x not reproduced" in printed(folder, encoding="ascii", force_terminal=True, width=140)


def test_an_unfinished_run_says_so(tmp_path):
    assert "had not finished" in printed(write_run(tmp_path, status="running", drawn=[]))


def test_standard_output_is_the_default(folder, capsys):
    print_summary(folder)
    assert "markov-cores/rank-resid-mid" in capsys.readouterr().out


def test_a_foreign_folder_is_refused(tmp_path):
    with pytest.raises(ForeignFileError, match=r"manifest\.json"):
        print_summary(tmp_path)
