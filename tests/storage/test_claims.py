"""Marks, controls and the verdict that follows from the numbers."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.errors import ConfigError, NonFiniteError, UnknownNameError
from invariscope.storage.claims import Claim, Control, Mark

numbers = st.integers(-8, 8).map(lambda n: n / 4)


def claim(**changes) -> Claim:
    fields = {
        "id": "demo/cca",
        "statement": "Seeds share one core",
        "source": "arXiv:2602.22600",
        "mark": Mark(kind="at_least", target=0.98),
        "measured": 0.99,
    }
    return Claim(**fields | changes)


@pytest.mark.parametrize(
    ("kind", "tolerance", "passing", "failing"),
    [
        ("within", 0.5, [2.5, 3.0, 3.5], [2.49, 3.51]),
        ("within", 0.0, [3.0], [2.999, 3.001]),
        ("at_least", None, [3.0, 9.0], [2.999]),
        ("at_most", None, [3.0, -9.0], [3.001]),
        ("above", None, [3.001], [3.0, 2.0]),
        ("below", None, [2.999], [3.0, 4.0]),
    ],
)
def test_marks_and_their_borders(kind, tolerance, passing, failing):
    mark = Mark(kind=kind, target=3, tolerance=tolerance)
    assert all(mark.passes(value) for value in passing)
    assert not any(mark.passes(value) for value in failing)


thresholds = st.builds(
    lambda kind, target: Mark(kind=kind, target=target), st.sampled_from(["at_least", "at_most", "above", "below"]), numbers
)
bands = st.builds(lambda target, width: Mark(kind="within", target=target, tolerance=abs(width)), numbers, numbers)
marks = thresholds | bands


@given(mark=marks, ends=st.tuples(numbers, numbers))
@settings(deadline=None, derandomize=True, max_examples=300)
def test_an_interval_crosses_where_some_of_it_passes_and_some_does_not(mark: Mark, ends: tuple[float, float]):
    low, high = sorted(ends)
    steps = 16 * round(4 * (high - low)) or 1
    verdicts = {mark.passes(low + (high - low) * step / steps) for step in range(steps + 1)}
    assert mark.crossed_by(low, high) == (len(verdicts) == 2)


def test_the_verdicts_come_in_the_contracts_order():
    failing = Control(name="untrained", value=3.0, mark=Mark(kind="above", target=4))
    passing = Control(name="untrained", value=5.0, mark=Mark(kind="above", target=4))
    assert claim(measured=None, controls=(failing,)).verdict == "not measured"
    assert claim(measured=0.5, low=0.4, high=0.99, controls=(failing,)).verdict == "not reproduced"
    assert claim(controls=(passing, failing)).verdict == "reproduced with caveat"
    assert claim(low=0.97, high=0.995).verdict == "reproduced with caveat"
    assert claim(low=0.985, high=0.995, controls=(passing,)).verdict == "reproduced"
    assert claim().verdict == "reproduced"


def test_an_interval_wholly_on_the_wrong_side_is_a_caveat_too():
    assert claim(measured=0.99, low=0.9, high=0.95).verdict == "reproduced with caveat"


def test_a_control_that_was_not_measured_counts_against_the_claim_and_one_without_a_mark_does_not():
    missing = Control(name="untrained", value=None, mark=Mark(kind="above", target=4))
    assert claim(controls=(missing,)).verdict == "reproduced with caveat"
    assert claim(controls=(missing,)).full_note == "control untrained was not measured, and its mark is above 4"
    assert claim(controls=(Control(name="energy .99", value=5.0),)).verdict == "reproduced"


def test_the_note_gives_every_reason_and_only_for_a_caveat():
    failing = Control(name="untrained", value=3.0, mark=Mark(kind="above", target=4))
    caveat = claim(note="three seeds", low=0.97, high=0.995, controls=(failing,))
    assert caveat.full_note == (
        "three seeds; control untrained is 3, and its mark is above 4; the interval [0.97, 0.995] crosses the mark at least 0.98"
    )
    assert claim(note="three seeds", measured=0.1, controls=(failing,)).full_note == "three seeds"
    assert claim(note="three seeds", measured=None).full_note == "three seeds"


def test_the_verdict_cannot_be_given():
    with pytest.raises(TypeError, match="verdict"):
        claim(verdict="reproduced")


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["measured", "paper", "low"])
def test_numbers_that_are_none_are_refused(name: str, bad: float):
    with pytest.raises(NonFiniteError, match=rf"claim demo/cca: {name} is .*; expected a finite number, or None.*never NaN"):
        claim(**{name: bad})


def test_marks_and_controls_refuse_them_too():
    with pytest.raises(NonFiniteError, match="mark above: target is nan"):
        Mark(kind="above", target=math.nan)
    with pytest.raises(NonFiniteError, match="control untrained: value is inf"):
        Control(name="untrained", value=math.inf)


def test_numbers_of_other_libraries_become_plain_ones():
    measured = claim(measured=torch.tensor(0.99, dtype=torch.float64), seeds=torch.arange(2))
    assert (type(measured.measured), measured.seeds) == (float, (0, 1))


def test_a_mark_is_written_down_properly_or_not_at_all():
    with pytest.raises(UnknownNameError, match=r"unknown mark 'atleast'; .*nearest: at_least"):
        Mark(kind="atleast", target=1)  # pyright: ignore[reportArgumentType]
    for kind, tolerance in (("within", None), ("within", -0.1), ("above", 0.1)):
        with pytest.raises(ConfigError, match=r"expected a tolerance >= 0 for 'within' and none for the others; give"):
            Mark(kind=kind, target=1, tolerance=tolerance)


def test_half_an_interval_and_one_turned_round_are_refused():
    for low, high in ((0.1, None), (None, 0.1), (0.2, 0.1)):
        with pytest.raises(ConfigError, match=r"the interval \[.*expected low <= high, or None for both; give both ends"):
            claim(low=low, high=high)


def test_a_claim_that_is_true_by_construction_says_so():
    with pytest.raises(ConfigError, match="demo/cca, which is true by construction and does not say so"):
        claim(by_construction=True)
    assert claim(by_construction=True, statement="By construction, keep is exact").verdict == "reproduced"


def test_marks_read_as_words():
    assert str(Mark(kind="at_least", target=0.98)) == "at least 0.98"
    assert str(Mark(kind="within", target=3, tolerance=0.5)) == "within 3 ± 0.5"
