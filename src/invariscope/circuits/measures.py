"""Every measure of the circuit of one model in one table, each beside what it would be without the circuit.

Cheap enough (about a second) to follow over the checkpoints of a training. Names are those of arXiv:2605.31497 where it has
one; what each means is said by :meth:`CircuitMeasures.rows`, and in full where it is measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from invariscope.circuits.attention import attention_routing
from invariscope.circuits.checks import check_model
from invariscope.circuits.composition import (
    composition_scores,
    ov2_mlp2_accuracy,
    qk1_number_to_previous,
    variable_identity,
    without_mlp2_accuracy,
)
from invariscope.circuits.gradients import LEAST_VARIABLES, GradientCosine, associative_memory
from invariscope.circuits.neurons import enough_neurons, fourier_neurons, neuron_table
from invariscope.circuits.probes import binding_probes
from invariscope.circuits.score_terms import SOURCES, score_decomposition
from invariscope.circuits.shared import SHARED_SITES, shared_computation, version_patching
from invariscope.estimate import Estimate, Similarity
from invariscope.models import Transformer
from invariscope.tasks import AssignAdd

__all__ = ["CircuitMeasures", "MeasureRow", "measure_circuits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRow:
    """One measure, ready for a table.

    Args:
        name: of the field. estimate: its value, with the control as ``chance``.
        text: what it is. control: what the control is.
    """

    name: str
    estimate: Estimate
    text: str
    control: str

    @property
    def value(self) -> float:
        """The measured value."""
        return self.estimate.value

    @property
    def chance(self) -> float | None:
        """What it would be without the circuit."""
        return self.estimate.chance


RANKING = "a head that ranks tokens at random"
ROTATED = "the same matrices, turned at random"
OTHER_SUMS = "pairs of different sums"
CONSTANT = "the best constant answer"
SHUFFLED = "99 % quantile of shuffled blocks"
FREQUENT = "the most frequent answer"
RANDOM_SUMS = "random sums of two functions"
TEXTS: dict[str, tuple[str, str]] = {
    "attn1_equal_to_operands": ("the tokens that '=' attends most in layer 1 are the operands", RANKING),
    "attn2_equal_to_values": ("the tokens that '=' attends most in layer 2 are the numbers to add", RANKING),
    "attn2_equal_among_numbers": ("of the assigned numbers, '=' attends those of the sum's variables most in layer 2", RANKING),
    "number_to_own_variable": ("of the variables before it, a number attends its own most in layer 1", RANKING),
    "number_to_own_weight": ("mean weight of a number on its own variable in layer 1", "even attention"),
    "qk1_number_to_previous": ("by positions alone, places of numbers prefer the place of their variable in layer 1", RANKING),
    "qk2_ov1_variable_identity": (
        "variables that layer 2 scores highest against themselves, as layer 1 writes them",
        "1 / variables",
    ),
    "identity_diagonal": ("mean score of a variable against itself, unscaled", "against the others"),
    "ov2_mlp2_accuracy": ("sums right by OV2, MLP2 and the unembedding alone, over all", CONSTANT),
    "ov2_mlp2_heldout": ("the same over sums that training never has", CONSTANT),
    "ov2_accuracy": ("the same over all sums without MLP2", CONSTANT),
    "without_mlp2_accuracy": ("accuracy of the whole model without MLP2", CONSTANT),
    "query_composition": ("|OV1 QK2| / (|OV1| |QK2|)", ROTATED),
    "key_composition": ("|QK2 OV1^T| / (|QK2| |OV1|)", ROTATED),
    "value_composition": ("|OV1 OV2| / (|OV1| |OV2|)", ROTATED),
    "score_contrast": ("layer-2 score of '=' on right numbers above wrong ones", "0: cannot tell them apart"),
    "score_contrast_attn1": ("the part of it between what layer 1's attention wrote into both", "all other parts together"),
    "shared_residual": ("cosine of a sum of numbers and of variables before MLP2", OTHER_SUMS),
    "shared_pre_activations": ("cosine of their pre-activations in MLP2", OTHER_SUMS),
    "shared_output": ("cosine of what MLP2 adds", OTHER_SUMS),
    "patched_attention": (
        "sums of variables that answer as the sum of numbers whose attention output they were given",
        "1 / modulus",
    ),
    "patched_pre_activations": ("the same with MLP2's pre-activations", "1 / modulus"),
    "frequency_share": ("median share of a neuron's energy on one frequency", RANDOM_SUMS),
    "frequency_share_by_energy": ("mean of that share, weighed by energy", RANDOM_SUMS),
    "frequency_num": ("frequencies with 2 % of the neurons' energy or more", "as many as there are"),
    "amplitude_ratio": ("median ratio of the operands' amplitudes in a neuron", "1: they enter alike"),
    "phase_agreement": ("mean cosine of the output's phase minus the operands'", "0: unrelated phases"),
    "gradient_cosine": ("downhill direction of W_QK2 along the block that matches variables", SHUFFLED),
    "gradient_rebuilt": ("the same where W_QK2 says nothing between variables", SHUFFLED),
    "own_variable_probe_before": ("a number's variable read before layer 1", FREQUENT),
    "own_variable_probe_after": ("a number's variable read after layer 1", FREQUENT),
    "operands_probe_before": ("the set of numbers read at '=' before layer 2", FREQUENT),
    "operands_probe_after": ("the set of numbers read at '=' after layer 2's attention", FREQUENT),
    "sum_probe_before": ("the sum read at '=' before MLP2", FREQUENT),
    "sum_probe_after": ("the sum read at '=' after MLP2", FREQUENT),
}
"""What each measure is, and what its control is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitMeasures:
    """Measures of one model; each has its control as ``chance``.

    None is what was not asked for, and what this model does not have: frequencies of neurons that do not vary with the operands.
    """

    attn1_equal_to_operands: Estimate
    attn2_equal_to_values: Estimate
    attn2_equal_among_numbers: Estimate
    number_to_own_variable: Estimate
    number_to_own_weight: Estimate
    qk1_number_to_previous: Estimate
    qk2_ov1_variable_identity: Estimate
    identity_diagonal: Estimate
    ov2_mlp2_accuracy: Estimate
    ov2_mlp2_heldout: Estimate
    ov2_accuracy: Estimate
    without_mlp2_accuracy: Estimate
    query_composition: Estimate
    key_composition: Estimate
    value_composition: Estimate
    score_contrast: Estimate
    score_contrast_attn1: Estimate
    shared_residual: Estimate
    shared_pre_activations: Estimate
    shared_output: Estimate
    patched_attention: Estimate
    patched_pre_activations: Estimate
    frequency_share: Estimate | None = None
    frequency_share_by_energy: Estimate | None = None
    frequency_num: Estimate | None = None
    amplitude_ratio: Estimate | None = None
    phase_agreement: Estimate | None = None
    gradient_cosine: Estimate | None = None
    gradient_rebuilt: Estimate | None = None
    own_variable_probe_before: Estimate | None = None
    own_variable_probe_after: Estimate | None = None
    operands_probe_before: Estimate | None = None
    operands_probe_after: Estimate | None = None
    sum_probe_before: Estimate | None = None
    sum_probe_after: Estimate | None = None

    def rows(self) -> tuple[MeasureRow, ...]:
        """Every measure that was made, with what it is and what its control is."""
        found = [(name, texts, getattr(self, name)) for name, texts in TEXTS.items()]
        return tuple(
            MeasureRow(name=name, estimate=estimate, text=text, control=control)
            for name, (text, control), estimate in found
            if estimate is not None
        )


