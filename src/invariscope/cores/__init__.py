"""Cores: extract, validate, identify, compare and transplant the causal subspace of a model (arXiv:2602.22600)."""

from invariscope.cores.compare import CoordinateComparison, compare_coordinates, projector_overlap, weight_cosine
from invariscope.cores.core import Core, Provenance, load_core
from invariscope.cores.extract import collect_moments, extract_core, rank_curve
from invariscope.cores.identify import Identification, IdentifiedMap, core_coordinates, identify_operator
from invariscope.cores.metrics import Metric, accuracy, auc, cross_entropy, divergence
from invariscope.cores.moments import Moments
from invariscope.cores.ranks import RankCurve, by_energy, by_gap, by_sufficiency
from invariscope.cores.transplant import Transplant, transplant
from invariscope.cores.validate import Effects, validate_core

__all__ = [
    "CoordinateComparison",
    "Core",
    "Effects",
    "Identification",
    "IdentifiedMap",
    "Metric",
    "Moments",
    "Provenance",
    "RankCurve",
    "Transplant",
    "accuracy",
    "auc",
    "by_energy",
    "by_gap",
    "by_sufficiency",
    "collect_moments",
    "compare_coordinates",
    "core_coordinates",
    "cross_entropy",
    "divergence",
    "extract_core",
    "identify_operator",
    "load_core",
    "projector_overlap",
    "rank_curve",
    "transplant",
    "validate_core",
    "weight_cosine",
]
