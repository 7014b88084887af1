import itertools
import json
import math
from importlib import resources

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.errors import (
    ConfigError,
    NotEnumerableError,
    ShapeError,
    TooFewSamplesError,
    TransitionMatrixError,
    UnknownNameError,
)
from invariscope.tasks import HiddenMarkovChain, MarkovChain

HIDDEN = json.loads(resources.files("invariscope.tasks").joinpath("chains.json").read_text("utf-8"))["hidden"]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def random_chain(num_hidden, vocab_size, length, seed):
    rng = np.random.default_rng(seed)
    move = rng.dirichlet(np.ones(num_hidden), size=num_hidden)
    return HiddenMarkovChain(move, rng.dirichlet(np.full(vocab_size, 0.7), size=num_hidden), length)


def paths_by_hand(chain, tokens):
    """P(s_t, x_1 ... x_t) for each t, by a sum over all hidden paths: [T, S]."""
    num, (start, move, emit) = chain.num_hidden, (chain.stationary, chain.hidden_transition, chain.emission)
    joint = torch.zeros(len(tokens), num, dtype=torch.float64)
    for t in range(len(tokens)):
        for path in itertools.product(range(num), repeat=t + 1):
            chance = float(start[path[0]] * emit[path[0], tokens[0]])
            for i in range(1, t + 1):
                chance *= float(move[path[i - 1], path[i]] * emit[path[i], tokens[i]])
            joint[t, path[-1]] += chance
    return joint


def r2(code, beliefs):
    """Share of the beliefs' variance that a linear map of `code` explains, on the half of the rows it was not fitted on."""
    half = len(code) // 2
    fit_x, fit_y = code[:half].flatten(0, 1).double(), beliefs[:half].flatten(0, 1)
    test_x, test_y = code[half:].flatten(0, 1).double(), beliefs[half:].flatten(0, 1)
    ridge = 1e-9 * torch.eye(fit_x.shape[1], dtype=torch.float64)
    weights = torch.linalg.solve(fit_x.T @ fit_x + ridge, fit_x.T @ fit_y)
    return float(1 - (test_y - test_x @ weights).square().sum() / (test_y - test_y.mean(0)).square().sum())


@pytest.mark.parametrize("name", HIDDEN)
def test_named_chains_hold_what_their_file_says(name):
    chain, stated = HiddenMarkovChain.named(name), HIDDEN[name]
    assert (chain.name, chain.sequence_length) == (name, 16)
    for matrix, key in ((chain.hidden_transition, "hidden_transition"), (chain.emission, "emission")):
        torch.testing.assert_close(matrix, torch.tensor(stated[key], dtype=torch.float64), atol=1e-8, rtol=0)
        torch.testing.assert_close(matrix.sum(1), torch.ones(3, dtype=torch.float64), atol=1e-12, rtol=0)
    assert chain.vocab_size == chain.num_outputs == len(stated["emission"][0])


@settings(deadline=None, derandomize=True, max_examples=25)
@given(st.integers(2, 3), st.integers(2, 4), st.integers(1, 5), st.integers(0, 10**6))
def test_the_filter_agrees_with_a_sum_over_all_hidden_paths(num_hidden, vocab_size, length, seed):
    chain = random_chain(num_hidden, vocab_size, length, seed)
    tokens = torch.randint(vocab_size, (2, length), generator=generator(seed))
    beliefs = chain.beliefs(tokens)
    assert beliefs.dtype == torch.float64
    for row in range(2):
        joint = paths_by_hand(chain, tokens[row].tolist())
        torch.testing.assert_close(beliefs[row], joint / joint.sum(1, keepdim=True), atol=1e-12, rtol=0)
        # P(x_1 ... x_{t+1}) = P(x_1 ... x_t) P(x_{t+1} | x_1 ... x_t)
        law = chain.next_token_law(beliefs[row])
        for t in range(length - 1):
            expected = float(joint[t + 1].sum() / joint[t].sum())
            assert float(law[t, tokens[row, t + 1]]) == pytest.approx(expected, abs=1e-12)


