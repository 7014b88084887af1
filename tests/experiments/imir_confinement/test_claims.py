"""Each claim can hold and fail."""

import dataclasses

from experiments.imir_confinement.tiny import TINY, findings
from invariscope.experiments.imir_confinement.claims import MARKS, make_claims


def verdicts(found):
    return {claim.id.split("/")[1]: claim.verdict for claim in make_claims(TINY, found, preset="tiny")}


def attracted(sgd, adam):
    return tuple(
        dataclasses.replace(one, outside=(1.0, adam if one.optimiser == "Adam" else sgd), inside=(1.0, 2.0))
        for one in findings().attraction
    )


def test_all_hold_where_all_is_as_said():
    good = dataclasses.replace(
        findings(),
        sampled=dataclasses.replace(findings().sampled, slope=-0.5, low=-0.51, high=-0.49),
        descent_losses=(1.5, 0.5),
        attraction=attracted(0.8, 1.5),
    )
    assert set(verdicts(good)) == set(MARKS)
    assert set(verdicts(good).values()) == {"reproduced"}


def test_all_fail_where_nothing_is():
    found = findings()
    bad = dataclasses.replace(
        found,
        confined=(dataclasses.replace(found.confined[0], shares=(1e-3,)),),
        sampled=dataclasses.replace(found.sampled, slope=-0.2, low=-0.3, high=-0.1),
        loss_difference=1e-6,
        coordinate_difference=1e-6,
        attraction=attracted(1.2, 1.5),
    )
    assert set(verdicts(bad).values()) == {"not reproduced"}


def test_a_control_that_is_confined_is_a_caveat():
    found = findings()
    weak = (*found.broken[:-1], dataclasses.replace(found.broken[-1], shares=(0.05, 0.2)))
    assert verdicts(dataclasses.replace(found, broken=weak))["confined"] == "reproduced with caveat"
