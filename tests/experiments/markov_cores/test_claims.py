"""Every claim's mark can fail, one bad seed is enough, and controls that know too much are a caveat."""

from __future__ import annotations

import dataclasses

import pytest

from experiments.markov_cores import ideal
from invariscope.experiments.markov_cores import PRESETS
from invariscope.experiments.markov_cores.claims import MARKS, make_claims
from invariscope.experiments.markov_cores.findings import Findings

CONFIG = PRESETS["quick"]
GOOD = ideal.findings(CONFIG)

IDS = {
    "rank-resid-mid",
    "keep-resid-mid",
    "remove-resid-mid",
    "by-construction-final-norm",
    "rank-12-state",
    "cca-12-state",
    "cca-within-groups",
    "transplant",
    "rank-2-control",
    "spectrum",
    "spectrum-against-controls",
    "overlap",
    "weight-cosine",
    "near-optimal",
}


PAPER = {"paper-rank", "paper-keep", "paper-spectrum-pair", "paper-spectrum-real", "paper-cca"}
FURTHER = {"rank-against-size", "belief-state", "belief-transplant", "transplant-hidden"} | PAPER


def verdicts(findings: Findings) -> dict[str, str]:
    return {claim.id.removeprefix("markov-cores/"): claim.verdict for claim in make_claims(findings, preset="quick")}


def last_model(arm: str, **changes) -> Findings:
    """The last seed of an arm spoiled: one bad seed must be enough."""
    models = list(GOOD.models)
    index = max(i for i, model in enumerate(models) if model.arm == arm)
    models[index] = dataclasses.replace(models[index], **changes)
    return dataclasses.replace(GOOD, models=tuple(models))


def last_site(arm: str, where: str = "resid_mid", **changes) -> Findings:
    model = GOOD.of(arm)[-1]
    return last_model(arm, **{where: dataclasses.replace(getattr(model, where), **changes)})


def pairs(arm: str, **changes) -> Findings:
    return dataclasses.replace(
        GOOD, pairs=tuple(dataclasses.replace(pair, **changes) if pair.arm == arm else pair for pair in GOOD.pairs)
    )


def last_transplant(**changes) -> Findings:
    first, last = GOOD.transplants
    return pairs("twelve", transplants=(first, dataclasses.replace(last, **changes)))


def last_spectrum(arm: str, **changes) -> Findings:
    return last_model(arm, spectrum=dataclasses.replace(GOOD.of(arm)[-1].spectrum, **changes))


def changed(projection: str, value: float, arm: str = "real", where: str = "resid_mid") -> Findings:
    site = getattr(GOOD.of(arm)[-1], where)
    return last_site(arm, where, keep_change={**site.keep_change, projection: ideal.near(value)})


def test_the_ids_are_the_fixed_ones_and_all_good_findings_are_reproduced():
    found = verdicts(GOOD)
    assert set(found) == IDS
    assert set(MARKS) == IDS - {"overlap"} | FURTHER
    assert set(found.values()) == {"reproduced"}


SPOILED = {
    "rank-resid-mid": [last_site("real", sufficient=4), last_site("real", necessary=2), last_site("real", sufficient=None)],
    "keep-resid-mid": [changed("oblique", 0.01), changed("adjoint", -0.01), changed("oblique", 0.01, "twelve")],
    "remove-resid-mid": [last_site("real", removed=ideal.near(0.9)), last_site("twelve", removed=ideal.near(0.97))],
    "by-construction-final-norm": [changed("oblique", 0.01, where="final_norm")],
    "rank-12-state": [last_site("twelve", sufficient=4), last_site("twelve", necessary=None)],
    "cca-12-state": [pairs("twelve", cca=ideal.similarity(0.999, 0.99, 0.97))],
    "cca-within-groups": [pairs("twelve", within=ideal.similarity(0.99, 0.95, 0.93))],
    "transplant": [last_transplant(cost=ideal.near(0.006))],
    "rank-2-control": [last_site("rank_two", sufficient=3), last_site("rank_two", necessary=1)],
    "spectrum": [last_spectrum("real", error=ideal.near(0.04)), last_spectrum("twelve", error=ideal.near(0.04))],
    "spectrum-against-controls": [last_spectrum("twelve", error=ideal.near(0.2))],
    "overlap": [pairs("real", overlap=ideal.overlap(0.2)), pairs("real", overlap=ideal.overlap(0.001))],
    "weight-cosine": [pairs("rank_two", weight_cosine=-0.2)],
    "near-optimal": [last_model("rank_two", divergence=ideal.near(0.01))],
}


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, cases in SPOILED.items() for case in range(len(cases))])
def test_each_mark_can_fail_by_one_bad_seed(name: str, case: int):
    assert verdicts(SPOILED[name][case])[name] == "not reproduced"


