"""What a sweep of one language model leaves behind: the sweep, and a closer look at one layer. All of it JSON."""

from __future__ import annotations

from dataclasses import dataclass

from invariscope.cores.layer_sweep import LayerSweep
from invariscope.cores.stability import Stability
from invariscope.estimate import Estimate

__all__ = ["Histogram", "LayerDetail", "ModelFindings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Margins of the held-out prompts of one class under one edit.

    Args:
        edit: ``full``, ``keep``, ``remove`` or ``flip``. label: name of the class.
        counts: prompts a bin.
    """

    edit: str
    label: str
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerDetail:
    """One layer, the core of the first projection and rank.

    Args:
        layer, projection, rank: which.
        edges: of the bins, logits; one more than counts.
        histograms: by edit and class.
        points: of every held-out prompt its first coordinate, its margin, and the name of its class.
        stability: of the directions; None for too few groups.
    """

    layer: int
    projection: str
    rank: int
    edges: tuple[float, ...]
    histograms: tuple[Histogram, ...]
    points: tuple[tuple[float, float, str], ...]
    stability: Stability | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFindings:
    """One model.

    Args:
        name: of the model. facts: source, licence, tokens at the start and so on, as text.
        deviation: largest relative deviation of our reads from plain Hugging Face; None where it was not verified.
        tolerance: that it is held against.
        sweep: over its layers.
        detail: of the layer that the rule chose, or the first that claims are judged at; None where there is neither.
        notes: what was done to the prompts.
    """

    name: str
    facts: dict[str, str]
    deviation: float | None
    tolerance: float | None
    sweep: LayerSweep
    detail: LayerDetail | None
    notes: tuple[str, ...] = ()

    def score(self, layer: int, edit: str, *, name: str = "core", projection: str = "oblique") -> Estimate:
        """The area under the curve of one effect, or its accuracy where there is none."""
        return self.sweep.effect(layer, edit, name=name, projection=projection).score
