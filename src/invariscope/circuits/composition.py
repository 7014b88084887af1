"""What the weights alone say: which matrices compose, and what they would do without any sequence.

With OV and QK as in :mod:`invariscope.models.heads`, the circuit of arXiv:2605.31497 reads: layer 1 moves variables with
OV1 both to the numbers that they are assigned and to ``=``; QK2 matches them there, which shows in the block ``(E_var OV1) QK2
(E_var OV1)^T``, largest on its diagonal; OV2 moves the numbers' embeddings, of which MLP2 makes their sum. The first layer
finds a number's own variable by its position, which shows in ``P QK1 P^T``.

Whether one matrix composes with another is measured as by Elhage et al. (2021): the Frobenius norm of the product over the
product of the norms. Two matrices of unrelated directions compose too, by about 1 / sqrt(D): that is the null.

Legend of shapes: D width, V variables, N numbers, k operands.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from invariscope.batch import Batch
from invariscope.circuits.checks import check_model
from invariscope.circuits.forward import CHUNK, answer_logits, merged
from invariscope.errors import ConfigError
from invariscope.estimate import Estimate, Similarity
from invariscope.models import Transformer
from invariscope.models.heads import block_of, query_key, score_scale, value_output
from invariscope.numerics import estimate_mean
from invariscope.numerics.linalg import positive_qr
from invariscope.numerics.resampling import quantile_interval
from invariscope.sites import edit_site, frozen
from invariscope.tasks import AssignAdd

__all__ = [
    "CompositionScores",
    "SumAccuracy",
    "VariableIdentity",
    "composition_scores",
    "ov2_mlp2_accuracy",
    "qk1_number_to_previous",
    "variable_identity",
    "without_mlp2_accuracy",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SumAccuracy:
    """Share of sums that a path through the weights gets right. Every sum is computed, so there is nothing to sample.

    Args:
        every: over all N^k tuples of numbers. seen: over those of training. heldout: over those that training never has.
    """

    every: Estimate
    seen: Estimate
    heldout: Estimate


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VariableIdentity:
    """How layer 2 scores what layer 1 wrote of one variable against what it wrote of another.

    Args:
        scores: ``(E_var OV1) QK2 (E_var OV1)^T``, unscaled, [V, V]: a row is the variable in the sum, a column that of a number.
        scale: what the model divides scores by, sqrt(d).
        argmax_on_diagonal: share of rows whose largest entry is the variable itself; chance 1 / V.
        mean_diagonal, mean_off_diagonal: in units of ``scores``.
    """

    scores: Float[Tensor, "V V"]
    scale: float
    argmax_on_diagonal: Estimate
    mean_diagonal: float
    mean_off_diagonal: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositionScores:
    """How much of what the head of layer 1 writes the head of layer 2 reads.

    Args:
        query: ``|OV1 QK2| / (|OV1| |QK2|)``. key: ``|QK2 OV1^T| / (|QK2| |OV1|)``. value: ``|OV1 OV2| / (|OV1| |OV2|)``.
            Each with the same of matrices of equal singular values whose directions are unrelated.
    """

    query: Similarity
    key: Similarity
    value: Similarity


def ov2_mlp2_accuracy(model: Transformer, task: AssignAdd, *, mlp: bool = True) -> SumAccuracy:
    """Accuracy of ``x + MLP2(x)`` with ``x = sum_i E[n_i] OV2``, unembedded: what perfect routing would make of the numbers.

    Args:
        model, task: of one head a layer, without norms.
        mlp: False leaves out MLP2: the unembedding then reads x itself.

    Raises:
        ConfigError: for a model that does not fit.
    """
    check_model(model, task, one_head=True, linear=True, mlp=True)
    with frozen(model), torch.no_grad():
        moved = model.token_embedding[: task.modulus].double() @ value_output(model, 1)
        moved = moved.to(model.token_embedding.dtype)
        right = torch.cat([_is_right(model, moved, start, task.num_operands, mlp) for start in range(task.modulus)]).cpu()
    seen = task.seen.flatten()
    # The chance level of a constant answer: the most frequent sum among those that count.
    operands = torch.cartesian_prod(*[torch.arange(task.modulus)] * task.num_operands).view(len(seen), -1)
    sums = operands.sum(1) % task.modulus

    def share(mask: Tensor) -> Estimate:
        num = int(mask.sum())
        chance = float(torch.bincount(sums[mask]).max()) / num
        return Estimate(value=float(right[mask].double().mean()), num=num, unit="share", method="every sum", chance=chance)

    return SumAccuracy(every=share(torch.ones_like(seen)), seen=share(seen), heldout=share(~seen))


def _is_right(model: Transformer, moved: Float[Tensor, "N D"], first: int, num_operands: int, mlp: bool) -> Tensor:
    """Whether each sum of ``first`` and other numbers comes out right, in the order of a row-major table."""
    modulus = len(moved)
    x, sums = moved[first][None], torch.tensor([first], device=moved.device)
    for _ in range(num_operands - 1):
        x = (x[:, None] + moved).flatten(0, 1)
        sums = (sums[:, None] + torch.arange(modulus, device=moved.device)).flatten()
    block = block_of(model, 1)
    right = []
    for part in x.split(CHUNK):
        if mlp:
            part = part + block.mlp_output(block.activation(block.mlp_input(part)))
        right.append(model.unembedding(part).argmax(1))
    return torch.cat(right) == sums % modulus


def without_mlp2_accuracy(
    model: Transformer, task: AssignAdd, batches: Iterable[Batch], *, generator: torch.Generator
) -> Estimate:
    """Accuracy of the whole model when MLP2 adds nothing at ``=``; chance: the most frequent answer of these sequences.

    Args:
        model, task: with an MLP in the second layer.
        batches: sequences of the task. generator: of the bootstrap.

    Raises:
        ConfigError: for a model that does not fit the task, or has no such MLP.
    """
    check_model(model, task, mlp=True)
    batch = merged(batches)
    assert batch.targets is not None
    given = []
    with frozen(model), torch.no_grad(), edit_site(model, "blocks.1.mlp_out", torch.zeros_like, positions="last"):
        for part in batch.inputs["tokens"].to(model.token_embedding.device).split(CHUNK):
            given.append(answer_logits(model, part).argmax(1).cpu())
    targets = batch.targets[:, 0]
    return estimate_mean(
        (torch.cat(given) == targets).double(),
        generator=generator,
        groups=batch.groups,
        unit="share",
        chance=float(torch.bincount(targets).max()) / len(targets),
    )


def qk1_number_to_previous(model: Transformer, task: AssignAdd) -> Estimate:
    """Share of places of assigned numbers whose position, by layer 1 alone, prefers the place of their own variable.

    ``P QK1 P^T`` over the prefix, a row per place t where an assigned number can stand. Masked are t, later places and those
    where no variable can stand: in the ``paper`` layout that is t - 2, the number of the assignment before, as in
    arXiv:2605.31497; in ``presentation``, whose own variable is at t - 2, it is t - 1 and t - 3 to t - 5. Right where the
    largest score is at t - ``own_variable_offset``. Chance: 1 / places left.

    Raises:
        ConfigError: for a model that does not fit, or without position embeddings.
    """
    check_model(model, task, one_head=True, linear=True)
    if model.config.positions != "learned":
        raise ConfigError(f"positions {model.config.positions!r}", expected="learned position embeddings", do="skip this measure")
    offset, length = task.own_variable_offset, task.prefix_length
    with torch.no_grad():
        positions = model.position_embedding[:length].double()
        scores = (positions @ query_key(model, 0) @ positions.T).cpu()
    queries = torch.arange(offset, length - task.assignment_length + offset + 1)
    distance = queries[:, None] - torch.arange(length)
    # The assignment before ends where this one begins.
    allowed = (distance == offset) | (distance >= offset + task.assignment_length)
    best = scores[queries].masked_fill(~allowed, -math.inf).argmax(1)
    return Estimate(
        value=float((best == queries - offset).double().mean()),
        num=len(queries),
        unit="share",
        method="every place",
        chance=float((1 / allowed.sum(1).double()).mean()),
    )


def variable_identity(model: Transformer, task: AssignAdd) -> VariableIdentity:
    """The block of layer-2 scores between variables that layer 1 moved, and how much of it is its diagonal.

    Raises:
        ConfigError: for a model that does not fit, has several heads or norms, or a task of one variable.
    """
    check_model(model, task, one_head=True, linear=True)
    num = task.num_variables
    if num < 2:
        raise ConfigError("a task of one variable", expected="at least two", do="raise num_variables")
    with torch.no_grad():
        written = model.token_embedding[task.variable_tokens.to(model.token_embedding.device)].double() @ value_output(model, 0)
        scores = (written @ query_key(model, 1) @ written.T).cpu()
    diagonal = scores.diagonal()
    return VariableIdentity(
        scores=scores,
        scale=score_scale(model, 1),
        argmax_on_diagonal=Estimate(
            value=float((scores.argmax(1) == torch.arange(num)).double().mean()),
            num=num,
            unit="share",
            method="every variable",
            chance=1 / num,
        ),
        mean_diagonal=float(diagonal.mean()),
        mean_off_diagonal=float((scores.sum() - diagonal.sum()) / (num * (num - 1))),
    )


def composition_scores(model: Transformer, *, generator: torch.Generator, num_draws: int = 50) -> CompositionScores:
    """Q-, K- and V-composition of the heads of layers 1 and 2.

    The null turns the output of OV1 by a random rotation, which leaves both matrices' singular values as they are.

    Args:
        model: of two layers of one head.
        generator: of the rotations. num_draws: how many.

    Raises:
        ConfigError: for several heads, another number of layers, or no draw.
    """
    if model.config.num_layers != 2 or num_draws < 1:
        raise ConfigError(
            f"{model.config.num_layers} layers and {num_draws} draws", expected="two layers, at least one draw", do="correct it"
        )
    ov1, ov2, qk2 = value_output(model, 0), value_output(model, 1), query_key(model, 1)
    width = len(ov1)
    noise = (torch.randn(width, width, generator=generator, dtype=torch.float64) for _ in range(num_draws))
    turns = [positive_qr(x)[0].to(ov1.device) for x in noise]

    def score(reader: Float[Tensor, "D D"], name: str) -> Similarity:
        sizes = float(torch.linalg.matrix_norm(ov1) * torch.linalg.matrix_norm(reader))
        # Weights of zero compose with nothing.
        found = [float(torch.linalg.matrix_norm(product)) / sizes if sizes else 0.0 for product in _products(ov1, turns, reader)]
        null = torch.tensor(found[1:], dtype=torch.float64)
        low, high = quantile_interval(null, 0.95)
        return Similarity(
            name=f"{name}-composition",
            value=found[0],
            null_mean=float(null.mean()),
            null_low=low,
            null_high=high,
            dims=(width, width),
            rank=width,
            num_permutations=num_draws,
        )

    return CompositionScores(query=score(qk2, "Q"), key=score(qk2.T, "K"), value=score(ov2, "V"))


def _products(writer: Tensor, turns: list[Tensor], reader: Tensor) -> Iterable[Tensor]:
    yield writer @ reader
    for turn in turns:
        yield writer @ turn @ reader
