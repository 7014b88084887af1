import math

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from invariscope.errors import ConfigError, NonFiniteError, ShapeError, TooFewSamplesError
from invariscope.numerics import bootstrap_mean, estimate_mean, permuted_groups, split_groups
from invariscope.numerics.resampling import bootstrap_sums, group_index, pool_groups


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=generator(seed))


@settings(deadline=None, derandomize=True, max_examples=80)
@given(st.lists(st.integers(-3, 20), min_size=2, max_size=60), st.floats(0.1, 0.9), st.integers(0, 99))
def test_a_split_breaks_no_group(names, share, seed):
    groups = torch.tensor(names)
    num = len(set(names))
    if not 0 < round(share * num) < num:
        with pytest.raises(TooFewSamplesError, match=f"{num} groups of which a share.*at least one group on either side"):
            split_groups(groups, share, generator(seed))
        return
    heldout = split_groups(groups, share, generator(seed))
    assert heldout.dtype == torch.bool
    assert not set(groups[heldout].tolist()) & set(groups[~heldout].tolist())
    assert len(groups[heldout].unique()) == round(share * num)
    assert torch.equal(heldout, split_groups(groups, share, generator(seed)))


def test_every_group_is_held_out_about_as_often():
    groups, g = torch.arange(10).repeat_interleave(2), generator()
    frequency = torch.stack([split_groups(groups, 0.3, g) for _ in range(2000)]).double().mean(0)
    assert (frequency - 0.3).abs().max() < 0.05


def test_equal_groups_are_shuffled_as_blocks_in_their_own_order():
    groups = torch.tensor([4, 1, 4, 9, 1, 9, 4, 1, 9])  # interleaved, three rows each
    index = permuted_groups(groups, generator(2))
    assert sorted(index.tolist()) == list(range(9))
    moved = groups[index]
    for name in (1, 4, 9):
        rows = (groups == name).nonzero()[:, 0]
        # One whole group came here, and its j-th row is at our j-th row.
        assert len(moved[rows].unique()) == 1
        assert torch.equal(index[rows], (groups == moved[rows][0]).nonzero()[:, 0])


def test_all_orders_of_blocks_occur():
    groups, g = torch.tensor([0, 0, 1, 1, 2, 2]), generator()
    orders = {tuple(groups[permuted_groups(groups, g)].tolist()) for _ in range(100)}
    assert len(orders) == 6


def test_unequal_groups_are_shuffled_by_rows():
    groups = torch.tensor([0, 0, 0, 1, 1, 2])
    indices = [permuted_groups(groups, generator(seed)) for seed in range(20)]
    assert all(sorted(index.tolist()) == list(range(6)) for index in indices)
    assert any(len(groups[index][:3].unique()) == 3 for index in indices)


def test_the_mean_and_its_interval():
    values = normal(4000) * 2 + 1
    value, low, high = bootstrap_mean(values, generator=generator())
    assert value == pytest.approx(float(values.mean()), abs=1e-12)
    error = float(values.std()) / math.sqrt(4000)
    assert low == pytest.approx(value - 1.96 * error, abs=0.15 * error)
    assert high == pytest.approx(value + 1.96 * error, abs=0.15 * error)
    assert bootstrap_mean(values, generator=generator()) == (value, low, high)
    narrow = bootstrap_mean(values, generator=generator(), level=0.5)
    assert narrow[2] - narrow[1] == pytest.approx(2 * 0.674 * error, rel=0.15)


def test_weights_and_repetitions_agree():
    values, weights = normal(6), torch.tensor([1.0, 2, 3, 0, 1, 1])
    repeated = values.repeat_interleave(weights.long())
    groups = torch.arange(6)
    value, low, high = bootstrap_mean(values, generator=generator(), groups=groups, weights=weights)
    assert value == pytest.approx(float(repeated.mean()))
    assert low < value < high
    assert bootstrap_mean(values, generator=generator(), groups=groups, weights=10 * weights) == pytest.approx((value, low, high))


def test_intervals_over_groups_cover_where_intervals_over_rows_do_not():
    groups = torch.arange(40).repeat_interleave(10)
    covered = {"groups": 0, "rows": 0}
    for seed in range(100):
        values = normal(40, seed=seed).repeat_interleave(10) + 0.1 * normal(400, seed=1000 + seed)
        for name, given_groups in (("groups", groups), ("rows", None)):
            _, low, high = bootstrap_mean(values, generator=generator(seed), groups=given_groups, num=200)
            covered[name] += low <= 0 <= high
    assert covered["groups"] >= 87
    assert covered["rows"] <= 65


