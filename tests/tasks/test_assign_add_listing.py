"""Every sequence of a small task, with its probability."""

from collections import Counter

import pytest
import torch

from invariscope.errors import ConfigError, NotEnumerableError
from invariscope.tasks import AssignAdd
from invariscope.tasks.assign_add_listing import check_listing, list_rows

TASK = AssignAdd(
    modulus=3, num_variables=2, min_assignments=1, max_assignments=2, num_pads=1, forbidden=((0, 0),), mixture=(0.5, 0.25, 0.25)
)


def listed(pool, batch_size=100_000):
    return list(list_rows(TASK, pool, batch_size))


def test_each_sequence_is_listed_once_and_their_weights_sum_to_one():
    for pool in TASK.pools:
        batches = listed(pool)
        rows = torch.cat([batch.inputs["tokens"] for batch in batches])
        assert len(rows.unique(dim=0)) == len(rows)
        assert float(torch.cat([batch.weights for batch in batches]).sum()) == pytest.approx(1.0)


def test_batches_are_no_larger_than_asked():
    sizes = [batch.num_rows for batch in listed("2var-seen", 7)]
    assert set(sizes[:-1]) == {7}
    assert sum(sizes) == sum(batch.num_rows for batch in listed("2var-seen"))


def test_frequencies_are_the_listed_weights():
    [batch] = listed("1var-held")
    weights = dict(zip(map(tuple, batch.inputs["tokens"].tolist()), batch.weights.tolist(), strict=True))
    num = 40_000
    drawn = TASK.sample(num, generator=torch.Generator().manual_seed(0), pool="1var-held").inputs["tokens"]
    counts = Counter(map(tuple, drawn.tolist()))
    assert counts.keys() <= weights.keys()
    # Chi-squared over all sequences: its mean is their number, its deviation the root of twice that.
    size = len(weights)
    statistic = sum((counts[row] - num * weight) ** 2 / (num * weight) for row, weight in weights.items())
    assert abs(statistic - size) < 4 * (2 * size) ** 0.5


def test_large_pools_and_empty_batches_are_refused():
    check_listing(TASK, "train", 1)
    with pytest.raises(ConfigError, match="enumerate with batch_size=0"):
        check_listing(TASK, "train", 0)
    with pytest.raises(NotEnumerableError, match=r"the pool '0var-seen' of 'assign-add', which has .* expected at most 1048576"):
        check_listing(AssignAdd(), "0var-seen", 10)
