"""What a sweep over the layers of a language model has found: one effect a core, edit and layer, and how to read them.

Every effect is measured on held-out prompts under one edit at one layer: accuracy, mean margin, area under the curve, the same
for margins that the core was *not* extracted from (transfer), and how much the rest of the prediction changes (specificity). A
core of a scalar margin at a late layer keeps, removes and flips its own margin almost by algebra; what can fail is transfer,
specificity, and the rows of the controls (:mod:`invariscope.cores.sweep_layers`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from invariscope.errors import ConfigError, unknown_name
from invariscope.estimate import Estimate, html_table

__all__ = ["ONSET_SHARE", "LayerEffect", "LayerFindings", "LayerSweep", "choose_layer"]

ONSET_SHARE = 0.95
"""A layer is a candidate once the core's directions carry this share of the sum of squared singular values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerEffect:
    """One edit at one layer.

    Args:
        layer: of the model, from 0; the site is what block ``layer`` puts out.
        name: ``model`` (edit ``full``), ``core``, or a control.
        projection: of a core; empty for others. rank: of the subspace.
        edit: ``full``, ``keep``, ``remove`` or ``flip``.
        accuracy, margin, auc: of the behaviour; auc is None without labels of two classes.
        transfers: area under the curve of other margins, in the order of :attr:`LayerSweep.transfers`.
        elsewhere: divergence over the other tokens at the edited position, nats; None for controls.
        unrelated: divergence of the prediction after unrelated text, nats; None for controls.
        whole_answers: accuracy by the summed log-probability of answers of several tokens; None where each is one token, and for
            controls.
    """

    layer: int
    name: str
    projection: str
    rank: int
    edit: str
    accuracy: Estimate
    margin: Estimate
    auc: Estimate | None
    transfers: tuple[Estimate, ...] = ()
    elsewhere: Estimate | None = None
    unrelated: Estimate | None = None
    whole_answers: Estimate | None = None

    @property
    def score(self) -> Estimate:
        """The area under the curve; the accuracy where there is none."""
        return self.accuracy if self.auc is None else self.auc


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFindings:
    """One layer.

    Args:
        layer, site: which.
        share: of the sum of squared singular values that the core's directions carry, by rank of the sweep.
        r2: hold-out R² of the margin on the coordinate, by projection, at the first rank; empty for too few groups of prompts.
        within: the same after each label's mean is taken out of both; empty where there are no labels.
        effects: every one that was measured here.
    """

    layer: int
    site: str
    share: tuple[float, ...]
    r2: dict[str, Estimate]
    within: dict[str, Estimate]
    effects: tuple[LayerEffect, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSweep:
    """A sweep over layers.

    Args:
        model: its name. behaviour: the prompts' name. objective: whose cores.
        positions: at which tokens edits act.
        num_extraction, num_heldout: prompts.
        projections, ranks: that were tried.
        transfers: names of the margins that no core was extracted from.
        layers: the findings, by layer.
        chosen: the layer that the rule takes; None where no layer reaches the share. rule: in words.
    """

    model: str
    behaviour: str
    objective: str
    positions: str | int
    num_extraction: int
    num_heldout: int
    projections: tuple[str, ...]
    ranks: tuple[int, ...]
    transfers: tuple[str, ...]
    layers: tuple[LayerFindings, ...]
    chosen: int | None
    rule: str

    def at(self, layer: int) -> LayerFindings:
        """The findings of one layer.

        Raises:
            ConfigError: for a layer that was not swept.
        """
        for found in self.layers:
            if found.layer == layer:
                return found
        raise ConfigError(
            f"layer {layer}", expected=f"one of {[found.layer for found in self.layers]}", do="sweep it, or choose one of these"
        )

    def effect(
        self, layer: int, edit: str, *, name: str = "core", projection: str = "oblique", rank: int | None = None
    ) -> LayerEffect:
        """One effect.

        Raises:
            ConfigError: for a layer that was not swept. UnknownNameError: for an effect that was not measured.
        """
        rank = self.ranks[0] if rank is None else rank
        wanted = _key(name, projection if name == "core" else "", rank, edit)
        effects = self.at(layer).effects
        for one in effects:
            if _key(one.name, one.projection, one.rank, one.edit) == wanted:
                return one
        raise unknown_name("effect", wanted, [_key(one.name, one.projection, one.rank, one.edit) for one in effects])

    @property
    def columns(self) -> tuple[str, ...]:
        """Headings of :meth:`cells`."""
        shared = ("layer", "of", "projection", "rank", "edit", "accuracy", "AUC", "margin")
        whole = ("whole answers",) if self.has_whole_answers else ()
        return (*shared, *(f"AUC {name}" for name in self.transfers), "elsewhere", "unrelated", *whole)

    @property
    def has_whole_answers(self) -> bool:
        """Whether answers of several tokens were scored whole."""
        return any(one.whole_answers is not None for found in self.layers for one in found.effects)

    def cells(self) -> list[list[str]]:
        """Every effect as text, one list each; a dash where there is no value."""
        rows = []
        for one in (effect for found in self.layers for effect in found.effects):
            numbers = (
                one.accuracy,
                one.auc,
                one.margin,
                *_padded(one.transfers, len(self.transfers)),
                one.elsewhere,
                one.unrelated,
                *((one.whole_answers,) if self.has_whole_answers else ()),
            )
            rows.append([str(one.layer), one.name, one.projection or "-", str(one.rank), one.edit, *map(_text, numbers)])
        return rows

    def table(self) -> str:
        """The sweep as text: what was swept, then one line an effect."""
        lines = [list(self.columns), *self.cells()]
        widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
        text = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)
        return "\n".join([self.summary(), *text])

    def summary(self) -> str:
        """What was swept and which layer the rule takes, in one line."""
        chosen = "no layer" if self.chosen is None else f"layer {self.chosen}"
        return (
            f"{self.behaviour} in {self.model}: {self.objective}, edits at {self.positions}, {self.num_extraction} prompts to "
            f"extract from and {self.num_heldout} held out; {self.rule}: {chosen}"
        )

    def _repr_html_(self) -> str:
        return html_table(self.summary(), self.cells(), headings=self.columns)


def _key(name: str, projection: str, rank: int, edit: str) -> str:
    return "/".join((name, *([projection] if projection else []), str(rank), edit))


def _padded(found: tuple[Estimate, ...], num: int) -> tuple[Estimate | None, ...]:
    return (*found, *([None] * (num - len(found))))


def _text(found: Estimate | None) -> str:
    if found is None:
        return "-"
    interval = "" if found.low is None or found.high is None else f" [{found.low:.3g}, {found.high:.3g}]"
    return f"{found.value:.3g}{interval}"


def choose_layer(shares: Iterable[tuple[int, float]], *, onset: float = ONSET_SHARE) -> tuple[int | None, str]:
    """The layer that a core is taken from, by a rule that sees no held-out prompt, and the rule in words.

    It is the first layer from which on the core's directions carry at least ``onset`` of Σ σ² in every later swept layer. Before
    it later attention re-reads the prompt and an edit at the last token does not invert the answer.

    >>> choose_layer([(3, 0.2), (4, 0.97), (5, 0.9), (6, 0.98), (7, 0.99)])[0]
    6
    """
    rule = f"first layer from which on the core carries {onset:g} of the squared singular values"
    chosen = None
    for layer, share in sorted(shares, reverse=True):
        if share < onset:
            break
        chosen = layer
    return chosen, rule
