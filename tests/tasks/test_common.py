"""What every task must do. A new task joins with one line in TASKS: a name and a function that makes an instance which is small
enough to enumerate.
"""

import json
import math

import pytest
import torch

from invariscope.errors import ConfigError, UnknownNameError
from invariscope.positions import select_positions
from invariscope.tasks import AssignAdd, HiddenMarkovChain, MarkovChain, Task, build_task, describe_task

TASKS = {
    "four_paper": lambda: MarkovChain.named("four_paper", 4),
    "four_complex": lambda: MarkovChain.named("four_complex", 3),
    "four_rank_two": lambda: MarkovChain.named("four_rank_two", 1),
    "spread_12": lambda: MarkovChain.named("spread_12", 2),
    "two_states": lambda: MarkovChain([[0.5, 0.5], [0.9, 0.1]], 5),
    "dirichlet": lambda: MarkovChain.dirichlet(5, 0.5, generator=torch.Generator().manual_seed(4), sequence_length=3),
    "with_spectrum": lambda: MarkovChain.with_spectrum(
        [0.5, 0.3 + 0.2j, 0.3 - 0.2j], generator=torch.Generator().manual_seed(2), num_states=5, sequence_length=3
    ),
    "assign_add": lambda: AssignAdd(
        modulus=3,
        num_variables=2,
        min_assignments=1,
        max_assignments=2,
        num_pads=1,
        layout="paper",
        forbidden=((0, 0),),
        heldout_share=0.4,
    ),
    "assign_add_infix": lambda: AssignAdd(
        modulus=2, num_variables=3, min_assignments=2, max_assignments=2, num_pads=2, forbidden=(), heldout_share=0.4
    ),
    "six_tokens": lambda: HiddenMarkovChain.named("six_tokens", 3),
    "mess3_blurred": lambda: HiddenMarkovChain.named("mess3_blurred", 4),
    "mess3_usual": lambda: HiddenMarkovChain.named("mess3_usual", 1),
    "two_hidden": lambda: HiddenMarkovChain([[0.9, 0.1], [0.3, 0.7]], [[0.5, 0.5, 0], [0, 0.2, 0.8]], 4),
}


@pytest.fixture(params=TASKS, name="task")
def make_task(request):
    return TASKS[request.param]()


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def tokens_of(batch):
    return next(iter(batch.inputs.values()))


def assert_equal(a, b):
    assert torch.equal(tokens_of(a), tokens_of(b))
    for name in ("targets", "probabilities", "valid", "labels", "groups", "weights"):
        x, y = getattr(a, name), getattr(b, name)
        assert (x is None) == (y is None), name
        assert x is None or torch.equal(x, y), name


def law(task, pool):
    """Every sequence of the pool with its weight and its target law [P, V], in float64."""
    parts = list(task.enumerate(pool, 64))
    return (
        torch.cat([tokens_of(part) for part in parts]),
        torch.cat([part.weights for part in parts]).double(),
        torch.cat([answers(task, part) for part in parts]).double(),
    )


def answers(task, batch):
    """The law of the answer at each loss position; all of it on the target where the batch states none."""
    if batch.probabilities is not None:
        return batch.probabilities
    return torch.nn.functional.one_hot(batch.targets, task.num_outputs).float()


def score(answer, weights, probabilities):
    """Exact accuracy and cross-entropy of the predicted law `answer`, broadcast to [N, P, V]."""
    answer = answer.expand_as(probabilities)
    best = answer.argmax(-1, keepdim=True)
    accuracy = probabilities.gather(-1, best)[..., 0].mean(1)
    cross_entropy = -(torch.xlogy(probabilities, answer)).sum(-1).mean(1)
    return float(weights @ accuracy), float(weights @ cross_entropy)


def test_has_every_member_of_the_protocol(task):
    assert isinstance(task, Task)
    assert task.pools
    assert len(set(task.pools)) == len(task.pools)


def test_equal_seeds_give_equal_batches_and_other_seeds_others(task):
    for pool in task.pools:
        first, again = (task.sample(50, generator=generator(3), pool=pool) for _ in range(2))
        assert_equal(first, again)
        assert not torch.equal(tokens_of(first), tokens_of(task.sample(50, generator=generator(4), pool=pool)))


