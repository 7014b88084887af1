"""Does the gradient build the associative memory? The loss's pull on W_QK2 against the block that matches variables.

The theory of arXiv:2605.31497: once layer 1 writes the variable of the sum into ``=`` and that of each assignment into its
number, the loss falls along ``sum_v (OV1 e_v)(OV1 e_v)^T``, the block by which layer 2 matches equal variables. So the negative
gradient with respect to the *merged* W_QK2 = W_Q W_K^T should point along that block.

That the cosine is merely positive would say little. In D^2 dimensions unrelated matrices have cosines of sd 1 / D (.008 at D =
128), and the gradient lies in the span of what ``=`` and the numbers hold, of which variables are a large part: *any* block
made of variables is found in it. So embeddings are centred over variables, and the block is held against blocks of the same
vectors whose pairing is shuffled, ``sum_v (OV1 e_v)(OV1 e_s(v))^T`` with s a permutation other than the identity: they lie in
the same span and only match the wrong variables. What counts is how many of them the true block exceeds.

A model that has settled has no gradient to speak of: what the circuit needs is there, and the cosine is that of noise. So the
question is asked a second time of the same model without what its W_QK2 says between variables: does the loss build the block
anew?

Legend of shapes: B rows, T tokens, D width, d head width, V variables.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from invariscope.batch import Batch
from invariscope.circuits.checks import check_model
from invariscope.circuits.forward import answer_logits, merged
from invariscope.errors import ConfigError
from invariscope.models import Transformer
from invariscope.models.heads import head_weights, query_key, score_scale, value_output
from invariscope.sites import edit_site, frozen, read_sites
from invariscope.tasks import AssignAdd

__all__ = ["AssociativeMemory", "GradientCosine", "associative_memory", "merged_gradient"]

LEAST_VARIABLES = 3
"""Of two variables there is one wrong pairing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientCosine:
    """The cosine of a downhill direction with the block that matches variables, beside shuffled blocks.

    Args:
        cosine: with the true block.
        null_mean, null_sd, null_99: mean, standard deviation and 99 % quantile of the cosines with shuffled blocks.
        percentile: share of shuffled blocks whose cosine is below the true one.
        num_shuffles: how many were drawn.
    """

    cosine: float
    null_mean: float
    null_sd: float
    null_99: float
    percentile: float
    num_shuffles: int

    @property
    def above(self) -> bool:
        """Whether the true block exceeds the 99 % quantile."""
        return self.cosine > self.null_99


@dataclass(frozen=True, slots=True, kw_only=True)
class AssociativeMemory:
    """How gradient descent moves W_QK2, against the associative-memory block.

    Args:
        merged: ``-G``, G the gradient with respect to W_QK2 itself.
        rebuilt: ``-G`` at a W_QK2 without what it says between variables, ``W - P W P`` with P the projector on what layer 1
            writes of variables (centred): whether the loss would build the block if it were not there.
        query: ``-G_Q W_K^T``, how W_QK2 moves where W_Q alone is trained. key: ``-W_Q G_K^T``, where W_K alone is.
        gradient_norm: Frobenius norm of G.
        loss: cross-entropy of the batch, in nats.
    """

    merged: GradientCosine
    rebuilt: GradientCosine
    query: GradientCosine
    key: GradientCosine
    gradient_norm: float
    loss: float


def merged_gradient(
    model: Transformer, task: AssignAdd, batch: Batch, *, at: Float[Tensor, "D D"] | None = None
) -> tuple[Float[Tensor, "D D"], float]:
    """Gradient of the mean cross-entropy with respect to W_QK2 = W_Q W_K^T of layer 2, and that cross-entropy.

    A change E of W_QK2 changes the score of ``=`` on token t by ``x_= E x_t^T / sqrt(d)``, so G is the sum over sequences and
    tokens of ``dL/dscore_t x_=^T x_t / sqrt(d)``. By the chain rule ``dL/dW_Q = G W_K`` and ``dL/dW_K = G^T W_Q``.

    Args:
        model, task: of one head a layer, without norms.
        batch: sequences of the task.
        at: the W_QK2 at which it is taken; None: the model's own.

    Returns:
        G, in float64, and the loss in nats.

    Raises:
        ConfigError: for a model that does not fit the task, or has several heads, norms or biases.
        ShapeError: for a batch without targets.
    """
    check_model(model, task, one_head=True, linear=True)
    batch = merged([batch])
    assert batch.targets is not None
    device, scale = model.token_embedding.device, score_scale(model, 1)
    matrix = query_key(model, 1) if at is None else at.to(device, torch.float64)
    tokens, targets = batch.inputs["tokens"].to(device), batch.targets[:, 0].to(device)
    stream = "blocks.1.resid_pre"
    leaves: list[Tensor] = []
    with frozen(model), torch.enable_grad(), read_sites(model, stream) as seen:

        def pattern_of(rows: Float[Tensor, "B H T"]) -> Float[Tensor, "B H T"]:
            x = seen[stream].unflatten(0, tokens.shape).double()
            scores = torch.einsum("bi,bti->bt", x[:, -1] @ matrix, x) / scale
            leaves.append(scores.softmax(1).requires_grad_())
            return leaves[0][:, None].to(rows.dtype)

        with edit_site(model, "blocks.1.attn_pattern", pattern_of, positions="last"):
            loss = F.cross_entropy(answer_logits(model, tokens), targets)
        [slope] = torch.autograd.grad(loss, leaves)
        x = seen[stream].unflatten(0, tokens.shape).double()
    pattern = leaves[0].detach()
    # Through the softmax: from the pattern to the scores.
    by_score = pattern * (slope - (pattern * slope).sum(1, keepdim=True))
    return torch.einsum("bt,bi,btj->ij", by_score, x[:, -1], x) / scale, float(loss.detach())


