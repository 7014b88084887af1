"""Every number that the study measures, as records that cross between processes and are turned into claims and figures."""

from __future__ import annotations

from dataclasses import dataclass

from invariscope.cores import CoreSeries, RankCurve
from invariscope.cores.validate import EffectRow
from invariscope.estimate import Estimate, Similarity

__all__ = [
    "BeliefFindings",
    "Findings",
    "FollowFindings",
    "ModelFindings",
    "PairFindings",
    "PaperFindings",
    "PaperPairFindings",
    "SiteFindings",
    "SizeFindings",
    "SpectrumControl",
    "SpectrumFindings",
    "TransplantFindings",
    "UntrainedFindings",
    "WrittenFindings",
]

Eigenvalue = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteFindings:
    """One model at one site.

    Args:
        rank: of the cores tested: the dimensions in which the chain moves.
        singular_values: the leading ones of H Jᵀ, over the largest.
        energy_99, energy_999, gap: what the rules that look at them say.
        curve: the oblique core, exact cross-entropy.
        sufficient, necessary: by the causal 2 % rule; None where no rank of the curve is.
        keep_change: exact cross-entropy under keep minus that of the unedited model, paired, by projection.
        removed: share of the way from the unedited model to the stationary law that removing the oblique core goes.
        effects: the oblique core, and after attention its controls.
    """

    site: str
    rank: int
    singular_values: tuple[float, ...]
    energy_99: int
    energy_999: int
    gap: int
    curve: RankCurve
    sufficient: int | None
    necessary: int | None
    keep_change: dict[str, Estimate]
    removed: Estimate
    effects: tuple[EffectRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpectrumControl:
    """The operator fitted in something that should not know the chain.

    Args:
        name: ``untrained`` (the twin's core), ``random`` (subspaces of this model) or ``pca``.
        errors: largest distance to the chain's eigenvalues, one a draw. eigenvalues: of the first draw.
    """

    name: str
    errors: tuple[float, ...]
    eigenvalues: tuple[Eigenvalue, ...]

    @property
    def error(self) -> float:
        """Mean over draws."""
        return sum(self.errors) / len(self.errors)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpectrumFindings:
    """The operator in one model's adjoint core at resid_mid.

    Args:
        coordinates: what the claim is judged on: ``core`` (least squares on z) or ``law`` (on the law read from the core).
        expected: the chain's eigenvalues of largest modulus, as many as the core has dimensions, (real, imaginary).
        eigenvalues: fitted. intervals: (real low, real high, imaginary low, imaginary high) of each.
        error: largest distance to the chain's eigenvalues.
        core_error: the same by least squares on z, whatever the claim is judged on.
        counts_error: the same of the transition counts of the same sequences: what sampling alone costs.
        r2_heldout: of the fit. null_r2: the largest over shuffled pairs.
        controls: the same measurement on nulls.
    """

    coordinates: str
    expected: tuple[Eigenvalue, ...]
    eigenvalues: tuple[Eigenvalue, ...]
    intervals: tuple[tuple[float, float, float, float], ...]
    error: Estimate
    core_error: Estimate
    counts_error: float
    r2_heldout: Estimate
    null_r2: float | None
    controls: tuple[SpectrumControl, ...]

    def control(self, name: str) -> SpectrumControl:
        """The control called ``name``."""
        return next(control for control in self.controls if control.name == name)


@dataclass(frozen=True, slots=True, kw_only=True)
class UntrainedFindings:
    """The untrained twin of a model. It is not better than chance, so causal rank rules do not apply to it.

    Args:
        divergence: from the exact law, nats.
        energy_99, energy_999: what the energy rules say after attention.
        final_norm_change: exact cross-entropy under keep of the oblique core before the unembedding, minus the unedited, nats.
    """

    divergence: Estimate
    energy_99: int
    energy_999: int
    final_norm_change: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFindings:
    """One trained model, and its untrained twin.

    Args:
        divergence: from the exact law, nats. chance: that of the best constant answer.
        resid_mid: after attention. final_norm: before the unembedding.
        spectrum: None in the rank-2 arm, whose spectrum is no claim.
        steps, curve: evaluations over training, divergence in nats.
        fitted: what fitted subspaces took, the core beside them; empty but for the first seed of an arm.
    """

    arm: str
    seed: int
    divergence: Estimate
    chance: float
    resid_mid: SiteFindings
    final_norm: SiteFindings
    spectrum: SpectrumFindings | None
    steps: tuple[int, ...]
    curve: tuple[float, ...]
    untrained: UntrainedFindings
    fitted: tuple[FittedFindings, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedFindings:
    """What a subspace took, the core's among them.

    Args:
        forward, backward: passes of one sequence through the model.
        score: of the fit by its own measure: for DAS its loss in nats, for the probe its hold-out accuracy; None for the core.
    """

    name: str
    forward: int
    backward: int
    score: Estimate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransplantFindings:
    """Core coordinates of seed a carried into seed b, oblique cores at resid_mid, donor inputs; exact cross-entropy in nats.

    On the arms of the 12-state chains, and on hidden chains by their names.

    Args:
        base, ceiling, donor, recipient, shuffled, cost, r2: as in :class:`invariscope.cores.Transplant`.
        untrained: the same from the untrained twin of a. random: from a random subspace of a into the core of b.
        random_pair: from a random subspace of a into one of b. pca: from the principal components of a into those of b.
        smaller: cores of one direction fewer. final_norm, final_norm_pca: cores and principal components before the unembedding.
    """

    arm: str
    seeds: tuple[int, int]
    base: Estimate
    ceiling: Estimate
    donor: Estimate
    recipient: Estimate
    shuffled: Estimate
    cost: Estimate
    r2: Estimate
    untrained: Estimate
    random: Estimate
    random_pair: Estimate
    pca: Estimate
    smaller: Estimate
    final_norm: Estimate
    final_norm_pca: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFindings:
    """Two seeds of one arm, adjoint cores at resid_mid, the same held-out inputs.

    Args:
        cca: of the two trained cores. untrained: of the untrained twins' cores. mixed: trained against untrained.
        random: random subspaces of the two trained models.
        within, within_untrained: cca after each row's group mean is taken out; None where states have no groups.
        overlap: of the projectors. weight_cosine: of the weight matrices. untrained_cosine: of the twins'.
        transplants: in both directions; empty but between neighbouring seeds of the 12-state arms.
    """

    arm: str
    seeds: tuple[int, int]
    cca: Similarity
    untrained: Similarity
    mixed: Similarity
    random: Similarity
    within: Similarity | None
    within_untrained: Similarity | None
    overlap: Similarity
    weight_cosine: float
    untrained_cosine: float
    transplants: tuple[TransplantFindings, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeFindings:
    """One size of model on the 12-state chain, after the last attention.

    Args:
        width, num_heads, num_layers: of the model.
        sufficient, necessary: by the causal 2 % rule; None where no rank up to ``scanned`` is.
        energy_99, energy_999: what the energy rules say.
        divergence: from the exact law, nats.
    """

    width: int
    num_heads: int
    num_layers: int
    sufficient: int | None
    necessary: int | None
    scanned: int
    energy_99: int
    energy_999: int
    divergence: Estimate

    @property
    def title(self) -> str:
        """In words."""
        heads = f"{self.num_heads} head{'s' if self.num_heads > 1 else ''}"
        return f"width {self.width}, {heads}, {self.num_layers} layer{'s' if self.num_layers > 1 else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFindings:
    """Exact cross-entropy, nats, when only the core is left after the last attention.

    Args:
        own: with the model's own coordinates. optimum: the exact law's.
        belief: with coordinates that are an affine function of the exact belief. cost: that minus ``own``, paired.
        last_token: with an affine function of the last token. random: the belief in a random subspace.
        untrained: the belief in the core of the untrained twin.
    """

    own: Estimate
    optimum: Estimate
    belief: Estimate
    cost: Estimate
    last_token: Estimate
    random: Estimate
    untrained: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class BeliefFindings:
    """One model of a hidden chain, rank-2 adjoint cores; R² are hold-out, of the exact belief, from the fourth token on.

    Args:
        divergence: from the exact law, nats.
        resid_mid, final_norm: R² from the core after the last attention and before the unembedding.
        untrained_resid_mid, untrained_final_norm: from the untrained twin's.
        last_two_tokens: from the joint code of the last two tokens.
        residual, residual_without_core, untrained_residual: from all of the residual stream after the last attention, from what
            is orthogonal to the core, and from all of the twin's: no evidence for anything.
        written: what predictions are worth when the core is written.
        points: first two shares of the exact belief and of the one read from the core, for some held-out tokens.
    """

    chain: str
    seed: int
    divergence: Estimate
    resid_mid: Estimate
    final_norm: Estimate
    untrained_resid_mid: Estimate
    untrained_final_norm: Estimate
    last_two_tokens: Estimate
    residual: Estimate
    residual_without_core: Estimate
    untrained_residual: Estimate
    written: WrittenFindings
    points: tuple[tuple[float, float, float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperFindings:
    """One model of the paper's setting, activation-side core of rank 3 at the layer's output.

    Args:
        energy_999: rank by .999 of the energy. untrained_energy_999: of the untrained twin.
        keep: accuracy under keep minus that of the unedited model, paired. remove: accuracy under remove, with its chance.
        eigenvalues, intervals: of the operator, as in :class:`SpectrumFindings`.
        pair_error, real_error: distance to the complex pair and to the real eigenvalue.
        untrained_eigenvalues, untrained_pair_error, untrained_real_error: the same of the twin.
        random_pair_error, random_real_error: of a random subspace of the trained model. pca_pair_error: of its principal
            components.
    """

    seed: int
    energy_999: int
    untrained_energy_999: int
    keep: Estimate
    remove: Estimate
    eigenvalues: tuple[Eigenvalue, ...]
    intervals: tuple[tuple[float, float, float, float], ...]
    pair_error: Estimate
    real_error: Estimate
    untrained_eigenvalues: tuple[Eigenvalue, ...]
    untrained_pair_error: float
    untrained_real_error: float
    random_pair_error: float
    random_real_error: float
    pca_pair_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperPairFindings:
    """Two models of the paper's setting on the same held-out inputs."""

    seeds: tuple[int, int]
    cca: Similarity
    untrained: Similarity
    overlap: Similarity
    weight_cosine: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowFindings:
    """One model's core at checkpoints over its training; the cores have the rank of the chain."""

    arm: str
    seed: int
    series: CoreSeries


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The whole study; a part is empty where the preset leaves it out."""

    models: tuple[ModelFindings, ...] = ()
    pairs: tuple[PairFindings, ...] = ()
    followed: tuple[FollowFindings, ...] = ()
    sizes: tuple[SizeFindings, ...] = ()
    beliefs: tuple[BeliefFindings, ...] = ()
    hidden_transplants: tuple[TransplantFindings, ...] = ()
    paper: tuple[PaperFindings, ...] = ()
    paper_pairs: tuple[PaperPairFindings, ...] = ()

    @property
    def transplants(self) -> tuple[TransplantFindings, ...]:
        """Those of every pair."""
        return tuple(found for pair in self.pairs for found in pair.transplants)

    def of(self, *arms: str) -> list[ModelFindings]:
        """The models of some arms, in order."""
        return [model for model in self.models if model.arm in arms]
