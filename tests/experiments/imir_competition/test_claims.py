"""Each claim can hold and fail."""

import dataclasses

import pytest

from experiments.imir_competition.tiny import TINY, findings
from invariscope.experiments.imir_competition.claims import MARKS, make_claims

GOOD = dataclasses.replace(
    findings(),
    mixes=tuple(
        dataclasses.replace(
            one, alpha=one.relevance, beta=one.relevance, gamma=one.relevance, surrogate=one.relevance, alpha_without=1.0
        )
        for one in findings().mixes
    ),
    times=dataclasses.replace(findings().times, surrogate=(10.0, 20.0, 100.0), competing=(10.0, 20.0, 100.0)),
    bursts=tuple(
        dataclasses.replace(one, alpha=(1.0, 1.9, 3.1), beta=(1.0, 1.9, 3.1), gamma=(1.0, 2.0, 4.0), times=(10.0, 7.0, 12.0))
        for one in findings().bursts
    ),
    long=(1.9, 3.5, 5.5),
)


def verdicts(found):
    return {claim.id.split("/")[1]: claim.verdict for claim in make_claims(TINY, found, preset="tiny")}


def test_all_hold_where_all_is_as_said():
    assert set(verdicts(GOOD)) == set(MARKS)
    assert set(verdicts(GOOD).values()) == {"reproduced"}


def broken(**changes):
    return dataclasses.replace(GOOD, **changes)


@pytest.mark.parametrize(
    ("changes", "fails"),
    [
        ({"mixes": tuple(dataclasses.replace(one, beta=2 * one.relevance) for one in GOOD.mixes)}, {"theorem-2"}),
        ({"mixes": tuple(dataclasses.replace(one, surrogate=1.02 * one.relevance) for one in GOOD.mixes)}, {"surrogate"}),
        ({"times": dataclasses.replace(GOOD.times, surrogate=(10.0, 20.0, 50.0))}, {"time-by-rarity"}),
        ({"times": dataclasses.replace(GOOD.times, competing=(10.0, 20.0, 50.0))}, {"competing-time-by-rarity"}),
        ({"long": (1.9, 3.5, 8.0)}, {"theorem-3-eight-of-sixteen"}),
        (
            {"bursts": tuple(dataclasses.replace(one, alpha=(1.0, 1.9, 4.0), gamma=(1.0, 2.0, 9.0)) for one in GOOD.bursts)},
            {"theorem-3-four-copies", "theorem-3-output"},
        ),
        (
            {"bursts": tuple(dataclasses.replace(one, times=(10.0, 11.0, 9.0)) for one in GOOD.bursts)},
            {"bursts-help", "bursts-hurt"},
        ),
    ],
)
def test_each_fails_alone(changes, fails):
    found = verdicts(broken(**changes))
    assert {name for name, verdict in found.items() if verdict == "not reproduced"} == fails
