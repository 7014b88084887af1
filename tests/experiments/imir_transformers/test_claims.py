"""Each claim can hold and fail."""

from __future__ import annotations

import dataclasses

from experiments.imir_transformers.tiny import TINY, language, trainings
from invariscope.experiments.imir_transformers.claims import MARKS, make_claims
from invariscope.experiments.imir_transformers.findings import Correlation
from invariscope.manifold import FollowedCoordinate, InductionMoment


def moment(step: int, *, rare: float, common: float, z: float, context_pull: float, memory: float) -> InductionMoment:
    return InductionMoment(
        step=step,
        coordinates=tuple(
            FollowedCoordinate(name=name, value=z, z=z, context_pull=context_pull, common_pull=1 - context_pull)
            for name in "αβγδ"
        ),
        rare=rare,
        common=common,
        conflict_context=0.0,
        conflict_memory=memory,
        loss=1.0,
        context_loss=0.5,
    )


def study(*, holds: bool, learnt: bool = True):
    """Trainings of both shares whose second checkpoint knows what is common and whose last one all."""
    found = []
    for one in trainings():
        later = 4 if one.rare_share == TINY.rare_shares[-1] and holds else 2
        moments = [moment(0, rare=0.0, common=0.0, z=0.1, context_pull=0.5, memory=0.0)]
        for step in range(1, 6):
            knows = step >= later and learnt
            moments.append(
                moment(
                    step,
                    rare=1.0 if knows else 0.1,
                    common=1.0 if step >= (1 if holds else 2) else 0.0,
                    z=9.0 if holds else 1.0,
                    context_pull=0.99 if holds else 0.5,
                    memory=1.0 if holds else 0.2,
                )
            )
        series = dataclasses.replace(one.series, moments=tuple(moments))
        found.append(dataclasses.replace(one, series=series))
    return found


def heads(value: float):
    same = Correlation(value=value, low=value - 0.01, high=value + 0.01, null_mean=0.0, null_high=0.1)
    return dataclasses.replace(
        language(),
        alpha=same,
        alpha_read=same,
        match=same,
        gamma=same,
        found=value,
        found_low=value,
        found_high=value,
        found_null=0.1,
    )


def verdicts(found, models):
    return {claim.id.split("/")[1]: claim.verdict for claim in make_claims(TINY, found, models, preset="tiny")}


def test_all_hold_where_all_is_as_said():
    found = verdicts(study(holds=True), heads(0.9))
    assert set(found) == set(MARKS)
    assert set(found.values()) == {"reproduced"}


def test_all_fail_where_nothing_is():
    found = verdicts(study(holds=False), heads(0.1))
    missing = {"context-pulls": "not measured"}
    assert found == dict.fromkeys(MARKS, "not reproduced") | missing


def test_nothing_is_measured_where_nothing_is_learnt():
    found = {claim.id.split("/")[1]: claim for claim in make_claims(TINY, study(holds=True, learnt=False), None, preset="tiny")}
    assert {claim.verdict for claim in found.values()} == {"not measured"}
    assert "0 of 4 trainings have learnt recall" in found["memory-first"].note


def test_a_share_that_never_learns_counts_until_the_end():
    found = study(holds=True)
    late = [
        one
        if one.rare_share == TINY.rare_shares[0]
        else dataclasses.replace(
            one,
            series=dataclasses.replace(one.series, moments=tuple(dataclasses.replace(at, rare=0.1) for at in one.series.moments)),
        )
        for one in found
    ]
    claims = {claim.id.split("/")[1]: claim for claim in make_claims(TINY, late, None, preset="tiny")}
    later = claims["rarer-later"]
    assert later.measured == TINY.train.steps / 2
    assert "In 2 of 2 trainings rare questions were not learnt by the end" in later.note
    assert later.preset == "tiny"
