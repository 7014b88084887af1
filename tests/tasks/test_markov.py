import json
from importlib import resources

import pytest
import torch

import invariscope.tasks
from invariscope.batch import Batch
from invariscope.errors import (
    ConfigError,
    NotEnumerableError,
    ObjectiveError,
    ReiterableError,
    ShapeError,
    TooFewSamplesError,
    TransitionMatrixError,
    UnknownNameError,
)
from invariscope.tasks import MarkovChain

CHAINS = json.loads(resources.files("invariscope.tasks").joinpath("chains.json").read_text("utf-8"))["observed"]

# The sheet's own numbers for the chains of four states (arXiv:2602.22600 for the third), to the digits it prints.
PRINTED_SPECTRA = {
    "four_real": [0.674, 0.498, -0.472],
    "four_complex": [-0.003 + 0.594j, -0.003 - 0.594j, -0.444],
    "four_paper": [0.75 + 0.25j, 0.75 - 0.25j, 0.5],
}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", CHAINS)
def test_named_chains_hold_what_their_file_says(name):
    chain = MarkovChain.named(name)
    stated = CHAINS[name]
    assert chain.name == name
    assert chain.sequence_length == 16
    torch.testing.assert_close(chain.transition, torch.tensor(stated["transition"], dtype=torch.float64))
    assert len(chain.eigenvalues) == chain.num_states - 1
    assert chain.vocab_size == chain.num_outputs == chain.num_states == len(stated["transition"])
    assert (chain.groups is None) == ("groups" not in stated)
    if "entropy_rate" in stated:
        assert chain.entropy_rate == pytest.approx(stated["entropy_rate"], abs=1e-9)
        assert chain.chance().cross_entropy == pytest.approx(stated["stationary_entropy"], abs=1e-9)
        assert chain.groups.tolist() == stated["groups"]
        nonzero = [complex(*pair) for pair in stated["eigenvalues"]]
        found = [value for value in chain.eigenvalues.tolist() if value != 0]
        assert len(found) == len(nonzero) == 3
        for value in nonzero:
            assert min(abs(value - other) for other in found) < 1e-9


@pytest.mark.parametrize("name", PRINTED_SPECTRA)
def test_spectra_of_four_states_are_those_printed_and_in_order(name):
    found = MarkovChain.named(name).eigenvalues.tolist()
    assert found == pytest.approx(PRINTED_SPECTRA[name], abs=6e-4)


def test_ranks_of_the_log_law():
    ranks = {name: MarkovChain.named(name).law_log_rank for name in CHAINS}
    assert ranks == {
        "four_real": 3,
        "four_complex": 3,
        "four_paper": None,
        "four_rank_two": 2,
        "clustered_12": 3,
        "spread_12": 3,
        "overlapping_12": 11,
    }


def test_five_directions_carry_the_overlapping_log_law_to_one_in_a_thousand():
    logits = MarkovChain.named("overlapping_12").transition.log()
    logits = logits - logits.mean(1, keepdim=True)
    energy = torch.linalg.svdvals(logits - logits.mean(0)).square()
    share = energy.cumsum(0) / energy.sum()
    assert float(share[3]) < 0.999 <= float(share[4])


def test_the_papers_chain_and_its_control():
    paper = MarkovChain.named("four_paper")
    expected = 0.75 * torch.eye(4) + 0.25 * torch.eye(4).roll(1, 1)
    torch.testing.assert_close(paper.transition, expected.double())
    assert paper.optimum().accuracy == pytest.approx(0.75)
    assert paper.chance().accuracy == pytest.approx(0.25)
    control = MarkovChain.named("four_rank_two")
    assert torch.equal(control.transition[2], control.transition[3])
    assert control.eigenvalues.tolist()[1] == 0


