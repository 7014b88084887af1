"""Figures: plotly descriptions with a table, a caption and an alternative text; they draw given numbers and compute nothing.

One file a kind of figure: a small dataclass of numbers, and a function that returns a :class:`Figure`.
"""

from invariscope.figures.ablation_bars import Ablation, AblationBars, draw_ablation_bars
from invariscope.figures.condition_dots import Condition, ConditionDots, draw_condition_dots
from invariscope.figures.eigenvalues import Box, Eigenvalues, Spectrum, draw_eigenvalues
from invariscope.figures.figure import Figure
from invariscope.figures.rank_curve import RankCurve, RankSeries, draw_rank_curve
from invariscope.figures.similarity_bars import SimilarityBar, SimilarityBars, draw_similarity_bars
from invariscope.figures.training_curves import TrainingCurve, TrainingCurves, draw_training_curves

__all__ = [
    "Ablation",
    "AblationBars",
    "Box",
    "Condition",
    "ConditionDots",
    "Eigenvalues",
    "Figure",
    "RankCurve",
    "RankSeries",
    "SimilarityBar",
    "SimilarityBars",
    "Spectrum",
    "TrainingCurve",
    "TrainingCurves",
    "draw_ablation_bars",
    "draw_condition_dots",
    "draw_eigenvalues",
    "draw_rank_curve",
    "draw_similarity_bars",
    "draw_training_curves",
]
