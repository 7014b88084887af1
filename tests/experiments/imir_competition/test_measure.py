"""Mixes, times and copies of a tiny study."""

import pytest

from experiments.imir_competition.tiny import TINY, findings
from invariscope.experiments.imir_competition.measure import measure_job
from invariscope.storage.records import to_json_record


def test_mixes_are_the_grid_and_close_to_f():
    found = findings().mixes
    assert [(one.rare_share, one.fresh_share, one.relevance) for one in found] == [
        (0.2, 0.0, 0.2),
        (0.2, 0.5, pytest.approx(0.6)),
    ]
    for one in found:
        assert one.alpha == pytest.approx(one.relevance, rel=0.05)
        assert one.surrogate == pytest.approx(one.relevance, rel=0.01)
        assert one.alpha_without > 0.9


def test_rarer_is_later():
    times = findings().times
    assert times.surrogate[2] == pytest.approx(10 * times.surrogate[0], rel=0.05)
    assert times.competing[2] > 5 * times.competing[0]


def test_copies_are_over_one():
    for one in findings().bursts:
        assert one.alpha[0] == one.beta[0] == one.gamma[0] == 1.0
        assert 1 < one.alpha[1] < 2
        assert len(one.times) == 3
    assert findings().long[0] < findings().long[1] < findings().long[2]


def test_a_job_is_the_same_in_json(tmp_path):
    assert measure_job(config=to_json_record(TINY), folder=str(tmp_path)) == to_json_record(findings())
