"""The invariant manifold of inductive reasoning: the few coordinates in which a symmetric task is learnt (arXiv:2607.11875)."""

from invariscope.manifold.basis import Selectors, orbital_selectors, paper_selectors
from invariscope.manifold.competition import Competition, circuit_gradients, emergence_of_recall, relevance
from invariscope.manifold.confinement import (
    OffspanCurve,
    check_invariance,
    expected_gradient,
    expected_loss,
    follow_offspan,
    random_point,
    set_weights,
    warn_of_adaptive_steps,
)
from invariscope.manifold.coordinates import Coordinate, InductionManifold
from invariscope.manifold.dynamics import ReducedLoss, Trajectory, descend
from invariscope.manifold.emergence import crossing_time, emergence_times, flow, local_exponents
from invariscope.manifold.growth import FollowedCoordinate, InductionMoment, InductionSeries, follow_induction
from invariscope.manifold.induction import InductionCircuit, InductionCoordinates, induction_coordinates
from invariscope.manifold.patterns import InductionPatterns, induction_patterns

__all__ = [
    "Competition",
    "Coordinate",
    "FollowedCoordinate",
    "InductionCircuit",
    "InductionCoordinates",
    "InductionManifold",
    "InductionMoment",
    "InductionPatterns",
    "InductionSeries",
    "OffspanCurve",
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
    "follow_induction",
    "follow_offspan",
    "induction_coordinates",
    "induction_patterns",
    "local_exponents",
    "orbital_selectors",
    "paper_selectors",
    "random_point",
    "relevance",
    "set_weights",
    "warn_of_adaptive_steps",
]