def measure_circuits(
    model: Transformer,
    task: AssignAdd,
    generator: torch.Generator,
    *,
    num_sequences: int = 512,
    num_pairs: int = 256,
    num_contexts: int = 1,
    num_shuffles: int = 200,
    probe_sequences: int = 0,
) -> CircuitMeasures:
    """Measure a model of two layers of one head, the second with an MLP, without norms.

    Args:
        model, task: what was trained, on what.
        generator: of everything that is drawn; equal ones measure equal sequences.
        num_sequences: sequences of training behind attention, scores, ablation and gradient.
        num_pairs: sums, each in both versions, of each kind.
        num_contexts: contexts of each sum behind the neurons.
        num_shuffles: shuffled blocks behind the gradient, which needs three variables.
        probe_sequences: sums of variables behind the probes, some thousands; 0: no probes, which take as long as the rest.

    Raises:
        ConfigError: for a model that does not fit the task (every tensor that differs is named), several heads, norms or biases.
        TooFewSamplesError: for too few sequences.
    """
    check_model(model, task, one_head=True, linear=True, mlp=True)
    batches = [task.sample(num_sequences, generator=generator)]
    routing = attention_routing(model, task, batches, generator=generator)
    sums, without = ov2_mlp2_accuracy(model, task), ov2_mlp2_accuracy(model, task, mlp=False)
    identity = variable_identity(model, task)
    composition = composition_scores(model, generator=generator)
    contrast = score_decomposition(model, task, batches, generator=generator).values
    attn1 = SOURCES.index("attn1")
    term = float(contrast.terms[attn1, attn1])
    shared = shared_computation(model, task, generator, num_pairs)
    residual, pre_activations, output = (shared.at(site).mean for site in SHARED_SITES)
    attention, hidden = version_patching(model, task, generator, num_pairs, sites=("blocks.1.attn_out", "blocks.1.mlp_pre"))
    return CircuitMeasures(
        attn1_equal_to_operands=routing.attn1_equal_to_operands.overall,
        attn2_equal_to_values=routing.attn2_equal_to_values.overall,
        attn2_equal_among_numbers=routing.attn2_equal_among_numbers.overall,
        number_to_own_variable=routing.number_to_own_variable.overall,
        number_to_own_weight=routing.number_to_own_weight,
        qk1_number_to_previous=qk1_number_to_previous(model, task),
        qk2_ov1_variable_identity=identity.argmax_on_diagonal,
        identity_diagonal=Estimate(
            value=identity.mean_diagonal, num=task.num_variables, unit="score", chance=identity.mean_off_diagonal
        ),
        ov2_mlp2_accuracy=sums.every,
        ov2_mlp2_heldout=sums.heldout,
        ov2_accuracy=without.every,
        without_mlp2_accuracy=without_mlp2_accuracy(model, task, batches, generator=generator),
        query_composition=_of_similarity(composition.query),
        key_composition=_of_similarity(composition.key),
        value_composition=_of_similarity(composition.value),
        score_contrast=contrast.total,
        score_contrast_attn1=Estimate(
            value=term, num=contrast.total.num, unit=contrast.total.unit, chance=contrast.total.value - term
        ),
        shared_residual=residual,
        shared_pre_activations=pre_activations,
        shared_output=output,
        patched_attention=attention.donor,
        patched_pre_activations=hidden.donor,
        **_neurons(model, task, generator, num_contexts),
        **_gradient(model, task, batches[0], generator, num_shuffles),
        **_probes(model, task, generator, probe_sequences),
    )


