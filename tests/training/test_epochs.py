"""A fixed set of sequences: every one once an epoch, another order each epoch, all of it a function of (seed, epoch)."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, TensorDataset

from invariscope.tasks import MarkovChain
from invariscope.training.epochs import EpochBatches
from training.toy_tasks import CHAIN, FirstPlusLast


def sizes(num: int, batch_size: int, epochs: int) -> list[int]:
    batches = EpochBatches(CHAIN, num, batch_size=batch_size, seed=0)
    return [batches[step].num_rows for step in range(epochs * batches.steps_per_epoch)]


def test_the_papers_setting_has_47_steps_an_epoch_the_last_of_56_sequences() -> None:
    assert sizes(3000, 64, 2) == ([64] * 46 + [56]) * 2


@given(num=st.integers(1, 40), batch_size=st.integers(1, 50))
@settings(deadline=None, derandomize=True, max_examples=30)
def test_batches_are_as_large_as_those_of_pytorchs_loader(num: int, batch_size: int) -> None:
    # Without a generator of its own the loader would draw from the global one.
    loader = DataLoader(TensorDataset(torch.arange(num)), batch_size=batch_size, generator=torch.Generator())
    assert sizes(num, batch_size, 1) == [len(rows) for (rows,) in loader]


@pytest.mark.parametrize("num", [1, 12, 13])
def test_an_epoch_reads_every_sequence_once_whole_and_in_an_order_of_its_own(num: int) -> None:
    task = MarkovChain.named("four_paper", sequence_length=24)
    batches = EpochBatches(task, num, batch_size=4, seed=3)
    per_epoch = batches.steps_per_epoch
    found = []
    for epoch in range(3):
        steps = [batches[epoch * per_epoch + index] for index in range(per_epoch)]
        found.append([tuple(row) for batch in steps for row in batch.inputs["tokens"].tolist()])
        for batch in steps:
            assert batch.targets is not None
            assert torch.equal(batch.targets[:, :-1], batch.inputs["tokens"][:, 1:])
            assert batch.probabilities is not None
            assert torch.equal(batch.probabilities, task.transition.to(batch.probabilities)[batch.inputs["tokens"]])
    whole = sorted(tuple(row) for row in batches.data.inputs["tokens"].tolist())
    assert len(set(whole)) == num
    assert all(sorted(rows) == whole for rows in found)
    if num > 1:
        assert found[0] != found[1]
        assert found[1] != found[2]


def test_any_step_needs_none_before_it_and_seeds_have_sets_and_orders_of_their_own() -> None:
    a, b = (EpochBatches(CHAIN, 30, batch_size=7, seed=1) for _ in range(2))
    forwards = [a[step].inputs["tokens"] for step in range(12)]
    backwards = [b[step].inputs["tokens"] for step in reversed(range(12))][::-1]
    assert all(torch.equal(x, y) for x, y in zip(forwards, backwards, strict=True))
    other = EpochBatches(CHAIN, 30, batch_size=7, seed=2)
    assert not torch.equal(a.data.inputs["tokens"], other.data.inputs["tokens"])
    assert not torch.equal(a.order(0), other.order(0))


def test_the_set_comes_from_the_training_pool_and_not_from_the_global_generator() -> None:
    class Telling(FirstPlusLast):
        pools = ("first", "second")

        def sample(self, num: int, *, generator: torch.Generator, pool: str = "second"):
            asked.append((num, pool))
            return super().sample(num, generator=generator)

    asked: list[tuple[int, str]] = []
    before = torch.get_rng_state()
    batches = EpochBatches(Telling(), 9, batch_size=4, seed=0)
    assert [batches[step].num_rows for step in range(3)] == [4, 4, 1]
    assert asked == [(9, "first")]
    assert torch.equal(torch.get_rng_state(), before)