def test_sampling_leaves_the_global_generator_alone(task):
    before = torch.get_rng_state()
    task.sample(8, generator=generator(), pool=task.pools[0])
    next(iter(task.batches(8, batch_size=4, seed=0, pool=task.pools[0])))
    list(task.enumerate(task.pools[0], 64))
    assert torch.equal(before, torch.get_rng_state())


def test_tokens_targets_and_probabilities_are_in_range(task):
    for pool in task.pools:
        batch = task.sample(200, generator=generator(), pool=pool)
        tokens = tokens_of(batch)
        assert tokens.shape == (200, task.sequence_length)
        assert tokens.dtype == batch.targets.dtype == torch.long
        assert int(tokens.min()) >= 0
        assert int(tokens.max()) < task.vocab_size
        assert int(batch.targets.min()) >= 0
        assert int(batch.targets.max()) < task.num_outputs
        num_due = len(select_positions(task.loss_positions, shape=(1, task.sequence_length)))
        assert batch.targets.shape == (200, num_due)
        stated = answers(task, batch)
        assert stated.shape == (200, num_due, task.num_outputs)
        torch.testing.assert_close(stated.sum(-1), torch.ones(200, num_due))
        assert bool((stated.gather(-1, batch.targets[..., None]) > 0).all())


def test_pools_and_batches_are_separate_streams(task):
    drawn = [
        tokens_of(batch)
        for pool in task.pools
        for seed in (0, 1)
        for batch in task.batches(96, batch_size=48, seed=seed, pool=pool)
    ]
    assert len({tuple(tokens.flatten().tolist()) for tokens in drawn}) == len(task.pools) * 2 * 2


def test_batches_can_be_read_again_and_singly(task):
    batches = task.batches(25, batch_size=10, seed=5, pool=task.pools[-1])
    first, second = list(batches), list(batches)
    assert [batch.num_rows for batch in first] == [10, 10, 5]
    assert len(batches) == 3
    for a, b in zip(first, second, strict=True):
        assert_equal(a, b)
    assert_equal(batches[1], first[1])
    longer = task.batches(1000, batch_size=10, seed=5, pool=task.pools[-1])
    assert_equal(longer[1], first[1])


def test_enumeration_is_a_law_and_can_be_read_again(task):
    for pool in task.pools:
        enumerated = task.enumerate(pool, 7)
        weights = [part.weights for part in enumerated]
        assert all(len(part) <= 7 for part in weights)
        assert all(bool((part > 0).all()) for part in weights)
        assert float(torch.cat(weights).double().sum()) == pytest.approx(1, abs=1e-9)
        assert len(list(enumerated)) == len(weights)
        tokens, _, _ = law(task, pool)
        assert len(tokens.unique(dim=0)) == len(tokens)


def test_samples_follow_the_enumerated_law(task):
    num = 20_000
    for pool in task.pools:
        tokens, weights, probabilities = law(task, pool)
        batch = task.sample(num, generator=generator(11), pool=pool)
        index = {tuple(row): i for i, row in enumerate(tokens.tolist())}
        drawn = torch.tensor([index[tuple(row)] for row in tokens_of(batch).tolist()])
        stated = answers(task, batch).double()
        torch.testing.assert_close(stated, probabilities[drawn])
        # Pearson's statistic, rare sequences together; its law has mean df and variance 2 df.
        counts, expected = torch.bincount(drawn, minlength=len(tokens)).double(), num * weights
        rare = expected < 5
        counts, expected = (torch.cat([x[~rare], x[rare].sum()[None]]) if bool(rare.any()) else x for x in (counts, expected))
        freedom = len(expected) - 1
        assert float(((counts - expected) ** 2 / expected).sum()) < freedom + 5 * math.sqrt(2 * freedom)
        # Targets follow the probabilities stated beside them.
        hits = torch.nn.functional.one_hot(batch.targets, task.num_outputs).double() - stated
        variance = (stated * (1 - stated)).sum((0, 1))
        assert bool((hits.sum((0, 1)).abs() <= 5 * variance.sqrt() + 1e-6).all())


