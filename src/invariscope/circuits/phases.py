"""When did it learn to add, when to look variables up, and when where variables stand? Phases of training from the logged pools.

arXiv:2605.31497 sees three phases: *addition* is learnt (held-out sums of numbers come out right while those with a variable do
not), then *routing* appears in a jump (held-out sums with a variable), then *refinement* reaches the sequences that training
never has (variables in forbidden places). Which step that is belongs to a seed; what is claimed is the order and the jump.

Addition and refinement are steps at which curves reach a level, routing is the change point of the accuracy on held-out sums
with one variable, from where addition is there. Before the jump such a model guesses among the numbers that are there, so
*seen* sums with a variable rise early without any routing: they are not used. During the jump the forbidden pools may *fall*
before they rise; :attr:`Phases.dips` is by how much.

>>> steps = range(100, 2100, 100)
>>> rising = lambda at: [float(step >= at) for step in steps]
>>> curves = {"0var-held": rising(400), "1var-held": rising(1000), "1var-seen-bad1": rising(1500)}
>>> events = [
...     {"step": step, "pools": {pool: {"accuracy": curve[index]} for pool, curve in curves.items()}}
...     for index, step in enumerate(steps)
... ]
>>> phases = find_phases(events, torch.Generator().manual_seed(0))
>>> [round(phase.step) for phase in (phases.addition, phases.routing, phases.refinement)], phases.in_order
([390, 950, 1495], True)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from invariscope.errors import ConfigError, TooFewSamplesError, unknown_name
from invariscope.estimate import Estimate
from invariscope.numerics import ChangePoint, Rise, change_point, crossing, lag, steepest_rise

__all__ = ["Curves", "Phase", "Phases", "circuit_lag", "find_phases", "pool_curves"]

ADDED = 0.9
"""Accuracy on held-out sums of numbers from which addition is there (arXiv:2605.31497's first phase)."""
REFINED = 0.95
"""Accuracy that every forbidden pool of seen sums has reached when refinement is there."""
JUMP = 0.3
"""Least rise of held-out sums with one variable that is called a jump."""
WINDOW = 0.1
"""Share of the training inside which it rises."""
ADDITION_POOL, ROUTING_POOL = "0var-held", "1var-held"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curves:
    """Accuracy of each logged pool over training.

    Args:
        steps: [n], of the evaluations. pools: accuracy of each, [n].
    """

    steps: Int[Tensor, "n"]
    pools: Mapping[str, Float[Tensor, "n"]]

    @property
    def forbidden(self) -> tuple[str, ...]:
        """The pools with variables in places that training never has, of sums that it has: what fails there is the place."""
        return tuple(pool for pool in self.pools if "-seen-bad" in pool)

    def of(self, pool: str) -> Float[Tensor, "n"]:
        """The accuracy of one pool.

        Raises:
            UnknownNameError: where it was not logged.
        """
        if pool not in self.pools:
            raise unknown_name("logged pool", pool, self.pools)
        return self.pools[pool]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Phase:
    """One phase.

    Args:
        name: ``addition``, ``routing`` or ``refinement``. pools: whose accuracy says so.
        step: when; None where it never came. It is between two logged steps: ``low`` and ``high`` are the interval.
        change: change point of the same curve, with a bootstrap interval; None where it never changes or has too few points.
    """

    name: str
    pools: tuple[str, ...]
    step: float | None
    low: float | None
    high: float | None
    change: ChangePoint | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Phases:
    """The three phases of one training.

    Args:
        addition: held-out sums of numbers reach .9.
        routing: change point of held-out sums with one variable, from where addition is there (over the whole training where it
            does not rise by .3 after that).
        refinement: the last pool of forbidden places with seen sums reaches .95.
        jump: steepest rise of held-out sums with one variable inside a tenth of the training, from where addition is there; None
            where addition never is, or nothing is logged after it.
        dips: of each pool of forbidden places with seen sums, how far it falls below where it was at the jump's start, until
            refinement (or the end); at most 0, and about -.03 by noise alone with 512 sequences. Empty without a jump.
        curves: what all of it is read from.
    """

    addition: Phase
    routing: Phase
    refinement: Phase
    jump: Rise | None
    dips: Mapping[str, float]
    curves: Curves

    @property
    def in_order(self) -> bool:
        """Whether all three came, in this order."""
        steps = [phase.step for phase in (self.addition, self.routing, self.refinement)]
        return all(a is not None and b is not None and a < b for a, b in itertools.pairwise(steps))

    @property
    def jumped(self) -> bool:
        """Whether held-out sums with one variable rose by .3 inside a tenth of the training after addition was there."""
        return self.jump is not None and self.jump.size >= JUMP


def pool_curves(events: Sequence[Mapping[str, Any]]) -> Curves:
    """Accuracy of each pool over the events of a training (:func:`invariscope.training.read_events`, or a run's ``metrics``).

    Raises:
        ConfigError: where no pool was logged, or not the same ones at each event.
    """
    found = [event for event in events if "pools" in event]
    names = list(found[0]["pools"]) if found else []
    if not names or any(list(event["pools"]) != names for event in found):
        raise ConfigError(
            f"{len(events)} events of which {len(found)} log pools" + (", not always the same ones" if names else ""),
            expected="the accuracy of the same pools at each evaluation",
            do="train with eval_pools=tuple(task.corners)",
        )
    return Curves(
        steps=torch.tensor([event["step"] for event in found]),
        pools={name: torch.tensor([event["pools"][name]["accuracy"] for event in found], dtype=torch.float64) for name in names},
    )


def find_phases(
    events: Sequence[Mapping[str, Any]] | Curves, generator: torch.Generator, *, num_steps: int | None = None
) -> Phases:
    """Find the three phases of a training.

    Args:
        events: of a training, or its curves.
        generator: of the bootstraps.
        num_steps: length of the training, of which the jump's window is a tenth; None: the last logged step.

    Raises:
        ConfigError: where no pool was logged. UnknownNameError: where ``0var-held`` or ``1var-held`` was not.
    """
    curves = events if isinstance(events, Curves) else pool_curves(events)
    steps, added, routed = curves.steps, curves.of(ADDITION_POOL), curves.of(ROUTING_POOL)
    window = WINDOW * (num_steps or float(steps[-1]))
    addition = _reaching("addition", (ADDITION_POOL,), steps, added, ADDED, generator)
    jump = None
    since = addition.high
    if since is not None:
        try:
            jump = steepest_rise(steps, routed, window, after=since)
        except TooFewSamplesError:
            # Addition came with the last evaluations, or evaluations are further apart than the window.
            jump = None
    routing = _routing(steps, routed, since if jump is not None and jump.size >= JUMP else None, generator)
    refinement = _refinement(curves, generator)
    dips = {}
    if jump is not None and jump.size >= JUMP:
        dips = {pool: _dip(steps, curves.of(pool), jump, refinement.high) for pool in curves.forbidden}
    return Phases(addition=addition, routing=routing, refinement=refinement, jump=jump, dips=dips, curves=curves)


def circuit_lag(
    phases: Phases,
    steps: Sequence[int] | Int[Tensor, "n"],
    values: Sequence[float] | Float[Tensor, "n"],
    generator: torch.Generator,
) -> Estimate | None:
    """How many steps after a measure of the circuit the accuracy on held-out sums with one variable changes.

    Args:
        phases: of the same training.
        steps, values: the measure over its checkpoints, such as the share of sums at whose ``=`` layer 1 attends to the operands.
        generator: of the measure's bootstrap.

    Returns:
        The lag in steps with its interval; below 0 where accuracy changes first. None where either curve never changes.

    Raises:
        TooFewSamplesError: for fewer than six checkpoints.
    """
    values = torch.as_tensor(values, dtype=torch.float64)
    if phases.routing.change is None or bool((values == values[:1]).all()):
        return None
    return lag(change_point(steps, values, generator), phases.routing.change)


def _reaching(
    name: str,
    pools: tuple[str, ...],
    steps: Int[Tensor, "n"],
    curve: Float[Tensor, "n"],
    level: float,
    generator: torch.Generator,
) -> Phase:
    step = crossing(steps, curve, level)
    low = high = None
    if step is not None:
        after = int((steps >= step).double().argmax())
        low, high = float(steps[max(after - 1, 0)]), float(steps[after])
    return Phase(name=name, pools=pools, step=step, low=low, high=high, change=_change(steps, curve, generator))


def _routing(steps: Int[Tensor, "n"], curve: Float[Tensor, "n"], since: float | None, generator: torch.Generator) -> Phase:
    """The change point, of what comes after ``since`` alone where that has enough points."""
    change = None
    if since is not None:
        change = _change(steps[steps >= since], curve[steps >= since], generator)
    change = change or _change(steps, curve, generator)
    at = None if change is None else change.step
    return Phase(
        name="routing",
        pools=(ROUTING_POOL,),
        step=None if at is None else at.value,
        low=None if at is None else at.low,
        high=None if at is None else at.high,
        change=change,
    )


def _change(steps: Int[Tensor, "n"], curve: Float[Tensor, "n"], generator: torch.Generator) -> ChangePoint | None:
    try:
        return change_point(steps, curve, generator)
    except (ConfigError, TooFewSamplesError):
        # A curve that never changes, or of a few points.
        return None


def _refinement(curves: Curves, generator: torch.Generator) -> Phase:
    """The last forbidden pool to reach its level; the change point is of their mean."""
    reached = [_reaching("refinement", (pool,), curves.steps, curves.of(pool), REFINED, generator) for pool in curves.forbidden]
    last = max(reached, key=lambda phase: math.inf if phase.step is None else phase.step, default=None)
    mean = torch.stack([curves.of(pool) for pool in curves.forbidden]).mean(0) if curves.forbidden else None
    return Phase(
        name="refinement",
        pools=curves.forbidden,
        step=None if last is None else last.step,
        low=None if last is None else last.low,
        high=None if last is None else last.high,
        change=None if mean is None else _change(curves.steps, mean, generator),
    )


def _dip(steps: Int[Tensor, "n"], curve: Float[Tensor, "n"], jump: Rise, until: float | None) -> float:
    during = curve[(steps >= jump.start) & (steps <= (float(steps[-1]) if until is None else max(until, jump.end)))]
    return float(during.min() - during[0])
