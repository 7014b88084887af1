"""Circuits of Assign and Add: how variable binding composes with addition, measured on weights, activations and gradients."""

from invariscope.circuits.attention import AttentionMaps, AttentionRouting, SplitShare, attention_maps, attention_routing
from invariscope.circuits.checks import check_model
from invariscope.circuits.composition import (
    CompositionScores,
    SumAccuracy,
    VariableIdentity,
    composition_scores,
    ov2_mlp2_accuracy,
    qk1_number_to_previous,
    variable_identity,
    without_mlp2_accuracy,
)
from invariscope.circuits.gradients import AssociativeMemory, GradientCosine, associative_memory, merged_gradient
from invariscope.circuits.measures import CircuitMeasures, MeasureRow, measure_circuits
from invariscope.circuits.neurons import FourierNeurons, fourier_neurons, neuron_table
from invariscope.circuits.phases import Curves, Phase, Phases, circuit_lag, find_phases, pool_curves
from invariscope.circuits.probes import BindingProbes, binding_probes
from invariscope.circuits.score_terms import SOURCES, ScoreContrast, ScoreDecomposition, score_decomposition, score_terms
from invariscope.circuits.shared import (
    SHARED_SITES,
    PairCosines,
    SharedComputation,
    VersionPatching,
    shared_computation,
    version_patching,
)

__all__ = [
    "SHARED_SITES",
    "SOURCES",
    "AssociativeMemory",
    "AttentionMaps",
    "AttentionRouting",
    "BindingProbes",
    "CircuitMeasures",
    "CompositionScores",
    "Curves",
    "FourierNeurons",
    "GradientCosine",
    "MeasureRow",
    "PairCosines",
    "Phase",
    "Phases",
    "ScoreContrast",
    "ScoreDecomposition",
    "SharedComputation",
    "SplitShare",
    "SumAccuracy",
    "VariableIdentity",
    "VersionPatching",
    "associative_memory",
    "attention_maps",
    "attention_routing",
    "binding_probes",
    "check_model",
    "circuit_lag",
    "composition_scores",
    "find_phases",
    "fourier_neurons",
    "measure_circuits",
    "merged_gradient",
    "neuron_table",
    "ov2_mlp2_accuracy",
    "pool_curves",
    "qk1_number_to_previous",
    "score_decomposition",
    "score_terms",
    "shared_computation",
    "variable_identity",
    "version_patching",
    "without_mlp2_accuracy",
]
