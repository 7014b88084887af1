"""The invariant manifold of inductive reasoning: the few coordinates in which a symmetric task is learnt (arXiv:2607.11875)."""

from invariscope.manifold.basis import Selectors, orbital_selectors, paper_selectors
from invariscope.manifold.confinement import (
    check_invariance,
    expected_gradient,
    expected_loss,
    random_point,
    set_weights,
    warn_of_adaptive_steps,
)
from invariscope.manifold.coordinates import Coordinate, InductionManifold

__all__ = [
    "Coordinate",
    "InductionManifold",
    "Selectors",
    "check_invariance",
    "expected_gradient",
    "expected_loss",
    "orbital_selectors",
    "paper_selectors",
    "random_point",
    "set_weights",
    "warn_of_adaptive_steps",
]
