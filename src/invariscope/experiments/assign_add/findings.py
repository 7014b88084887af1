"""What one trained model leaves behind, as records of plain values: curves, circuits, gradients, cores, pictures."""

from __future__ import annotations

from dataclasses import dataclass

from invariscope.circuits import CircuitMeasures, GradientCosine
from invariscope.estimate import Estimate
from invariscope.experiments.assign_add.cores import CoreFindings

__all__ = [
    "AttentionPicture",
    "CircuitAtStep",
    "Cosines",
    "GradientAtStep",
    "IndependenceFindings",
    "NeuronPicture",
    "PhaseFindings",
    "PhaseSpan",
    "Pictures",
    "PoolAccuracy",
    "SeedFindings",
    "TermsAtStep",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAccuracy:
    """Accuracy of the trained model on one pool: ``trained``, and ``untrained``, its own initial weights."""

    pool: str
    trained: Estimate
    untrained: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosines:
    """Cosines between the constant and the variable version of one sum at one site, and of sums that do not belong together.

    Args:
        site: where. matched, shuffled: means. edges: of the bins of both histograms, one more than counts.
        matched_counts, shuffled_counts: pairs a bin.
    """

    site: str
    matched: Estimate
    shuffled: Estimate
    edges: tuple[float, ...]
    matched_counts: tuple[int, ...]
    shuffled_counts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitAtStep:
    """The cheap measures at one checkpoint, each a share in [0, 1]; names as in :class:`invariscope.circuits.CircuitMeasures`."""

    step: int
    attn1_equal_to_operands: float
    attn2_equal_to_values: float
    number_to_own_variable: float
    qk2_ov1_variable_identity: float
    ov2_mlp2_accuracy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TermsAtStep:
    """What layer 2's score of ``=`` on the right value rests on, by source of the query (rows) and of the key (columns).

    Args:
        step: of the checkpoint. sources: names of rows and columns.
        terms: contrast with the other numbers, one row a query source. total: their sum.
    """

    step: int
    sources: tuple[str, ...]
    terms: tuple[tuple[float, ...], ...]
    total: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientAtStep:
    """How the loss would move the merged query-key matrix of layer 2 at one checkpoint.

    Args:
        step: of the checkpoint. merged: as it is. rebuilt: with what it says between variables taken out.
        query, key: where one of its factors alone is trained.
    """

    step: int
    merged: GradientCosine
    rebuilt: GradientCosine
    query: GradientCosine
    key: GradientCosine


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSpan:
    """One phase: its step with an interval; None where it never came."""

    name: str
    step: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseFindings:
    """The phases of one training.

    Args:
        addition, routing, refinement: when each came.
        in_order: whether all came, in this order.
        jump_size, jump_start, jump_end: the steepest rise of held-out sums with one variable inside a tenth of the training,
            after addition was there; None where it never was.
        addition_in_jump: how much held-out sums of numbers rose meanwhile.
        dips: by pool of forbidden places, how far its accuracy falls after the jump's start; at most 0.
        lags: steps from the change point of a circuit's measure to that of held-out sums with one variable, by measure.
    """

    addition: PhaseSpan
    routing: PhaseSpan
    refinement: PhaseSpan
    in_order: bool
    jump_size: float | None
    jump_start: float | None
    jump_end: float | None
    addition_in_jump: float | None
    dips: dict[str, float]
    lags: dict[str, Estimate]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionPicture:
    """Attention of both layers in one sequence at one checkpoint.

    Args:
        step: of the checkpoint. tokens: what stands at each position.
        first: layer 1, one row a query. last: layer 2 at the final ``=``, one entry a key.
    """

    step: int
    tokens: tuple[str, ...]
    first: tuple[tuple[float, ...], ...]
    last: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NeuronPicture:
    """One neuron's pre-activation over all sums of two numbers (rows: left, columns: right).

    Args:
        neuron: its index. frequency, share: of its best frequency. values: [N][N], rounded.
    """

    neuron: int
    frequency: int
    share: float
    values: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures:
    """What is drawn of the first seed.

    Args:
        attention: one sequence at some checkpoints. cosines: at each site of shared computation.
        identity: layer 2's scores between what layer 1 writes of variables.
        variables: their names. neurons: some with much energy, of different frequencies. terms: at some checkpoints.
    """

    attention: tuple[AttentionPicture, ...]
    cosines: tuple[Cosines, ...]
    variables: tuple[str, ...]
    identity: tuple[tuple[float, ...], ...]
    neurons: tuple[NeuronPicture, ...]
    terms: tuple[TermsAtStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedFindings:
    """One trained model.

    Args:
        seed: its seed. modulus: N. num_steps: of its training.
        steps: of the evaluations. pools: accuracy of each pool at them.
        accuracies: of the trained model, on more sequences.
        circuits: at each checkpoint. gradients: at each checkpoint between addition and the jump's end, and no fewer than five.
        phases: when what came. measures: of the trained model. untrained: of its initial weights.
        cores: None where they were left out. pictures: of the first seed.
    """

    seed: int
    modulus: int
    num_steps: int
    steps: tuple[int, ...]
    pools: dict[str, tuple[float, ...]]
    accuracies: tuple[PoolAccuracy, ...]
    circuits: tuple[CircuitAtStep, ...]
    gradients: tuple[GradientAtStep, ...]
    phases: PhaseFindings
    measures: CircuitMeasures
    untrained: CircuitMeasures
    cores: CoreFindings | None = None
    pictures: Pictures | None = None

    def accuracy(self, pool: str) -> PoolAccuracy:
        """That of the trained model on ``pool``."""
        return next(found for found in self.accuracies if found.pool == pool)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndependenceFindings:
    """Trainings from where addition is there, with parts frozen.

    Args:
        seed: whose model. arm: what was frozen, such as ``nothing`` or ``addition``.
        start: step of the checkpoint that weights were taken from.
        steps: of the evaluations, counted from the start. pools: accuracy of each pool at them.
        reached: step at which held-out sums with one variable reach .9; None: not within the training.
    """

    seed: int
    arm: str
    start: int
    steps: tuple[int, ...]
    pools: dict[str, tuple[float, ...]]
    reached: float | None
