"""Ridge probes: what is linearly there is found, what is not is at chance, groups are not broken."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import Ridge

from invariscope.errors import ConfigError, NonFiniteError, ShapeError, TooFewSamplesError
from invariscope.numerics import ridge_probe, split_groups


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def coded(answers: torch.Tensor, num: int, dim: int, noise: float = 0.0, seed: int = 1) -> torch.Tensor:
    g = generator(seed)
    rows = F.one_hot(answers, num).double() @ torch.randn(num, dim, dtype=torch.float64, generator=g)
    return 3.0 + rows + noise * torch.randn(len(answers), dim, dtype=torch.float64, generator=g)


def pairs(num: int, modulus: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(modulus, (num, 2), generator=generator(seed))


def sets(operands: torch.Tensor, modulus: int) -> torch.Tensor:
    return F.one_hot(operands, modulus).sum(1)


def test_a_code_is_read_and_noise_is_at_chance():
    answers = torch.randint(4, (400,), generator=generator())
    found = ridge_probe(coded(answers, 4, 16, noise=0.3), answers, generator=generator())
    assert found.score.value >= 0.95
    assert found.score.low is not None
    assert found.score.low >= 0.9
    assert (found.score.num, found.num_fit) == (200, 200)
    assert found.score.chance == pytest.approx(0.25, abs=0.08)
    assert found.null_mean == pytest.approx(0.25, abs=0.06)
    nothing = ridge_probe(torch.randn(400, 16, generator=generator(7)), answers, generator=generator())
    assert nothing.score.value <= nothing.null_high + 0.03
    assert nothing.fitted > nothing.score.value


def test_the_weights_are_those_of_ridge_regression():
    answers = torch.randint(3, (120,), generator=generator())
    x = coded(answers, 3, 5, noise=1.0)
    found = ridge_probe(x, answers, generator=generator(), ridge=0.1, num_permutations=1)
    fitted = ~split_groups(torch.arange(120), 0.5, generator())
    centred = x[fitted] - x[fitted].mean(0)
    expected = Ridge(alpha=0.1 * float(centred.pow(2).sum()) / 5).fit(x[fitted].numpy(), F.one_hot(answers[fitted]).numpy())
    assert found.weights.numpy() == pytest.approx(expected.coef_.T)
    assert found.bias.numpy() == pytest.approx(expected.intercept_)
    right = (found.scores(x[~fitted]).argmax(1) == answers[~fitted]).double()
    assert found.score.value == pytest.approx(float(right.mean()))
    assert found.fitted == pytest.approx(float((found.scores(x[fitted]).argmax(1) == answers[fitted]).double().mean()))


def test_an_unordered_pair_is_read_as_a_set():
    operands = pairs(600, 7)
    embedding = torch.randn(7, 12, dtype=torch.float64, generator=generator(2))
    sums = embedding[operands].sum(1)
    found = ridge_probe(sums, sets(operands, 7), generator=generator())
    assert found.score.value >= 0.97
    assert found.score.chance is not None
    assert found.score.chance < 0.1
    assert found.null_high < 0.15
    # Which of the two came first is not in their sum.
    first = ridge_probe(sums, operands[:, 0], generator=generator())
    assert first.score.value < 0.75


def test_the_set_of_one_answer_is_its_class():
    answers = torch.randint(4, (200,), generator=generator())
    x = coded(answers, 4, 8, noise=1.0)
    a, b = (ridge_probe(x, y, generator=generator()) for y in (answers, F.one_hot(answers, 4)))
    assert a.score == b.score
    assert a.null_mean == b.null_mean


def test_groups_that_a_probe_could_recognise_are_not_on_both_sides():
    # A code for the group, and an answer that is constant in a group but has nothing to do with the code otherwise.
    groups = torch.arange(30).repeat_interleave(10)
    answers = torch.randint(2, (30,), generator=generator())[groups]
    x = coded(groups, 30, 40)
    broken = ridge_probe(x, answers, generator=generator(), num_permutations=2)
    whole = ridge_probe(x, answers, groups=groups, generator=generator(), num_permutations=50)
    assert broken.score.value == 1.0
    assert whole.score.value < 0.8
    assert whole.fitted == 1.0
    assert whole.null_high > 0.6
    assert "groups" in whole.score.method


def test_classes_unseen_in_one_half_and_activations_that_do_not_vary():
    answers = torch.randint(2, (100,), generator=generator())
    found = ridge_probe(torch.ones(100, 3), answers, num_classes=5, generator=generator())
    assert found.weights.shape == (3, 5)
    assert found.weights.abs().max() == 0.0
    assert found.score.value == found.score.chance


def test_what_cannot_be_probed_is_refused():
    x, answers = torch.randn(60, 3, generator=generator()), torch.arange(60) % 2
    with pytest.raises(ShapeError, match=r"x of shape \[60, 3\] with answers for 59 rows"):
        ridge_probe(x, answers[1:], generator=generator())
    with pytest.raises(ShapeError, match=r"y, torch.float32 of shape \[60\]; expected integers \[n\], or a mask"):
        ridge_probe(x, answers.float(), generator=generator())
    with pytest.raises(NonFiniteError, match="x of shape"):
        ridge_probe(x / 0, answers, generator=generator())
    with pytest.raises(ConfigError, match="classes from -1 to 0"):
        ridge_probe(x, answers - 1, generator=generator())
    with pytest.raises(ConfigError, match=r"classes from 0 to 1; expected from 0 to 0"):
        ridge_probe(x, answers, num_classes=1, generator=generator())
    with pytest.raises(ConfigError, match="ridge = 0"):
        ridge_probe(x, answers, ridge=0, generator=generator())
    with pytest.raises(ConfigError, match="0 permutations"):
        ridge_probe(x, answers, num_permutations=0, generator=generator())
    with pytest.raises(TooFewSamplesError, match="60 rows, all of one answer"):
        ridge_probe(x, torch.zeros(60, dtype=torch.long), generator=generator())
    with pytest.raises(TooFewSamplesError, match="30 rows of 60 without an answer"):
        ridge_probe(x, answers[:, None].expand(60, 2), generator=generator())
    with pytest.raises(TooFewSamplesError, match="6 groups to be fitted; expected at least 10"):
        ridge_probe(x, answers, groups=torch.arange(60) // 5, generator=generator())
    with pytest.raises(ShapeError, match="rows of 2 dimensions; expected 3, as fitted"):
        ridge_probe(x, answers, generator=generator()).scores(x[:, :2])