def test_beliefs_are_laws_at_every_length():
    chain = HiddenMarkovChain.named("six_tokens")
    beliefs = chain.beliefs(torch.randint(6, (50, 200), generator=generator()))
    assert beliefs.shape == (50, 200, 3)
    assert bool((beliefs >= 0).all())
    torch.testing.assert_close(beliefs.sum(-1), torch.ones(50, 200, dtype=torch.float64), atol=1e-12, rtol=0)


def test_a_belief_depends_on_the_past_alone():
    chain = HiddenMarkovChain.named("mess3_blurred")
    tokens = torch.randint(3, (20, 12), generator=generator())
    assert torch.equal(chain.beliefs(tokens)[:, :5], chain.beliefs(tokens[:, :5]))


def test_the_mean_belief_is_the_stationary_law():
    chain = HiddenMarkovChain.named("six_tokens", 5)
    mean = sum(part.weights @ chain.beliefs(part.inputs["tokens"]).flatten(1) for part in chain.enumerate("train", 1000))
    torch.testing.assert_close(mean.view(5, 3), chain.stationary.expand(5, 3), atol=1e-12, rtol=0)


def test_a_chain_that_shows_its_states_is_a_markov_chain():
    visible = MarkovChain.named("four_complex", 4)
    hidden = HiddenMarkovChain(visible.transition, torch.eye(4), 4)
    tokens = visible.sample(30, generator=generator()).inputs["tokens"]
    torch.testing.assert_close(hidden.beliefs(tokens), torch.nn.functional.one_hot(tokens, 4).double())
    torch.testing.assert_close(hidden.token_law, visible.stationary)
    for own, other in ((hidden.chance(), visible.chance()), (hidden.optimum(), visible.optimum())):
        assert own.accuracy == pytest.approx(other.accuracy, abs=1e-12)
        assert own.cross_entropy == pytest.approx(other.cross_entropy, abs=1e-12)
    for a, b in zip(hidden.enumerate("train", 50), visible.enumerate("train", 50), strict=True):
        assert torch.equal(a.inputs["tokens"], b.inputs["tokens"])
        torch.testing.assert_close(a.weights, b.weights)
        torch.testing.assert_close(a.probabilities, b.probabilities)


def test_states_that_look_alike_leave_nothing_to_believe():
    chain = HiddenMarkovChain([[0.9, 0.1], [0.3, 0.7]], [[0.2, 0.8], [0.2, 0.8]], 3)
    torch.testing.assert_close(
        chain.beliefs(torch.tensor([[0, 1, 1]])), torch.tensor([0.75, 0.25], dtype=torch.float64).expand(1, 3, 2)
    )
    assert chain.optimum().cross_entropy == pytest.approx(chain.chance().cross_entropy, abs=1e-12)
    assert chain.optimum().accuracy == pytest.approx(0.8)


def test_the_state_moves_before_it_emits():
    # States 0 and 1 follow each other almost surely, and each shows its own token.
    chain = HiddenMarkovChain([[0.01, 0.99], [0.99, 0.01]], [[1, 0], [0, 1]], 2)
    batch = chain.sample(2000, generator=generator())
    tokens, targets = batch.inputs["tokens"], batch.targets
    assert torch.equal(tokens[:, 1:], targets[:, :-1])
    assert float((tokens != targets).double().mean()) == pytest.approx(0.99, abs=0.01)
    assert float(tokens[:, 0].double().mean()) == pytest.approx(0.5, abs=0.05)
    torch.testing.assert_close(batch.probabilities.gather(-1, tokens[..., None]), torch.full((2000, 2, 1), 0.01))


def test_long_samples_have_the_law_of_tokens_and_pairs():
    chain, num = HiddenMarkovChain.named("six_tokens", 31), 4000
    tokens = chain.sample(num, generator=generator(5)).inputs["tokens"]
    pairs = torch.bincount((tokens[:, :-1:6] * 6 + tokens[:, 1::6]).flatten(), minlength=36).view(6, 6).double()
    move, emit = chain.hidden_transition, chain.emission
    expected = emit.T @ (chain.stationary[:, None] * move) @ emit
    assert float((pairs / pairs.sum() - expected).abs().max()) < 0.006
    assert float((expected - torch.outer(chain.token_law, chain.token_law)).abs().max()) > 0.02


