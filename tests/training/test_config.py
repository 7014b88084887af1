"""Configurations of a training: the learning rate by value, which forward trains, what is refused."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.errors import ConfigError, UnknownNameError
from invariscope.models import TransformerConfig
from invariscope.training import TrainConfig, learning_rate_at, resolve_forward

SHAPE = TransformerConfig(vocab_size=4, context_length=8)
FOLDABLE = TransformerConfig(vocab_size=4, context_length=8, num_layers=2, mlp_width=(0, 16))


def rates(**fields: Any) -> list[float]:
    config = TrainConfig(**fields)
    return [learning_rate_at(config, step) for step in range(config.steps)]


def test_warm_up_is_linear_and_reaches_the_full_rate_at_its_last_step():
    found = rates(steps=8, learning_rate=2.0, warmup_steps=4, schedule="constant")
    assert found == [0.5, 1.0, 1.5, 2.0, 2.0, 2.0, 2.0, 2.0]


def test_linear_falls_by_equal_steps_to_the_final_share():
    found = rates(steps=6, learning_rate=1.0, warmup_steps=2, schedule="linear", final_share=0.2)
    assert found == pytest.approx([0.5, 1.0, 0.8, 0.6, 0.4, 0.2])


def test_cosine_is_half_way_down_half_way_through():
    found = rates(steps=10, learning_rate=1.0, warmup_steps=0, schedule="cosine", final_share=0.1)
    assert found[4] == pytest.approx(0.1 + 0.9 / 2)
    assert found[9] == pytest.approx(0.1)
    assert found[0] == pytest.approx(0.1 + 0.9 * (1 + math.cos(math.pi / 10)) / 2)


def test_a_training_that_is_all_warm_up_never_falls():
    assert rates(steps=3, learning_rate=3.0, warmup_steps=3) == [1.0, 2.0, 3.0]


@given(
    steps=st.integers(1, 60),
    warmup=st.integers(0, 70),
    schedule=st.sampled_from(["constant", "cosine", "linear"]),
    share=st.floats(0, 1),
)
@settings(deadline=None, derandomize=True)
def test_rates_rise_then_fall_within_bounds(steps: int, warmup: int, schedule: str, share: float):
    found = rates(steps=steps, learning_rate=1.0, warmup_steps=warmup, schedule=schedule, final_share=share)
    assert all(0 <= rate <= 1 + 1e-12 for rate in found)
    rise, fall = found[:warmup], found[warmup:]
    assert rise == sorted(rise)
    assert all(a >= b - 1e-12 for a, b in itertools.pairwise(fall))
    if fall:
        assert fall[-1] == pytest.approx(1.0 if schedule == "constant" else share)


@pytest.mark.parametrize(
    ("fields", "given", "expected"),
    [
        ({"steps": 0}, "steps = 0", "a whole number of at least 1"),
        ({"steps": 2.5}, "steps = 2.5", "a whole number of at least 1"),
        ({"batch_size": True}, "batch_size = True", "a whole number"),
        ({"num_sequences": 0}, "num_sequences = 0", "a whole number of at least 1, or None for fresh sequences"),
        ({"num_sequences": 2.0}, "num_sequences = 2.0", "a whole number"),
        ({"num_sequences": True}, "num_sequences = True", "a whole number"),
        ({"warmup_steps": -1}, "warmup_steps = -1", "at least 0"),
        ({"learning_rate": math.inf}, "learning_rate = inf", "a finite number"),
        ({"learning_rate": math.nan}, "learning_rate = nan", "a finite number"),
        ({"weight_decay": -0.1}, "weight_decay = -0.1", "at least 0"),
        ({"final_share": 1.5}, "final_share = 1.5", "from 0 to 1"),
        ({"betas": (0.9,)}, "betas = (0.9,)", "two numbers"),
        ({"betas": (0.9, 1.0)}, "betas = (0.9, 1.0)", "below 1"),
    ],
)
def test_numbers_out_of_range_are_refused_by_name(fields: dict[str, Any], given: str, expected: str):
    with pytest.raises(ConfigError) as caught:
        TrainConfig(**fields)
    assert caught.value.given == given
    assert expected in caught.value.expected
    assert caught.value.do == f"correct {next(iter(fields))}"


def test_unknown_choices_list_the_nearest():
    with pytest.raises(UnknownNameError, match=r"unknown schedule 'cosin'; .*nearest: cosine"):
        TrainConfig(schedule="cosin")  # pyright: ignore[reportArgumentType]  # what is tested
    with pytest.raises(UnknownNameError, match=r"unknown forward 'fold'; .*nearest: folded"):
        TrainConfig(forward="fold")  # pyright: ignore[reportArgumentType]  # what is tested


@pytest.mark.parametrize(
    ("forward", "positions", "model", "resolved"),
    [
        ("auto", "last", SHAPE, "last"),
        ("auto", "last", FOLDABLE, "folded"),
        ("auto", "all", FOLDABLE, "plain"),
        ("auto", 2, SHAPE, "plain"),
        ("auto", slice(1, None), SHAPE, "plain"),
        ("plain", "last", FOLDABLE, "plain"),
        ("last", "last", FOLDABLE, "last"),
        ("folded", "last", FOLDABLE, "folded"),
    ],
)
def test_forward_depends_on_the_configuration_alone(forward: Any, positions: Any, model: TransformerConfig, resolved: str):
    assert resolve_forward(forward, positions, model) == resolved


@pytest.mark.parametrize("forward", ["last", "folded"])
def test_last_rows_are_refused_where_other_tokens_are_read(forward: Any):
    with pytest.raises(ConfigError, match=rf"forward = '{forward}' for a loss at 'all'; .*; use 'plain'"):
        resolve_forward(forward, "all", FOLDABLE)
    with pytest.raises(ConfigError, match=r"for a loss at 'mask\[1, 3\]'"):
        resolve_forward(forward, torch.ones(1, 3, dtype=torch.bool), FOLDABLE)


def test_folding_is_refused_where_the_model_does_not_fold():
    with pytest.raises(ConfigError, match=r"layer|MLP|block"):
        resolve_forward("folded", "last", SHAPE)