def test_optimum_and_chance_of_a_chain_worked_by_hand():
    chain = MarkovChain([[0.9, 0.1], [0.5, 0.5]])
    # pi = (5/6, 1/6); accuracy 5/6 * .9 + 1/6 * .5
    assert chain.optimum().accuracy == pytest.approx(5 / 6)
    assert chain.optimum().cross_entropy == pytest.approx((5 * 0.3250829733914482 + 0.6931471805599453) / 6)
    assert chain.chance().accuracy == pytest.approx(5 / 6)
    assert chain.chance().cross_entropy == pytest.approx(0.45056120886630463)


def test_unknown_chains_are_answered_with_the_nearest_three():
    with pytest.raises(UnknownNameError, match=r"chain 'spred_12'; .*nearest: spread_12, \w+, \w+$"):
        MarkovChain.named("spred_12")


def test_targets_are_the_next_tokens():
    batch = MarkovChain.named("spread_12").sample(64, generator=generator())
    assert torch.equal(batch.inputs["tokens"][:, 1:], batch.targets[:, :-1])
    assert batch.groups is None
    assert batch.weights is None
    assert batch.probabilities.dtype == torch.float32


def test_impossible_transitions_are_never_drawn():
    chain = MarkovChain.named("four_paper", 64)
    counts = chain.count_matrix(chain.batches(2000, batch_size=500, seed=0))
    assert torch.equal(counts > 0, chain.transition > 0)
    assert int(counts.sum()) == 2000 * 64


def test_every_position_has_the_stationary_law():
    chain = MarkovChain.named("four_rank_two", 12)
    num = 20_000
    tokens = chain.sample(num, generator=generator(2)).inputs["tokens"]
    for t in range(12):
        share = torch.bincount(tokens[:, t], minlength=4).double() / num
        sigma = (chain.stationary * (1 - chain.stationary) / num).sqrt()
        assert bool(((share - chain.stationary).abs() < 4.5 * sigma).all())


def test_counts_by_hand():
    chain = MarkovChain([[0.5, 0.5], [0.5, 0.5]], 3)
    batch = Batch(inputs={"tokens": torch.tensor([[0, 1, 1]])}, targets=torch.tensor([[1, 1, 0]]))
    assert chain.count_matrix([batch, batch]).tolist() == [[0, 2], [2, 2]]
    # rows (0, 1) and (1/2, 1/2): eigenvalues 1 and -1/2
    assert chain.counted_eigenvalues([batch]).tolist() == pytest.approx([-0.5])


def test_counted_eigenvalues_approach_the_true_ones_with_the_sample():
    chain = MarkovChain.named("four_complex")
    errors = [
        float((chain.counted_eigenvalues(chain.batches(num, batch_size=num, seed=1)) - chain.eigenvalues).abs().max())
        for num in (200, 20_000)
    ]
    assert errors[1] < 0.01
    assert errors[1] < errors[0] < 0.1


def test_counting_refuses_what_it_cannot_count():
    chain = MarkovChain.named("four_real", 3)
    with pytest.raises(ObjectiveError, match=r"without targets; .*one target a token; use batches\("):
        chain.count_matrix(chain.enumerate("train", 64))
    with pytest.raises(ShapeError, match=r"up to 11.*expected equal shapes and states below 4; count batches of this"):
        chain.count_matrix(MarkovChain.named("spread_12", 3).batches(500, batch_size=500, seed=0))
    short = Batch(inputs={"tokens": torch.zeros(2, 3).long()}, targets=torch.zeros(2, 1).long())
    with pytest.raises(ShapeError, match=r"tokens \[2, 3\] up to 0 and targets \[2, 1\]"):
        chain.count_matrix([short])
    with pytest.raises(ReiterableError, match="only once"):
        chain.count_matrix(iter(chain.batches(8, batch_size=8, seed=0)))
    still = Batch(inputs={"tokens": torch.tensor([[0, 1, 0]])}, targets=torch.tensor([[1, 0, 0]]))
    with pytest.raises(TooFewSamplesError, match=r"the states \[2, 3\] never occur; .*; draw more sequences"):
        chain.counted_eigenvalues([still])