def test_chance_and_optimum_worked_by_hand():
    # The state is forgotten at each step, so every law after the first token is the token law.
    chain = HiddenMarkovChain([[0.25, 0.75], [0.25, 0.75]], [[1, 0], [1 / 3, 2 / 3]], 3)
    torch.testing.assert_close(chain.token_law, torch.tensor([0.5, 0.5], dtype=torch.float64))
    for known in (chain.chance(), chain.optimum()):
        assert known.accuracy == pytest.approx(0.5)
        assert known.cross_entropy == pytest.approx(math.log(2))


def test_the_optimum_is_the_entropy_of_one_more_token():
    # The T conditional entropies telescope: T h = H(x_1 ... x_{T+1}) - H(x_1).
    def entropy(length):
        parts = HiddenMarkovChain.named("mess3_usual", length).enumerate("train", 4096)
        return sum(float(torch.special.entr(part.weights).sum()) for part in parts)

    chain = HiddenMarkovChain.named("mess3_usual", 5)
    assert chain.optimum().cross_entropy == pytest.approx((entropy(6) - entropy(1)) / 5, abs=1e-12)


def test_the_estimated_optimum_covers_the_exact_one():
    chain = HiddenMarkovChain.named("six_tokens", 5)
    exact = chain.optimum().cross_entropy
    for seed in (0, 1):
        estimate = chain.estimated_optimum(3000, seed)
        assert estimate.low < exact < estimate.high
        assert estimate.high - estimate.low < 0.01
        assert (estimate.num, estimate.unit, estimate.method) == (3000, "nats", "bootstrap over 3000 rows")
        assert estimate.chance == chain.chance().cross_entropy
    assert chain.estimated_optimum(500, 3) == chain.estimated_optimum(500, 3)
    assert chain.estimated_optimum(500, 3).value != chain.estimated_optimum(500, 4).value
    with pytest.raises(TooFewSamplesError, match="at least two groups"):
        chain.estimated_optimum(1, 0)
    with pytest.raises(ConfigError, match="num=0"):
        chain.estimated_optimum(0, 0)


def test_the_sheets_best_cross_entropy_of_six_tokens():
    # The sheet prints 1.6239 and warns that samples are off by .003 and more; 200 000 sequences give 1.6222.
    estimate = HiddenMarkovChain.named("six_tokens").estimated_optimum(20_000, 0)
    assert estimate.value == pytest.approx(1.6239, abs=0.004)


def test_what_cannot_be_enumerated_has_no_exact_optimum():
    chain = HiddenMarkovChain.named("mess3_usual")
    assert chain.optimum() is None
    with pytest.raises(NotEnumerableError, match=r"'mess3_usual' with 3\^16 sequences; .*; use batches\(num"):
        chain.enumerate("train", 64)


def test_sequences_of_probability_zero_are_left_out_and_refused():
    chain = HiddenMarkovChain([[0.5, 0.5], [0.4, 0.6]], [[0.5, 0.5, 0], [0, 1, 0]], 3)
    tokens = torch.cat([part.inputs["tokens"] for part in chain.enumerate("train", 5)])
    assert len(tokens) == 8
    assert int(tokens.max()) == 1
    with pytest.raises(ConfigError, match=r"sequence 1, whose token 2 at position 1 has probability 0 .*; leave them out"):
        chain.beliefs(torch.tensor([[0, 1, 0], [1, 2, 0]]))
    stuck = HiddenMarkovChain([[0, 0.5, 0.5], [1, 0, 0], [0.5, 0.5, 0]], torch.eye(3), 2)
    with pytest.raises(ConfigError, match="sequence 0, whose token 1 at position 1"):
        stuck.beliefs(torch.tensor([[1, 1]]))


@pytest.mark.parametrize(
    ("name", "num", "expected"), [("mess3_usual", 3, 0.988), ("mess3_blurred", 2, 0.67), ("six_tokens", 2, 0.61)]
)
def test_how_much_of_the_belief_the_last_tokens_tell(name, num, expected):
    # The sheet: .988 for three tokens of the usual Mess3; .64 to .70 for two of the others, at positions >= 3. Held out here.
    chain = HiddenMarkovChain.named(name)
    tokens = chain.sample(4000, generator=generator(1)).inputs["tokens"]
    code = chain.last_tokens_code(tokens, num)[:, 3 - (num - 1) :]
    assert r2(code, chain.beliefs(tokens)[:, 3:]) == pytest.approx(expected, abs=0.035 if num == 2 else 0.005)