def test_every_claim_has_a_case_in_which_it_fails():
    assert set(SPOILED) == IDS


CAVEATS = {
    "activation side": ("keep-resid-mid", changed("activation", 0.02)),
    "untrained smallest": ("cca-12-state", pairs("twelve", untrained=ideal.similarity(0.9, 0.6, 0.55))),
    "untrained mean": ("cca-12-state", pairs("twelve", untrained=ideal.similarity(0.99, 0.98, 0.4))),
    "untrained within": ("cca-within-groups", pairs("twelve", within_untrained=ideal.similarity(0.6, 0.5, 0.3))),
    "shuffled": ("transplant", last_transplant(shuffled=ideal.near(2.1))),
    "untrained": ("transplant", last_transplant(untrained=ideal.near(2.1))),
    "random": ("transplant", last_transplant(random=ideal.near(2.1))),
    "random pair": ("transplant", last_transplant(random_pair=ideal.near(2.7))),
    "gap": ("rank-2-control", last_site("rank_two", gap=3)),
    "third": ("rank-2-control", pairs("rank_two", cca=ideal.similarity(0.999, 0.998, 0.4))),
    "interval": ("spectrum", last_spectrum("real", error=ideal.near(0.029, 0.01))),
    "overlap's range": (
        "overlap",
        dataclasses.replace(GOOD, pairs=(dataclasses.replace(GOOD.pairs[0], overlap=ideal.overlap(0.11)), *GOOD.pairs[1:])),
    ),
}


@pytest.mark.parametrize("case", CAVEATS)
def test_a_control_that_knows_too_much_or_a_crossed_mark_is_a_caveat(case: str):
    name, findings = CAVEATS[case]
    assert verdicts(findings)[name] == "reproduced with caveat"


def test_worst_seed_is_the_number_and_intervals_contain_it():
    claims = {claim.id: claim for claim in make_claims(changed("adjoint", -0.0015), preset="quick")}
    keep = claims["markov-cores/keep-resid-mid"]
    assert keep.measured == pytest.approx(0.0015)
    assert keep.low == pytest.approx(0.0014)
    assert keep.high == pytest.approx(0.0016)
    for claim in claims.values():
        assert claim.low - 1e-12 <= claim.measured <= claim.high + 1e-12
        assert claim.controls
        assert claim.seeds
        assert claim.preset == "quick"
        assert claim.figure


def test_ranks_that_no_model_reaches_are_said_to_be_one_above_the_scan():
    claim = make_claims(last_site("real", sufficient=None), preset="quick")[0]
    assert claim.measured == 9
    assert "9 stands for none" in claim.note


def test_ratio_takes_the_smaller_null():
    claim = next(c for c in make_claims(GOOD, preset="quick") if c.id.endswith("against-controls"))
    assert claim.measured == pytest.approx(0.006 / 0.35)


def test_standard_asks_for_more():
    found = dataclasses.replace(GOOD, pairs=pairs("twelve", cca=ideal.similarity(0.999, 0.99, 0.985)).pairs)
    assert verdicts(found)["cca-12-state"] == "reproduced"
    stricter = {claim.id: claim for claim in make_claims(found, preset="standard")}
    assert stricter["markov-cores/cca-12-state"].verdict == "not reproduced"
    assert stricter["markov-cores/spectrum"].mark.target == 0.02


def test_full_rank_logs_are_printed_beside_and_judge_nothing():
    odd = dataclasses.replace(ideal.model("overlapping", 0), resid_mid=dataclasses.replace(ideal.site(3), sufficient=5))
    found = dataclasses.replace(GOOD, models=(*GOOD.models, odd))
    assert verdicts(found) == verdicts(GOOD)
    rank = next(c for c in make_claims(found, preset="standard") if c.id.endswith("rank-12-state"))
    assert {control.name: control.value for control in rank.controls}["overlapping_12, causal"] == 5