def test_enumeration_leaves_impossible_sequences_out():
    chain = MarkovChain.named("four_paper", 3)
    parts = list(chain.enumerate("heldout", 10))
    tokens = torch.cat([part.inputs["tokens"] for part in parts])
    assert len(tokens) == 4 * 2 * 2
    assert all(part.targets is None for part in parts)
    weights = dict(zip(map(tuple, tokens.tolist()), torch.cat([part.weights for part in parts]).tolist(), strict=True))
    assert weights[(3, 0, 0)] == pytest.approx(0.25 * 0.25 * 0.75)


def test_too_many_sequences_to_enumerate_say_what_to_use():
    chain = MarkovChain.named("four_real")
    with pytest.raises(NotEnumerableError, match=r"4\^16 sequences; expected at most 1048576 .*; use batches\(num"):
        chain.enumerate("train", 64)
    assert next(iter(MarkovChain.named("four_real", 10).enumerate("train", 64))).num_rows == 64


def test_only_cyclic_chains_have_the_cyclic_symmetry():
    with_symmetry = {name for name in CHAINS if MarkovChain.named(name).symmetry is not None}
    assert with_symmetry == {"four_paper"}
    assert MarkovChain.named("four_paper", 3).symmetry.generators == (((1, 2, 3, 0), (0, 1, 2)),)


def test_the_time_shift_carries_the_spectrum():
    chain = MarkovChain.named("spread_12")
    (shift,) = chain.candidate_maps
    assert (shift.name, shift.holdout) == ("time shift", "sequence")
    assert torch.equal(shift.spectrum, chain.eigenvalues)


def test_dirichlet_chains_come_from_their_generator():
    first, again, other = (MarkovChain.dirichlet(6, 0.5, generator=generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(first.transition, again.transition)
    assert not torch.equal(first.transition, other.transition)
    assert first.name == "dirichlet-6"
    moved = generator(1)
    MarkovChain.dirichlet(6, generator=moved)
    assert not torch.equal(MarkovChain.dirichlet(6, 0.5, generator=moved).transition, first.transition)


def test_the_concentration_says_how_even_rows_are():
    even = MarkovChain.dirichlet(8, 100.0, generator=generator())
    uneven = MarkovChain.dirichlet(8, 0.3, generator=generator())
    # The variance of an entry is (V - 1) / (V^2 (V a + 1)).
    assert float(even.transition.var()) == pytest.approx(7 / (64 * 801), rel=0.4)
    assert float(uneven.transition.var()) == pytest.approx(7 / (64 * 3.4), rel=0.4)


@pytest.mark.parametrize(("num", "concentration"), [(1, 1.0), (4, 0.0), (4, -1.0), (4, float("inf")), (4, float("nan"))])
def test_dirichlet_refuses_what_has_no_law(num, concentration):
    with pytest.raises(ConfigError, match=rf"{num} states with concentration {concentration}; expected .*; use 1.0"):
        MarkovChain.dirichlet(num, concentration, generator=generator())


def test_bad_arguments_are_named():
    with pytest.raises(TransitionMatrixError, match="period 2"):
        MarkovChain([[0, 1], [1, 0]])
    with pytest.raises(ConfigError, match="sequence_length=0; expected 1 token or more; raise sequence_length"):
        MarkovChain.named("four_real", 0)
    with pytest.raises(ShapeError, match=r"groups of shape \[3\] .*\[2, 2\]; expected \[2\]; give one label a state"):
        MarkovChain([[0.5, 0.5], [0.4, 0.6]], groups=[0, 1, 1])


def test_repr_names_the_chain():
    assert repr(MarkovChain.named("four_real")) == "MarkovChain('four_real', num_states=4, sequence_length=16)"


def test_public_names_are_there():
    assert all(hasattr(invariscope.tasks, name) for name in invariscope.tasks.__all__)
