"""The invariant manifold of inductive reasoning: the few coordinates in which a symmetric task is learnt (arXiv:2607.11875)."""

from invariscope.manifold.basis import Selectors, orbital_selectors, paper_selectors
from invariscope.manifold.competition import Competition, circuit_gradients, emergence_of_recall, relevance
from invariscope.manifold.confinement import (
    check_invariance,
    expected_gradient,
    expected_loss,
    random_point,
    set_weights,
    warn_of_adaptive_steps,
)
from invariscope.manifold.coordinates import Coordinate, InductionManifold
from invariscope.manifold.dynamics import ReducedLoss, Trajectory, descend
from invariscope.manifold.emergence import crossing_time, emergence_times, flow, local_exponents

__all__ = [
    "Competition",
    "Coordinate",
    "InductionManifold",
    "ReducedLoss",
    "Selectors",
    "Trajectory",
    "check_invariance",
    "circuit_gradients",
    "crossing_time",
    "descend",
    "emergence_of_recall",
    "emergence_times",
    "expected_gradient",
    "expected_loss",
    "flow",
    "local_exponents",
    "orbital_selectors",
    "paper_selectors",
    "random_point",
    "relevance",
    "set_weights",
    "warn_of_adaptive_steps",
]
