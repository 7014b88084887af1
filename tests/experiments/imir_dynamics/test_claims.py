"""Each claim can hold and fail."""

import dataclasses

from experiments.imir_dynamics.tiny import TINY, findings
from invariscope.experiments.imir_dynamics.claims import MARKS, make_claims


def verdicts(found):
    return {claim.id.split("/")[1]: claim.verdict for claim in make_claims(TINY, found, preset="tiny")}


def changed(accuracy, share, exponents):
    found = findings()
    trajectories = tuple(
        dataclasses.replace(
            one,
            moments=(
                dataclasses.replace(one.moments[0], accuracy=0.2, share=0.01),
                dataclasses.replace(one.moments[-1], accuracy=accuracy, share=share),
            ),
        )
        for one in found.trajectories
    )
    return dataclasses.replace(found, trajectories=trajectories, exponents=exponents)


def test_all_hold_where_all_is_as_said_and_fail_where_not():
    assert set(verdicts(changed(1.0, 0.9, (1.1, 1.95))).values()) == {"reproduced"}
    assert set(verdicts(changed(0.5, 0.1, (1.1, 1.5))).values()) == {"not reproduced"}
    assert set(MARKS) == set(verdicts(findings()))


def test_an_exponent_that_was_always_there_is_a_caveat():
    assert verdicts(changed(1.0, 0.9, (1.95, 1.95)))["context-exponent"] == "reproduced with caveat"
