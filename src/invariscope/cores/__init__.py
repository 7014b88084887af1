"""Cores: extract, validate, identify, compare and transplant the causal subspace of a model (arXiv:2602.22600)."""

from invariscope.cores.baselines import Baseline, distributed_alignment_search
from invariscope.cores.behaviour import BehaviourData, behaviour_data, sweep_behaviour, sweep_layers
from invariscope.cores.choice_metrics import change_elsewhere, choice_accuracy, choice_margin
from invariscope.cores.compare import CoordinateComparison, compare_coordinates, projector_overlap, weight_cosine
from invariscope.cores.controls import ALL_CONTROLS, CONTROLS, LABEL_CONTROLS
from invariscope.cores.core import Core, Provenance, load_core
from invariscope.cores.core_series import CoreAtStep, CoreSeries
from invariscope.cores.edit_bench import SweepSettings
from invariscope.cores.export import export_steering
from invariscope.cores.extract import collect_moments, extract_core, rank_curve
from invariscope.cores.follow import follow_core
from invariscope.cores.identify import Identification, IdentifiedMap, core_coordinates, identify_operator
from invariscope.cores.layer_sweep import LayerEffect, LayerFindings, LayerSweep
from invariscope.cores.metrics import Metric, accuracy, auc, cross_entropy, divergence
from invariscope.cores.moments import Moments
from invariscope.cores.pair_coordinates import PairCoordinates, compare_pair_coordinates, read_pair_coordinates
from invariscope.cores.probe import linear_probe_core
from invariscope.cores.ranks import RankCurve, by_energy, by_gap, by_sufficiency
from invariscope.cores.sketch import SketchError, estimate_sketch_error
from invariscope.cores.stability import Stability, direction_stability
from invariscope.cores.successors import Successors, predicted_successors
from invariscope.cores.sweep_layers import sweep_batches
from invariscope.cores.transplant import Transplant, transplant
from invariscope.cores.validate import Effects, validate_core

__all__ = [
    "ALL_CONTROLS",
    "CONTROLS",
    "LABEL_CONTROLS",
    "Baseline",
    "BehaviourData",
    "CoordinateComparison",
    "Core",
    "CoreAtStep",
    "CoreSeries",
    "Effects",
    "Identification",
    "IdentifiedMap",
    "LayerEffect",
    "LayerFindings",
    "LayerSweep",
    "Metric",
    "Moments",
    "PairCoordinates",
    "Provenance",
    "RankCurve",
    "SketchError",
    "Stability",
    "Successors",
    "SweepSettings",
    "Transplant",
    "accuracy",
    "auc",
    "behaviour_data",
    "by_energy",
    "by_gap",
    "by_sufficiency",
    "change_elsewhere",
    "choice_accuracy",
    "choice_margin",
    "collect_moments",
    "compare_coordinates",
    "compare_pair_coordinates",
    "core_coordinates",
    "cross_entropy",
    "direction_stability",
    "distributed_alignment_search",
    "divergence",
    "estimate_sketch_error",
    "export_steering",
    "extract_core",
    "follow_core",
    "identify_operator",
    "linear_probe_core",
    "load_core",
    "predicted_successors",
    "projector_overlap",
    "rank_curve",
    "read_pair_coordinates",
    "sweep_batches",
    "sweep_behaviour",
    "sweep_layers",
    "transplant",
    "validate_core",
    "weight_cosine",
]
