import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.errors import ConfigError, PositionError
from invariscope.positions import Rows
from invariscope.tasks import LazyBatches, MarkovChain, SampledBatches, Symmetry, cyclic_symmetry, derive_seed, time_shift

PARTS = st.lists(st.integers(-5, 300) | st.text('ab,1"[', max_size=3), max_size=4)


def rows(b, t):
    b, t = torch.tensor(b), torch.tensor(t)
    return Rows(b=b, t=t, groups=b)


def test_derived_seeds_are_the_same_on_every_machine():
    # printf '[0,"train",0]' | sha256sum: the first 63 bits
    assert derive_seed(0, "train", 0) == 4526955529511422063
    assert derive_seed(0, "heldout", 0) == 8328787844445037074


@settings(deadline=None, derandomize=True)
@given(PARTS, PARTS)
def test_derived_seeds_tell_all_parts_apart(a, b):
    assert (derive_seed(*a) == derive_seed(*b)) == (a == b)
    torch.Generator().manual_seed(derive_seed(*a))
    assert 0 <= derive_seed(*a) < 2**63


def test_shifting_a_step_does_not_give_the_batches_of_another_seed():
    chain = MarkovChain.named("four_real")
    first = SampledBatches(chain, 64, batch_size=8, seed=0)
    second = SampledBatches(chain, 64, batch_size=8, seed=1)
    seen = {tuple(batch.inputs["tokens"].flatten().tolist()) for batch in (*first, *second)}
    assert len(seen) == 16


def test_batches_end_like_a_sequence():
    batches = SampledBatches(MarkovChain.named("four_real"), 21, batch_size=10, seed=0)
    assert torch.equal(batches[-1].inputs["tokens"], batches[2].inputs["tokens"])
    assert batches[-1].num_rows == 1
    with pytest.raises(IndexError, match="batch 3 of 3"):
        batches[3]
    with pytest.raises(IndexError, match="batch -4 of 3"):
        batches[-4]


def test_batches_drawn_together_are_the_same_in_any_order_and_number():
    chain = MarkovChain.named("four_real")
    batches = SampledBatches(chain, 35, batch_size=5, seed=2, at_once=3)
    whole = [batch.inputs["tokens"] for batch in batches]
    assert len({tuple(tokens.flatten().tolist()) for tokens in whole}) == 7
    for index in (6, 0, 4, 3):
        assert torch.equal(batches[index].inputs["tokens"], whole[index])
    more = SampledBatches(chain, 500, batch_size=5, seed=2, at_once=3)
    assert torch.equal(more[6].inputs["tokens"], whole[6])
    assert SampledBatches(chain, 33, batch_size=5, seed=2, at_once=3)[6].num_rows == 3
    assert not torch.equal(SampledBatches(chain, 35, batch_size=5, seed=2)[1].inputs["tokens"], whole[1])
    with pytest.raises(ConfigError, match=r"batches with at_once=0; expected 1 or more; raise at_once"):
        SampledBatches(chain, 35, batch_size=5, seed=2, at_once=0)


def test_lazy_batches_start_anew():
    started = []
    lazy = LazyBatches(lambda: iter([started.append(len(started))]))
    assert [len(list(lazy)), len(list(lazy))] == [1, 1]
    assert started == [0, 1]


def test_time_shift_pairs_neighbours_within_a_sequence_only():
    i, j = time_shift(None).pairs(rows([0, 0, 0, 1, 1, 2], [0, 1, 3, 4, 5, 6]))
    assert list(zip(i.tolist(), j.tolist(), strict=True)) == [(0, 1), (3, 4)]


@settings(deadline=None, derandomize=True)
@given(st.permutations(range(12)))
def test_time_shift_does_not_depend_on_the_order_of_rows(order):
    b, t = [k // 4 for k in range(12)], [k % 4 for k in range(12)]
    shuffled = rows([b[k] for k in order], [t[k] for k in order])
    i, j = time_shift(None).pairs(shuffled)
    assert len(i) == 9
    assert torch.equal(shuffled.b[i], shuffled.b[j])
    assert torch.equal(shuffled.t[i] + 1, shuffled.t[j])


@pytest.mark.parametrize(("b", "t"), [([0, 1, 2], [3, 3, 3]), ([0, 1], [0, 1]), ([], [])])
def test_time_shift_without_neighbours_says_what_to_read(b, t):
    with pytest.raises(PositionError, match=rf"{len(b)} rows without .*expected rows at t and t \+ 1; .*positions='all'"):
        time_shift(None).pairs(rows(b, t))


def test_symmetry_moves_tokens_and_positions():
    symmetry = Symmetry(generators=(((1, 0, 2), (0, 1, 2)), ((0, 1, 2), (1, 2, 0))))
    tokens = torch.tensor([[0, 1, 2], [2, 2, 0]])
    assert symmetry.act(tokens, 0).tolist() == [[1, 0, 2], [2, 2, 1]]
    assert symmetry.act(tokens, 1).tolist() == [[2, 0, 1], [0, 2, 2]]
    assert tokens.tolist() == [[0, 1, 2], [2, 2, 0]]


@pytest.mark.parametrize(
    ("generators", "given_part"),
    [
        ((((0, 0), (0,)),), r"generator 0 with the token map \[0, 0\]; expected a permutation of 0 ... 1"),
        ((((1, 0), (0,)), ((0, 1), (1,))), r"generator 1 with the position map \[1\]; expected a permutation of 0 ... 0"),
        ((), "without generators; expected at least one; use symmetry = None"),
    ],
)
def test_symmetry_refuses_what_is_no_permutation(generators, given_part):
    with pytest.raises(ConfigError, match=given_part):
        Symmetry(generators=generators)


def test_the_cyclic_symmetry_moves_tokens_and_no_positions():
    symmetry = cyclic_symmetry(4, 3)
    assert symmetry.act(torch.tensor([[0, 3, 2], [1, 1, 0]])).tolist() == [[1, 0, 3], [2, 2, 1]]