def test_sizes_are_judged_where_there_are_any():
    good = dataclasses.replace(GOOD, sizes=(ideal.size(16), ideal.size(256)))
    assert verdicts(good)["rank-against-size"] == "reproduced"
    for rank in (2, 4, None):
        spoiled = dataclasses.replace(GOOD, sizes=(ideal.size(16, rank), ideal.size(256)))
        assert verdicts(spoiled)["rank-against-size"] == "not reproduced"


def believing(**changes) -> Findings:
    good, last = ideal.belief("six_tokens"), ideal.belief("mess3_blurred")
    return dataclasses.replace(GOOD, beliefs=(good, dataclasses.replace(last, **changes)))


def written(**changes) -> Findings:
    return believing(written=dataclasses.replace(ideal.belief("x").written, **changes))


def test_beliefs_are_judged_where_there_are_any():
    good = verdicts(believing())
    assert (good["belief-state"], good["belief-transplant"]) == ("reproduced", "reproduced")
    assert verdicts(believing(resid_mid=ideal.near(0.85)))["belief-state"] == "not reproduced"
    assert verdicts(believing(final_norm=ideal.near(0.97)))["belief-state"] == "reproduced with caveat"
    assert verdicts(written(cost=ideal.near(0.006)))["belief-transplant"] == "not reproduced"
    for control in ("last_token", "random", "untrained"):
        assert verdicts(written(**{control: ideal.near(1.65)}))["belief-transplant"] == "reproduced with caveat"


def carried(**changes) -> Findings:
    good, last = (ideal.hidden_transplant("six_tokens", seeds) for seeds in ((0, 1), (1, 0)))
    return dataclasses.replace(GOOD, hidden_transplants=(good, dataclasses.replace(last, **changes)))


def test_transplants_on_hidden_chains_are_judged_where_there_are_any():
    assert "transplant-hidden" not in verdicts(GOOD)
    assert verdicts(carried())["transplant-hidden"] == "reproduced"
    assert verdicts(carried(cost=ideal.near(0.006)))["transplant-hidden"] == "not reproduced"
    for control in ("shuffled", "untrained", "random", "random_pair"):
        assert verdicts(carried(**{control: ideal.near(1.65)}))["transplant-hidden"] == "reproduced with caveat"
    # One direction fewer and the site that cannot fail are printed and not judged.
    for row in ("smaller", "pca", "final_norm", "final_norm_pca"):
        assert verdicts(carried(**{row: ideal.near(1.623)}))["transplant-hidden"] == "reproduced"


def in_paper(*, cca=None, **changes) -> dict[str, str]:
    models = (ideal.paper(0), ideal.paper(100, **changes))
    return verdicts(Findings(paper=models, paper_pairs=(ideal.paper_pair(cca),)))


def test_the_paper_s_setting_stands_alone_and_each_of_its_marks_can_fail():
    assert in_paper() == dict.fromkeys(PAPER, "reproduced")
    assert in_paper(energy_999=4)["paper-rank"] == "not reproduced"
    assert in_paper(keep=ideal.near(-0.01))["paper-keep"] == "not reproduced"
    assert in_paper(pair_error=ideal.near(0.03))["paper-spectrum-pair"] == "not reproduced"
    assert in_paper(real_error=ideal.near(0.04))["paper-spectrum-real"] == "not reproduced"
    assert in_paper(cca=ideal.similarity(0.99, 0.95, 0.89))["paper-cca"] == "not reproduced"


def test_a_spectrum_that_comes_for_free_in_the_paper_s_setting_is_a_caveat():
    assert in_paper(untrained_real_error=0.02)["paper-spectrum-real"] == "reproduced with caveat"
    assert in_paper(random_pair_error=0.005)["paper-spectrum-pair"] == "reproduced with caveat"
    assert in_paper(untrained_real_error=0.031)["paper-spectrum-real"] == "reproduced"


def test_what_four_outputs_force_is_set_apart_in_the_paper_s_setting():
    claims = make_claims(Findings(paper=(ideal.paper(0),), paper_pairs=(ideal.paper_pair(),)), preset="paper")
    assert {claim.id for claim in claims if claim.by_construction} == {"markov-cores/paper-rank", "markov-cores/paper-keep"}


def test_only_the_algebraic_claim_is_set_apart():
    apart = [claim.id for claim in make_claims(GOOD, preset="quick") if claim.by_construction]
    assert apart == ["markov-cores/by-construction-final-norm"]
