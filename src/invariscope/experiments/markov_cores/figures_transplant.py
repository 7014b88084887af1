"""The figures of transplants: what one seed's model makes of the other's coordinates, beside every control."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from invariscope.estimate import Estimate
from invariscope.experiments.markov_cores.config import Config
from invariscope.experiments.markov_cores.findings import Findings, TransplantFindings
from invariscope.figures import Condition, ConditionDots, Figure, draw_condition_dots

__all__ = ["draw_hidden_transplants", "draw_transplants"]

SHOWN = 2
"""Of each chain, those that cost most."""
ROWS: Mapping[str, tuple[str, bool]] = {
    "base": ("the model itself (base)", True),
    "ceiling": ("own core coordinates (ceiling)", True),
    "donor": ("the other seed's core", True),
    "smaller": ("cores of one direction fewer", False),
    "pca": ("PCA into PCA", False),
    "random": ("random subspace into core", False),
    "untrained": ("untrained model's core", False),
    "shuffled": ("map fitted on shuffled pairs", False),
    "random_pair": ("random into random", False),
    "recipient": ("scored by the recipient's law", False),
    "final_norm": ("before the unembedding: core", False),
    "final_norm_pca": ("before the unembedding: PCA", False),
}
"""By field of the findings: how a row is called, and whether it is a treatment or a bound."""


def draw_transplants(config: Config, findings: Findings) -> Figure:
    """On the chains whose states are seen."""
    arms = config.arms()
    names = {arm: settings.chain for arm, settings in arms.items()}
    chances = {names[arm]: config.task(arm).chance().cross_entropy for arm in _arms(findings.transplants)}
    return _draw(findings.transplants, names, chances, title="One seed's core runs the other's model", name="transplant")


def draw_hidden_transplants(config: Config, findings: Findings) -> Figure:
    """On the chains whose states are hidden."""
    names = {chain: chain for chain in _arms(findings.hidden_transplants)}
    chances = {chain: config.hidden_task(chain).chance().cross_entropy for chain in names}
    return _draw(
        findings.hidden_transplants,
        names,
        chances,
        title="One seed's belief runs the other's model",
        name="transplant_hidden",
    )


def _arms(found: Sequence[TransplantFindings]) -> list[str]:
    return list(dict.fromkeys(one.arm for one in found))


def _draw(
    found: Sequence[TransplantFindings], names: Mapping[str, str], chances: Mapping[str, float], *, title: str, name: str
) -> Figure:
    shown = _costliest(found)
    dots = [
        _dot(f"{names[one.arm]}: seed {one.seeds[0]} into seed {one.seeds[1]}", label, getattr(one, field), treated)
        for one in shown
        for field, (label, treated) in ROWS.items()
    ]
    return draw_condition_dots(
        ConditionDots(
            dots=tuple(dots),
            references={f"stationary law of {chain}": value for chain, value in chances.items()},
            title=f"{title} (after attention)",
            caption=f"The {len(shown)} of {len(found)} transplants that cost most. "
            "Exact cross-entropy, under the donor's law, of one seed's model on a recipient whose core coordinates were "
            "replaced by the other seed's of a donor, mapped by one affine map fitted on other sequences. Filled: treatment and "
            "bounds; open: controls. One row scores the same run by the recipient's own law: high, as the core carries the "
            "answer. The last two rows do the same before the unembedding, where principal components do what the core does: "
            "that site discriminates nothing. 95\u00a0% bootstrap intervals over sequences are mostly smaller than the symbols.",
        ),
        name=name,
    )


def _dot(panel: str, name: str, value: Estimate, treated: bool) -> Condition:
    return Condition(
        panel=panel, name=name, value=value.value, low=value.low, high=value.high, role="core" if treated else "control"
    )


def _costliest(found: Sequence[TransplantFindings]) -> list[TransplantFindings]:
    shown: list[TransplantFindings] = []
    for arm in _arms(found):
        shown += sorted((one for one in found if one.arm == arm), key=lambda one: -one.cost.value)[:SHOWN]
    return shown
