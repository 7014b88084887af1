"""Numbers: what a reader sees is what was measured, to four digits."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.report.numbers import format_duration, format_mark, format_measured, format_number
from invariscope.storage import Mark


def parse(text):
    text = text.replace("\u2212", "-").replace("\u202f", "")
    text = re.sub(r" × 10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", lambda m: "e" + m[1].translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")), text)
    return float(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (3.0, "3"),
        (0.0, "0"),
        (-2, "−2"),
        (9999, "9999"),
        (10_000, "10\u202f000"),
        (0.92584, "0.9258"),
        (0.99996, "1.000"),
        (9999.6, "10000"),
        (1234.5, "1234"),
        (0.00081, "0.00081"),
        (0.00002345, "2.345 × 10⁻⁵"),
        (-1e-7, "−1 × 10⁻⁷"),
        (1234567.5, "1.235 × 10⁶"),
    ],
)
def test_examples(value, text):
    assert format_number(value) == text


@settings(deadline=None, derandomize=True)
@given(st.floats(-1e12, 1e12, allow_nan=False))
def test_the_text_reads_back_to_four_digits(value):
    assert parse(format_number(value)) == pytest.approx(value, rel=5.01e-4, abs=1e-300)


def test_a_number_that_is_no_whole_one_never_looks_like_one_below_a_thousand():
    for value in (0.99999, 1.00001, 2.9999999, 99.99999):
        assert "." in format_number(value)


@pytest.mark.parametrize(
    ("mark", "text"),
    [
        (Mark(kind="within", target=3, tolerance=0), "exactly 3"),
        (Mark(kind="within", target=0.047, tolerance=0.03), "0.017 to 0.077"),
        (Mark(kind="at_least", target=0.98), "≥ 0.98"),
        (Mark(kind="at_most", target=0.002), "≤ 0.002"),
        (Mark(kind="above", target=4), "> 4"),
        (Mark(kind="below", target=-1), "< −1"),
    ],
)
def test_marks_are_signs(mark, text):
    assert format_mark(mark) == text


def test_an_interval_needs_both_ends():
    assert format_measured(1.5, 1.0, 2.0) == "1.5 [1, 2]"
    assert format_measured(1.5, None, 2.0) == "1.5"
    assert format_measured(None, 1.0, 2.0) == "–"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (59.6, "60 s"), (60, "1 min 0 s"), (3599.6, "1 h 0 min"), (7384, "2 h 3 min")]
)
def test_durations(seconds, text):
    assert format_duration(seconds) == text
