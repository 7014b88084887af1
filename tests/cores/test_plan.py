"""Memory plans: arithmetic that agrees with what is held, and refusals that name the way out."""

from __future__ import annotations

import dataclasses

import pytest

from invariscope.cores.plan import ModelShape, available_bytes, plan_sweep, shape_of
from invariscope.errors import ConfigError

SHAPE = ModelShape(num_layers=2, width=8, vocab_size=50, key_value_width=4, mlp_width=16, num_parameters=1000)


def plan(shape=SHAPE, **changes):
    settings = {"num_prompts": 10, "tokens": 6, "layers": 2, "batch_size": 5} | changes
    return plan_sweep(shape, **settings)


def entry(found, name):
    return next(one.num_bytes for one in found.entries if one.name.startswith(name))


def test_weights_and_keys_are_exact():
    assert entry(plan(), "weights") == 4000
    assert entry(plan(dtype="bfloat16"), "weights") == 2000
    assert entry(plan(), "keys") == 4 * 10 * 6 * 2 * 2 * 4


def test_factors_are_those_that_moments_hold():
    torch = pytest.importorskip("torch")
    from invariscope.cores import Moments

    moments = Moments(dim=8)
    generator = torch.Generator().manual_seed(0)
    moments.update(torch.randn(10, 8, generator=generator), torch.randn(10, 1, 8, generator=generator))
    moments.sides()
    held = sum(moments._activations.state()[name].numel() for name in moments._activations.state())
    assert entry(plan(layers=1), "factors") >= 8 * 2 * 8 * 8
    assert held * 8 <= entry(plan(layers=1), "factors")


def test_more_of_anything_takes_more():
    base = plan().peak_bytes
    for change in (
        {"num_prompts": 20},
        {"tokens": 12},
        {"layers": 4},
        {"batch_size": 10},
        {"whole_prompts": True},
        {"dtype": "float64"},
    ):
        assert plan(**change).peak_bytes > base, change


def test_what_does_not_fit_is_refused_with_the_option_that_would():
    found = plan(available=1000)
    assert not found.fits
    with pytest.raises(ConfigError, match=r"most of it .*expected at most the 0\.001 MB that are free") as error:
        found.check()
    largest = max(found.entries, key=lambda one: one.num_bytes)
    assert largest.lever in str(error.value)
    plan(available=10**12).check()


def test_the_table_names_every_entry_and_the_sum():
    text = plan(available=10**9).table()
    assert len(text.splitlines()) == 7
    assert "free: 1 GB" in text
    assert "float64" in text


def test_an_unknown_type_of_number_is_refused():
    with pytest.raises(ConfigError, match="int4"):
        plan(dtype="int4")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"n_layer": 2, "n_embd": 8, "n_head": 2, "vocab_size": 50}, (2, 8, 50, 8, 32)),
        (
            {
                "num_hidden_layers": 3,
                "hidden_size": 8,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "head_dim": 16,
                "intermediate_size": 20,
                "vocab_size": 9,
            },
            (3, 8, 9, 32, 20),
        ),
    ],
)
def test_shapes_are_read_from_a_config(config, expected):
    found = shape_of(config)
    assert dataclasses.astuple(found)[:5] == expected
    assert shape_of({"text_config": config}) == found
    assert shape_of(config, num_parameters=7).num_parameters == 7


def test_a_config_of_something_else_is_refused():
    with pytest.raises(ConfigError, match="without num_hidden_layers"):
        shape_of({"sides": 3})


def test_the_system_says_how_much_is_free():
    free = available_bytes()
    assert free is None or free > 0