def associative_memory(
    model: Transformer, task: AssignAdd, batch: Batch, generator: torch.Generator, num_shuffles: int = 200
) -> AssociativeMemory:
    """Cosine of the downhill direction of W_QK2 with the block that matches variables, against shuffled blocks.

    Args:
        model, task: of one head a layer, without norms.
        batch: sequences with variables in their sums.
        generator: of the shuffles. num_shuffles: how many.

    Raises:
        ConfigError: for a model that does not fit, fewer than three variables, or no shuffle.
    """
    if task.num_variables < LEAST_VARIABLES or num_shuffles < 1:
        raise ConfigError(
            f"{task.num_variables} variables and {num_shuffles} shuffles",
            expected=f"at least {LEAST_VARIABLES} variables, which can be paired wrongly in several ways, and one shuffle",
            do="raise num_variables or num_shuffles",
        )
    gradient, loss = merged_gradient(model, task, batch)
    weights = head_weights(model, 1)
    with torch.no_grad():
        embeddings = model.token_embedding[task.variable_tokens.to(gradient.device)].double()
        written = (embeddings - embeddings.mean(0)) @ value_output(model, 0)
        # Onto what layer 1 writes of variables, V - 1 directions at most.
        axes = torch.linalg.svd(written, full_matrices=False).Vh[: task.num_variables - 1]
        between = axes.T @ (axes @ query_key(model, 1) @ axes.T) @ axes
    without, _ = merged_gradient(model, task, batch, at=query_key(model, 1) - between)
    shuffles = _shuffles(task.num_variables, num_shuffles, generator)

    def cosine(direction: Float[Tensor, "D D"]) -> GradientCosine:
        return _block_cosine(direction.cpu(), written.cpu(), shuffles)

    return AssociativeMemory(
        merged=cosine(-gradient),
        rebuilt=cosine(-without),
        query=cosine(-gradient @ weights.key @ weights.key.T),
        key=cosine(-weights.query @ weights.query.T @ gradient),
        gradient_norm=float(torch.linalg.matrix_norm(gradient)),
        loss=loss,
    )


def _shuffles(num: int, num_shuffles: int, generator: torch.Generator) -> Int[Tensor, "s V"]:
    """Permutations other than the identity, uniformly, with the identity in front."""
    identity = torch.arange(num)
    found = [identity]
    while len(found) <= num_shuffles:
        drawn = torch.randperm(num, generator=generator)
        if bool((drawn != identity).any()):
            found.append(drawn)
    return torch.stack(found)


def _block_cosine(direction: Float[Tensor, "D D"], written: Float[Tensor, "V D"], shuffles: Int[Tensor, "s V"]) -> GradientCosine:
    """Cosines with ``sum_v w_v^T w_s(v)``, from V x V inner products alone."""
    matched, gram = written @ direction @ written.T, written @ written.T
    rows = torch.arange(len(written))
    inner = matched[rows, shuffles].sum(1)
    sizes = (gram * gram[shuffles[:, :, None], shuffles[:, None, :]]).sum((1, 2)).clamp_min(0.0).sqrt()
    norm = torch.linalg.matrix_norm(direction) * sizes
    # A gradient of zero points nowhere.
    cosines = torch.where(norm > 0, inner / norm.where(norm > 0, 1.0), 0.0)
    true, null = float(cosines[0]), cosines[1:]
    return GradientCosine(
        cosine=true,
        null_mean=float(null.mean()),
        null_sd=float(null.std(correction=0)),
        null_99=float(torch.quantile(null, 0.99)),
        percentile=float((null < true).double().mean()),
        num_shuffles=len(null),
    )