def test_many_rows_are_pooled_without_moving_the_interval():
    values = normal(60_000)
    value, low, high = bootstrap_mean(values, generator=generator(), num=300)
    error = 1 / math.sqrt(60_000)
    assert value == pytest.approx(float(values.mean()), abs=1e-12)
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.15)


def test_pooling_never_breaks_a_group_and_is_balanced():
    index, num = pool_groups(torch.arange(10).repeat_interleave(3), 10, limit=5, generator=generator())
    assert num == 5
    assert (index.view(10, 3) == index.view(10, 3)[:, :1]).all()
    assert torch.bincount(index).tolist() == [6] * 5
    same, num = pool_groups(torch.arange(4), 4, limit=4, generator=generator())
    assert (same.tolist(), num) == ([0, 1, 2, 3], 4)


def test_bootstrap_sums_draws_as_many_groups_as_there_are():
    sums = bootstrap_sums(torch.stack([torch.ones(7), torch.arange(7.0)], 1).double(), generator=generator(), num=5000)
    assert torch.equal(sums[:, 0], torch.full((5000,), 7.0, dtype=torch.float64))
    assert float(sums[:, 1].mean()) == pytest.approx(21, abs=0.3)
    assert float(sums[:, 1].var()) == pytest.approx(7 * 4, rel=0.08)  # 7 draws of variance (7^2 - 1)/12


def test_groups_are_numbered_from_zero():
    index, num = group_index(torch.tensor([9, -2, 9, 5]), 4)
    assert (index.tolist(), num) == ([2, 0, 2, 1], 3)
    assert group_index(None, 3)[0].tolist() == [0, 1, 2]


def test_an_estimate_says_what_it_stands_on():
    values = torch.tensor([1.0, 2.0, 3.0, 6.0], dtype=torch.bfloat16)
    groups = torch.tensor([0, 0, 1, 1])
    estimate = estimate_mean(values, generator=generator(), groups=groups, unit="nats", chance=1.39, level=0.9)
    assert (estimate.value, estimate.num, estimate.unit, estimate.level, estimate.chance) == (3.0, 4, "nats", 0.9, 1.39)
    assert (estimate.low, estimate.high) == (1.5, 4.5)
    assert estimate.method == "bootstrap over 2 groups"
    assert estimate_mean(values, generator=generator()).method == "bootstrap over 4 rows"


def test_equal_values_give_an_interval_of_width_zero():
    estimate = estimate_mean(torch.full((50,), 0.1), generator=generator(), groups=torch.arange(50) // 3)
    assert estimate.low == estimate.value == estimate.high


def test_nothing_touches_the_global_generator():
    state = torch.get_rng_state()
    estimate_mean(normal(30), generator=generator())
    split_groups(torch.arange(9), 0.5, generator())
    permuted_groups(torch.arange(9), generator())
    assert torch.equal(torch.get_rng_state(), state)


def test_messages():
    values = normal(4)
    with pytest.raises(ConfigError, match=r"a held-out share of 1.5; expected a number between 0 and 1; use 0.5"):
        split_groups(torch.arange(4), 1.5, generator())
    with pytest.raises(ShapeError, match=r"groups of shape \[3\] for 4 rows; expected \[4\]; give the group"):
        bootstrap_mean(values, generator=generator(), groups=torch.arange(3))
    with pytest.raises(TooFewSamplesError, match="4 values in 1 groups; expected at least two groups; measure"):
        bootstrap_mean(values, generator=generator(), groups=torch.zeros(4, dtype=torch.long))
    with pytest.raises(TooFewSamplesError, match="4 values that all have the weight 0; expected a positive weight; give"):
        bootstrap_mean(values, generator=generator(), weights=torch.zeros(4))
    with pytest.raises(ConfigError, match="non-negative weights"):
        bootstrap_mean(values, generator=generator(), weights=torch.tensor([1.0, 1.0, 1.0, -1.0]))
    with pytest.raises(ConfigError, match=r"0 draws at level 0.95; expected num >= 1"):
        bootstrap_mean(values, generator=generator(), num=0)
    with pytest.raises(NonFiniteError, match="values of shape"):
        bootstrap_mean(values / 0, generator=generator())
    with pytest.raises(TooFewSamplesError, match="3 rows of 1 group to be shuffled; expected at least two groups; give"):
        permuted_groups(torch.ones(3, dtype=torch.long), generator())
