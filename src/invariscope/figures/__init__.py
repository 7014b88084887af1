"""Figures: plotly descriptions with a table, a caption and an alternative text; they draw given numbers and compute nothing.

One file a kind of figure: a small dataclass of numbers, and a function that returns a :class:`Figure`.
"""

from invariscope.figures.ablation_bars import Ablation, AblationBars, draw_ablation_bars
from invariscope.figures.accuracy_curves import AccuracyCurve, AccuracyCurves, draw_accuracy_curves
from invariscope.figures.condition_dots import Condition, ConditionDots, draw_condition_dots
from invariscope.figures.coordinate_scatter import CoordinateScatter, ScatterPoints, draw_coordinate_scatter
from invariscope.figures.core_over_training import CoreMoment, CoreOverTraining, draw_core_over_training
from invariscope.figures.eigenvalues import Box, Eigenvalues, Spectrum, draw_eigenvalues
from invariscope.figures.figure import Figure
from invariscope.figures.follow_curves import FollowCurve, FollowCurves, draw_follow_curves
from invariscope.figures.frames import Frame
from invariscope.figures.heat_map import HeatMap, HeatMaps, draw_heat_maps
from invariscope.figures.layer_curves import LayerCurve, LayerCurves, draw_layer_curves
from invariscope.figures.margin_histogram import MarginBars, MarginHistogram, draw_margin_histogram
from invariscope.figures.rank_curve import RankCurves, RankSeries, draw_rank_curve
from invariscope.figures.scaling_laws import ScalingLaw, ScalingLaws, draw_scaling_laws
from invariscope.figures.similarity_bars import SimilarityBar, SimilarityBars, draw_similarity_bars
from invariscope.figures.simplex import Simplex, SimplexPoints, draw_simplex
from invariscope.figures.training_curves import TrainingCurve, TrainingCurves, draw_training_curves
from invariscope.figures.value_histogram import ValueBars, ValueHistogram, draw_value_histogram

__all__ = [
    "Ablation",
    "AblationBars",
    "AccuracyCurve",
    "AccuracyCurves",
    "Box",
    "Condition",
    "ConditionDots",
    "CoordinateScatter",
    "CoreMoment",
    "CoreOverTraining",
    "Eigenvalues",
    "Figure",
    "FollowCurve",
    "FollowCurves",
    "Frame",
    "HeatMap",
    "HeatMaps",
    "LayerCurve",
    "LayerCurves",
    "MarginBars",
    "MarginHistogram",
    "RankCurves",
    "RankSeries",
    "ScalingLaw",
    "ScalingLaws",
    "ScatterPoints",
    "SimilarityBar",
    "SimilarityBars",
    "Simplex",
    "SimplexPoints",
    "Spectrum",
    "TrainingCurve",
    "TrainingCurves",
    "ValueBars",
    "ValueHistogram",
    "draw_ablation_bars",
    "draw_accuracy_curves",
    "draw_condition_dots",
    "draw_coordinate_scatter",
    "draw_core_over_training",
    "draw_eigenvalues",
    "draw_follow_curves",
    "draw_heat_maps",
    "draw_layer_curves",
    "draw_margin_histogram",
    "draw_rank_curve",
    "draw_scaling_laws",
    "draw_similarity_bars",
    "draw_simplex",
    "draw_training_curves",
    "draw_value_histogram",
]