def test_the_code_of_the_last_tokens_by_hand():
    chain = HiddenMarkovChain.named("mess3_usual")
    code = chain.last_tokens_code(torch.tensor([[2, 0, 1, 1]]))
    assert code.shape == (1, 3, 9)
    assert code.argmax(-1).tolist() == [[6, 1, 4]]
    assert torch.equal(code.sum(-1), torch.ones(1, 3))
    whole = chain.last_tokens_code(torch.tensor([[2, 0, 1]]), 3)
    assert whole.argmax(-1).tolist() == [[2 * 9 + 1]]


def test_codes_that_do_not_fit_are_refused():
    chain = HiddenMarkovChain.named("six_tokens")
    tokens = torch.zeros(2, 8).long()
    for num in (0, 9, 5):
        with pytest.raises(ConfigError, match=rf"last {num} of 8 tokens, 6\^{num} .*expected 1 to 8 .*4096.*; use num=2"):
            chain.last_tokens_code(tokens, num)
    assert chain.last_tokens_code(tokens, 4).shape == (2, 5, 1296)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (torch.tensor([0, 1]), r"shape \[2\] and dtype torch.int64; expected integers \[B, T\].*; pass batch.inputs"),
        (torch.zeros(2, 3), r"dtype torch.float32; expected integers"),
        (torch.zeros(2, 0).long(), r"shape \[2, 0\]"),
        (torch.tensor([[0, 3]]), r"tokens from 0 to 3 for a chain of 3 tokens; expected 0 ... 2; filter sequences of this"),
        (torch.tensor([[-1, 2]]), r"tokens from -1 to 2"),
    ],
)
def test_what_are_no_tokens_is_refused(tokens, message):
    chain = HiddenMarkovChain.named("mess3_usual")
    for call in (chain.beliefs, chain.last_tokens_code):
        with pytest.raises(ShapeError, match=message):
            call(tokens)


def test_laws_of_beliefs_keep_their_dtype_and_are_checked():
    chain = HiddenMarkovChain.named("six_tokens")
    law = chain.next_token_law(torch.tensor([[1.0, 0.0, 0.0]]))
    assert law.dtype == torch.float32
    torch.testing.assert_close(law[0].double(), (chain.hidden_transition @ chain.emission)[0], atol=1e-6, rtol=0)
    with pytest.raises(ShapeError, match=r"beliefs of shape \[4, 6\] for a chain of 3 hidden states; expected \[..., 3\]"):
        chain.next_token_law(torch.zeros(4, 6))


def test_bad_chains_are_named():
    emission = [[0.5, 0.5], [0.1, 0.9]]
    with pytest.raises(TransitionMatrixError, match="period 2"):
        HiddenMarkovChain([[0, 1], [1, 0]], emission)
    with pytest.raises(TransitionMatrixError, match="reducible chain with 2 classes"):
        HiddenMarkovChain([[1, 0], [0.5, 0.5]], emission)
    with pytest.raises(TransitionMatrixError, match=r"an emission matrix of shape \[3, 2\] for 2 hidden states"):
        HiddenMarkovChain([[0.5, 0.5], [0.4, 0.6]], [*emission, [1, 0]])
    with pytest.raises(ConfigError, match="sequence_length=0; expected 1 token or more; raise sequence_length"):
        HiddenMarkovChain.named("six_tokens", 0)
    with pytest.raises(UnknownNameError, match=r"hidden chain 'mess3'; .*nearest: mess3_\w+, mess3_\w+"):
        HiddenMarkovChain.named("mess3")


def test_only_mess3_has_the_cyclic_symmetry():
    assert {name for name in HIDDEN if HiddenMarkovChain.named(name).symmetry is not None} == {"mess3_usual", "mess3_blurred"}


def test_the_time_shift_claims_no_spectrum():
    (shift,) = HiddenMarkovChain.named("six_tokens").candidate_maps
    assert (shift.name, shift.spectrum) == ("time shift", None)


def test_repr_names_the_chain():
    expected = "HiddenMarkovChain('six_tokens', num_hidden=3, vocab_size=6, sequence_length=8)"
    assert repr(HiddenMarkovChain.named("six_tokens", 8)) == expected
