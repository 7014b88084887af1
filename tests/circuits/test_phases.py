"""Phases made by hand are found where they are, in their order, and what is not there is said not to be."""

import pytest
import torch

from circuits.hand_built import generator
from invariscope.circuits import circuit_lag, find_phases, pool_curves
from invariscope.errors import ConfigError, UnknownNameError

STEPS = list(range(100, 6100, 100))
NOISE = 0.01


def sigmoid(at, width=100.0, low=0.0, high=1.0):
    x = (torch.tensor(STEPS, dtype=torch.float64) - at) / width
    return low + (high - low) * torch.sigmoid(x)


def events(**curves):
    noise = generator(1)
    noisy = {
        name.replace("_", "-")[1:]: (curve + NOISE * torch.randn(len(STEPS), generator=noise)).clamp(0, 1)
        for name, curve in curves.items()
    }
    return [
        {"step": step, "train_loss": 1.0, "pools": {name: {"accuracy": float(curve[i])} for name, curve in noisy.items()}}
        for i, step in enumerate(STEPS)
    ]


def three_phases(**changed):
    curves = {
        "_0var_held": sigmoid(800),
        # Guessing among the constants from 800 on, routing at 3000.
        "_1var_held": sigmoid(800, high=0.3) + sigmoid(3000, high=0.7),
        "_1var_seen_bad1": sigmoid(3000, low=0.2, high=0.05) + sigmoid(4500, high=0.95),
        "_2var_seen_bad2": sigmoid(4000),
        "_2var_held_bad2": sigmoid(9000),
    }
    return events(**{**curves, **changed})


def test_all_three_are_found_in_order():
    phases = find_phases(three_phases(), generator())
    assert phases.addition.step == pytest.approx(800 + 220, abs=60)
    assert phases.routing.step == pytest.approx(3000, abs=100)
    assert phases.refinement.step == pytest.approx(4500 + 400, abs=250)
    for phase in (phases.addition, phases.routing, phases.refinement):
        assert phase.low <= phase.step <= phase.high, phase.name
        assert phase.change is not None
    assert phases.in_order
    assert phases.jumped
    assert phases.jump is not None
    assert 2600 <= phases.jump.start < phases.jump.end <= 3400
    assert phases.jump.end - phases.jump.start <= 600
    # Sums that training never has are not what refinement is about.
    assert phases.refinement.pools == ("1var-seen-bad1", "2var-seen-bad2")


def test_the_dip_of_forbidden_places_is_seen():
    dips = find_phases(three_phases(), generator()).dips
    assert set(dips) == {"1var-seen-bad1", "2var-seen-bad2"}
    assert dips["1var-seen-bad1"] == pytest.approx(-0.15, abs=0.04)
    assert dips["2var-seen-bad2"] > -0.05


def test_routing_is_the_jump_and_not_the_guessing_before_it():
    # The early rise is the larger step of the whole curve.
    curve = sigmoid(800, high=0.55) + sigmoid(3000, high=0.4)
    phases = find_phases(three_phases(_1var_held=curve), generator())
    assert phases.routing.step == pytest.approx(3000, abs=150)


def test_routing_before_addition_is_out_of_order():
    phases = find_phases(three_phases(_1var_held=sigmoid(500)), generator())
    assert phases.routing.step == pytest.approx(500, abs=100)
    assert not phases.jumped
    assert not phases.in_order
    assert phases.dips == {}


def test_the_window_is_a_tenth_of_the_training():
    slow = three_phases(_1var_held=sigmoid(800, high=0.3) + sigmoid(3000, width=600, high=0.7))
    short, long = find_phases(slow, generator()), find_phases(slow, generator(), num_steps=60_000)
    assert short.jump is not None
    assert long.jump is not None
    assert short.jump.end - short.jump.start <= 600
    assert not short.jumped
    assert long.jumped


def test_what_never_comes_is_none():
    phases = find_phases(three_phases(_0var_held=sigmoid(9000)), generator())
    assert phases.addition.step is phases.addition.low is None
    assert phases.jump is None
    assert not phases.in_order
    assert not phases.jumped
    unrefined = find_phases(three_phases(_2var_seen_bad2=sigmoid(9000)), generator())
    assert unrefined.refinement.step is None
    assert unrefined.jumped
    assert not unrefined.in_order


def test_addition_with_the_last_evaluation_has_no_jump():
    late = torch.zeros(len(STEPS), dtype=torch.float64)
    late[-1] = 1.0
    phases = find_phases(three_phases(_0var_held=late), generator())
    assert phases.addition.step is not None
    assert phases.jump is None


def test_a_training_without_forbidden_places_has_two_phases():
    phases = find_phases(events(_0var_held=sigmoid(800), _1var_held=sigmoid(3000)), generator())
    assert phases.refinement.pools == ()
    assert phases.refinement.step is phases.refinement.change is None
    assert phases.jumped


def test_curves_can_be_given_and_are_kept():
    logged = three_phases()
    curves = pool_curves([{"step": 0, "train_loss": 4.0}, *logged])
    assert curves.steps.tolist() == STEPS
    assert curves.of("0var-held")[-1] == logged[-1]["pools"]["0var-held"]["accuracy"]
    assert find_phases(curves, generator()).addition.step == find_phases(logged, generator()).addition.step


def test_a_measure_that_leads_has_a_positive_lag():
    phases = find_phases(three_phases(), generator())
    found = circuit_lag(phases, STEPS, sigmoid(2500), generator())
    assert found is not None
    assert found.value == pytest.approx(500, abs=100)
    assert found.low <= 500 <= found.high
    behind = circuit_lag(phases, STEPS, sigmoid(3600), generator())
    assert behind is not None
    assert behind.value < -400


def test_a_measure_that_never_changes_has_no_lag():
    phases = find_phases(three_phases(), generator())
    assert circuit_lag(phases, STEPS, torch.ones(len(STEPS)), generator()) is None


def test_what_is_refused():
    with pytest.raises(ConfigError, match=r"1 events of which 0 log pools; expected the accuracy of the same pools"):
        find_phases([{"step": 1}], generator())
    with pytest.raises(ConfigError, match="not always the same ones"):
        pool_curves([{"step": 1, "pools": {"a": {"accuracy": 0.0}}}, {"step": 2, "pools": {"b": {"accuracy": 0.0}}}])
    with pytest.raises(UnknownNameError, match="unknown logged pool '1var-held'"):
        find_phases(events(_0var_held=sigmoid(800)), generator())
