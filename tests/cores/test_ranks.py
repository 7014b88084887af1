"""Rank rules by value, at their edges too; the curve from which anyone can apply another."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.cores import RankCurve, by_energy, by_gap, by_sufficiency
from invariscope.cores.ranks import numerical_rank, rank_by_spectrum
from invariscope.errors import ConfigError, RankError


def rank(rule: Any, *sigma: float) -> int:
    return rank_by_spectrum(rule, torch.tensor(sigma, dtype=torch.float64))[0]


@pytest.mark.parametrize(("share", "found"), [(0.5, 1), (0.9, 1), (0.95, 2), (0.999, 3), (0.9999999, 3), (1.0, 3)])
def test_energy_by_value(share: float, found: int):
    # Squares 100, 9, 1: shares .909, .991, 1.
    assert rank(by_energy(share), 10.0, 3.0, 1.0, 0.0) == found


def test_the_whole_energy_is_all_that_the_data_carry():
    assert rank(by_energy(1.0), 1.0, 1e-7, 1e-11, 1e-13, 0.0) == 3
    assert rank(by_energy(1.0), 1.0) == 1
    # Below it the rule looks at energy alone, in which 1e-7 is 1e-14.
    assert rank(by_energy(0.999999), 1.0, 1e-7) == 1


def test_energy_reaches_a_share_that_is_met_exactly():
    assert rank(by_energy(0.5), 1.0, 1.0) == 1
    assert rank(by_energy(0.1 + 0.2), *[1.0] * 10) == 3


@pytest.mark.parametrize(
    ("sigma", "found"),
    [
        ((10.0, 9.0, 1.0, 0.9), 2),
        ((10.0, 1.0, 0.5), 1),
        ((3.0, 2.0, 1.0, 0.0, 0.0), 3),
        ((3.0, 2.9, 0.0, 0.0), 2),
        ((3.0, 0.0), 1),
        ((3.0,), 1),
        # A larger gap beyond the eighth does not count.
        ((8.0, 7.5, 3.0, 2.9, 2.8, 2.7, 2.6, 2.5, 2.4, 1e-6), 2),
    ],
)
def test_gap_by_value(sigma: tuple[float, ...], found: int):
    assert rank(by_gap(), *sigma) == found


def test_gap_counts_rounding_as_zero():
    assert rank(by_gap(), 3.0, 2.0, 1e-14, 1e-30) == 2


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=12), st.floats(0.01, 1))
@settings(deadline=None, derandomize=True)
def test_energy_is_the_smallest_rank_that_reaches_the_share(values: list[float], share: float):
    sigma = sorted(values, reverse=True)
    k = rank(by_energy(share), *sigma)
    energy = [value**2 for value in sigma]
    assert 1 <= k <= len(sigma)
    if share < 1:
        assert math.fsum(energy[:k]) >= share * math.fsum(energy) * (1 - 1e-9)
        assert math.fsum(energy[: k - 1]) <= share * math.fsum(energy) * (1 + 1e-9)


def test_the_numerical_rank_does_not_depend_on_scale():
    sigma = torch.tensor([1.0, 0.1, 1e-11, 1e-13], dtype=torch.float64)
    assert [numerical_rank(scale * sigma) for scale in (1.0, 1e-20, 1e20)] == [3, 3, 3]
    assert numerical_rank(torch.zeros(3)) == numerical_rank(torch.zeros(0)) == 0


def test_a_given_rank_is_checked():
    assert rank_by_spectrum(2, torch.tensor([2.0, 1.0])) == (2, "given")
    for wrong in (0, -1, 3):
        with pytest.raises(RankError, match=f"rank {wrong} of a site of dimension 3; expected 1 to 2: the data carry no more"):
            rank(wrong, 2.0, 1.0, 0.0)
    for wrong in (True, 1.0, "two"):
        with pytest.raises(RankError, match=r"expected an int, by_energy\(\.\.\.\), by_gap\(\) or by_sufficiency"):
            rank(wrong, 2.0, 1.0)


def test_a_rule_that_needs_the_model_says_so():
    with pytest.raises(RankError, match=r"by_sufficiency where there is no model; .*; call extract_core"):
        rank(by_sufficiency(0.02), 2.0, 1.0)


def test_a_product_of_zero_has_no_rank():
    for rule in (1, by_energy(0.9), by_gap()):
        with pytest.raises(RankError, match="whose product is zero; expected a direction that matters; check the objective"):
            rank(rule, 0.0, 0.0)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1, math.nan])
def test_shares_out_of_range_are_refused(share: float):
    with pytest.raises(ConfigError, match=r"by_energy\(.*\); expected a share above 0 and at most 1"):
        by_energy(share)


@pytest.mark.parametrize("tolerance", [0.0, 1.0, -0.1, math.nan])
def test_tolerances_out_of_range_are_refused(tolerance: float):
    with pytest.raises(ConfigError, match=r"by_sufficiency\(.*\); expected a share between 0 and 1"):
        by_sufficiency(tolerance)


CURVE = RankCurve(
    metric="cross_entropy",
    unit="nats",
    projection="oblique",
    ranks=(1, 2, 3),
    keep=(1.2, 1.01, 1.0),
    remove=(1.3, 1.39, 1.5),
    full=1.0,
    mean=1.5,
    chance=1.4,
    num=10,
)


def test_the_curve_by_value():
    assert CURVE.keep_loss() == pytest.approx((0.4, 0.02, 0.0))
    assert CURVE.removed() == pytest.approx((0.75, 0.975, 1.25))
    assert CURVE.better_than_chance
    assert [CURVE.sufficient(tolerance) for tolerance in (0.5, 0.021, 0.019, 0.0)] == [1, 2, 3, 3]
    assert [CURVE.necessary(tolerance) for tolerance in (0.3, 0.03, 0.02)] == [1, 2, 3]


def test_no_rank_where_none_qualifies():
    worse = dataclasses.replace(CURVE, keep=(1.5, 1.4, 1.3), remove=(1.0, 1.0, 1.1))
    assert worse.sufficient(0.1) is None
    assert worse.necessary(0.1) is None


@pytest.mark.parametrize(
    ("full", "mean", "chance"), [(1.8, 1.5, 1.4), (1.45, 1.5, 1.4), (1.45, 1.4, 1.5), (1.5, 1.5, 1.6), (1.4, 1.5, 1.4)]
)
def test_no_rank_for_a_model_that_is_not_better_than_chance_and_mean(full: float, mean: float, chance: float):
    curve = dataclasses.replace(CURVE, full=full, mean=mean, chance=chance)
    assert not curve.better_than_chance
    assert curve.sufficient(0.99) is None
    assert curve.necessary(0.99) is None
    # With the other sign the first of these models is good.
    flipped = dataclasses.replace(curve, higher_is_better=True)
    assert flipped.better_than_chance == (full == 1.8)


def test_shares_of_nothing_are_no_numbers():
    flat = dataclasses.replace(CURVE, full=1.5, chance=1.5)
    assert all(math.isnan(share) for share in (*flat.keep_loss(), *flat.removed()))


def test_the_curve_as_json():
    values = json.loads(json.dumps(CURVE.to_json(), allow_nan=False))
    assert RankCurve.from_json(values) == CURVE
    values.pop("higher_is_better")  # as written before there was such a field
    assert RankCurve.from_json(values) == CURVE