def _of_similarity(found: Similarity) -> Estimate:
    method = f"{found.num_permutations} random rotations reach {found.null_high:.4f}"
    return Estimate(value=found.value, num=found.rank, unit="ratio", method=method, chance=found.null_mean)


def _neurons(model: Transformer, task: AssignAdd, generator: torch.Generator, num_contexts: int) -> dict[str, Estimate]:
    table = neuron_table(model, task, generator, num_contexts=num_contexts)
    if not enough_neurons(table):
        return {}
    found = fourier_neurons(model, task, table, generator)

    def estimate(value: float, chance: float, unit: str) -> Estimate:
        return Estimate(value=value, num=found.num_active, unit=unit, chance=chance)

    share = estimate(found.energy_weighted_share, found.median_share.chance or 0.0, "share of energy")
    return {
        "frequency_share": found.median_share,
        "frequency_share_by_energy": share,
        "frequency_num": estimate(len(found.frequencies), task.modulus // 2, "frequencies"),
        "amplitude_ratio": estimate(found.amplitude_ratio, 1.0, "ratio"),
        "phase_agreement": found.phase_agreement,
    }


def _gradient(
    model: Transformer, task: AssignAdd, batch: Any, generator: torch.Generator, num_shuffles: int
) -> dict[str, Estimate]:
    if task.num_variables < LEAST_VARIABLES:
        return {}
    found = associative_memory(model, task, batch, generator, num_shuffles)

    def estimate(cosine: GradientCosine) -> Estimate:
        return Estimate(
            value=cosine.cosine,
            num=batch.num_rows,
            unit="cosine",
            method=f"above {cosine.percentile:.1%} of {num_shuffles} shuffles",
            chance=cosine.null_99,
        )

    return {"gradient_cosine": estimate(found.merged), "gradient_rebuilt": estimate(found.rebuilt)}


def _probes(model: Transformer, task: AssignAdd, generator: torch.Generator, num: int) -> dict[str, Estimate]:
    if not num:
        return {}
    pool = f"{task.num_operands}var-seen"
    found = binding_probes(model, task, [task.sample(num, generator=generator, pool=pool)], generator=generator)
    return {
        "own_variable_probe_before": found.own_variable_before.score,
        "own_variable_probe_after": found.own_variable_after.score,
        "operands_probe_before": found.operands_before.score,
        "operands_probe_after": found.operands_after.score,
        "sum_probe_before": found.sum_before.score,
        "sum_probe_after": found.sum_after.score,
    }