def test_no_model_beats_the_optimum_and_no_constant_beats_chance(task):
    _, weights, probabilities = law(task, task.pools[0])
    chance, optimum = task.chance(), task.optimum()
    mean = (weights[:, None, None] * probabilities).sum(0).mean(0)
    accuracy, cross_entropy = score(mean, weights, probabilities)
    assert (accuracy, cross_entropy) == pytest.approx((chance.accuracy, chance.cross_entropy), abs=1e-6)
    for answer in range(task.num_outputs):
        constant = torch.full((task.num_outputs,), 0.1 / task.num_outputs, dtype=torch.float64)
        constant[answer] += 0.9
        accuracy, cross_entropy = score(constant, weights, probabilities)
        assert accuracy <= chance.accuracy + 1e-6
        assert cross_entropy >= chance.cross_entropy - 1e-6
    if optimum is None:
        return
    accuracy, cross_entropy = score(probabilities, weights, probabilities)
    assert (accuracy, cross_entropy) == pytest.approx((optimum.accuracy, optimum.cross_entropy), abs=1e-6)
    assert optimum.accuracy >= chance.accuracy - 1e-9
    assert optimum.cross_entropy <= chance.cross_entropy + 1e-9
    noise = torch.rand(probabilities.shape, generator=generator(), dtype=torch.float64)
    for share in (0.01, 0.3):
        other = (1 - share) * probabilities + share * noise / noise.sum(-1, keepdim=True)
        accuracy, cross_entropy = score(other, weights, probabilities)
        assert accuracy <= optimum.accuracy + 1e-6
        assert cross_entropy > optimum.cross_entropy


def test_the_symmetry_keeps_the_law(task):
    if task.symmetry is None:
        return
    for pool in task.pools:
        tokens, weights, probabilities = law(task, pool)
        index = {tuple(row): i for i, row in enumerate(tokens.tolist())}
        for number, (token, position) in enumerate(task.symmetry.generators):
            moved = torch.tensor([index[tuple(row)] for row in task.symmetry.act(tokens, number).tolist()])
            torch.testing.assert_close(weights[moved], weights)
            expected = torch.empty_like(probabilities)
            outputs = torch.tensor(token[: task.num_outputs])
            due = torch.tensor(position) if probabilities.shape[1] == len(position) else torch.tensor([0])
            expected[:, due[:, None], outputs] = probabilities
            torch.testing.assert_close(probabilities[moved], expected)


def test_candidate_maps_have_names_and_spectra(task):
    names = [candidate.name for candidate in task.candidate_maps]
    assert len(set(names)) == len(names)
    for candidate in task.candidate_maps:
        assert candidate.spectrum is None or float(candidate.spectrum.abs().max()) <= 1 + 1e-9


def test_a_description_rebuilds_an_equal_task(task):
    description = describe_task(task)
    rebuilt = build_task(json.loads(json.dumps(description)))
    assert type(rebuilt) is type(task)
    assert describe_task(rebuilt) == description
    assert (rebuilt.name, rebuilt.pools, rebuilt.optimum()) == (task.name, task.pools, task.optimum())
    for pool in task.pools:
        for a, b in zip(
            task.batches(30, batch_size=20, seed=1, pool=pool),
            rebuilt.batches(30, batch_size=20, seed=1, pool=pool),
            strict=True,
        ):
            assert_equal(a, b)


def test_an_unknown_pool_is_named_with_those_that_exist(task):
    for call in (
        lambda: task.sample(4, generator=generator(), pool="trian"),
        lambda: task.enumerate("trian", 4),
        lambda: task.batches(4, batch_size=2, seed=0, pool="trian"),
    ):
        with pytest.raises(UnknownNameError, match=rf"pool .*'trian'.*nearest: .*{task.pools[0]}"):
            call()


def test_sizes_below_one_are_refused(task):
    pool = task.pools[0]
    for call in (
        lambda: task.sample(0, generator=generator(), pool=pool),
        lambda: task.enumerate(pool, 0),
        lambda: task.batches(0, batch_size=2, seed=0, pool=pool),
        lambda: task.batches(4, batch_size=0, seed=0, pool=pool),
    ):
        with pytest.raises(ConfigError, match=r"expected 1 or more; raise (num|batch_size)$"):
            call()
