"""Reduced dynamics: the exact population loss as a function of the manifold's coordinates, for thousands of points at once.

In the manifold, scores need only how the tokens of one sequence are related: with K_c[t, s] = x_tᵀ O_c x_s for selector c, and
A_p the attention that path p has gone through, layer l scores

    Σ θ_{a,b,c} A_a K_c A_bᵀ        over paths a of the query, b of the key, and selectors c,

all T x T. Orbits of sequences replace sequences, answers that meet the context alike are counted, not listed, and so the sizes
of vocabulary and label set vanish (arXiv:2607.11875; the predecessor arXiv:2511.01033 has three coordinates). Gradient descent on
the weights of the full model is, in coordinates, natural descent: dθ = -lr G⁻¹ ∂L/∂θ with G the inner products of the
coordinates' directions, for orbitals their sizes.

Legend of shapes: N points, R representatives, T tokens, c selectors, p paths, g groups of answers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from invariscope.errors import ConfigError, NonFiniteError, ShapeError
from invariscope.manifold.coordinates import InductionManifold
from invariscope.models.disentangled import Disentangled
from invariscope.tasks.blocks import Representatives

__all__ = ["ReducedLoss", "Trajectory", "descend"]


class ReducedLoss:
    """Exact expected cross-entropy in nats at points of a manifold.

    Args:
        manifold: of the model.
        representatives: one sequence of each orbit of the task's law, with its probability (``task.representatives``); those
            with ``causal=False`` only for a model without a mask.

    Raises:
        ConfigError: for a model with feed-forward maps, a norm of scores or an additive stream.
    """

    def __init__(self, manifold: InductionManifold, representatives: Representatives) -> None:
        config = manifold.config
        refused = {"feed_forward": "none", "score_norm": False, "stream": "concatenated"}
        wrong = [f"{name} = {getattr(config, name)!r}" for name, plain in refused.items() if getattr(config, name) != plain]
        if wrong:
            raise ConfigError(
                f"reduced dynamics of a model with {', '.join(wrong)}",
                expected="attention alone on a concatenated stream",
                do="use expected_loss on the full model",
            )
        self.manifold, self.config = manifold, config
        self.weights = representatives.weights
        model = Disentangled(config, generator=torch.Generator().manual_seed(0)).double()
        x = model.embed(representatives.tokens, representatives.positions)
        between, answers = manifold.selectors.matrices, manifold.answer_selectors.matrices
        self.gram = torch.einsum("rti,cij,rsj->crts", x, between, x)
        T = x.shape[1]
        self.mask = torch.zeros(T, T, dtype=x.dtype)
        if config.causal:
            self.mask.masked_fill_(torch.ones(T, T, dtype=torch.bool).triu(1), float("-inf"))
        if config.readout == "trained":
            meets = torch.einsum("cvi,rti->rvct", answers, x)
        else:
            meets = x[:, :, : config.vocab_size].transpose(1, 2)[:, :, None]
        self._group(meets, representatives.targets)
        self.metric = manifold.metric()
        self._support: frozenset[int] | None = None

    def _group(self, meets: Float[Tensor, "R V c T"], targets: Tensor) -> None:
        """Answers that meet the context alike are one group with a count."""
        parts = [row.flatten(1).unique(dim=0, return_inverse=True, return_counts=True) for row in meets]
        most = max(len(rows) for rows, _, _ in parts)
        R, _, c, T = meets.shape
        self.answers = meets.new_zeros(R, c, most, T)
        self.log_counts = meets.new_full((R, most), float("-inf"))
        self.target = torch.empty(R, dtype=torch.long)
        for r, (rows, group, counts) in enumerate(parts):
            self.answers[r, :, : len(rows)] = rows.view(len(rows), c, T).transpose(0, 1)
            self.log_counts[r, : len(rows)] = counts.to(meets).log()
            self.target[r] = group[targets[r]]

    def restricted(self, support: Collection[int]) -> ReducedLoss:
        """The same loss where the attention's coordinates outside ``support`` are zero and stay so.

        What they would be multiplied with is not formed, and there is no gradient along them: flows of a few coordinates among
        hundreds cost as few.
        """
        found = copy.copy(self)
        found._support = frozenset(support)
        return found

    def __call__(self, theta: Float[Tensor, "*N dim"]) -> Float[Tensor, "*N"]:
        """The loss, differentiable in ``theta``."""
        logits = self.logits(theta)
        target = logits[..., torch.arange(len(self.target)), self.target]
        losses = torch.logsumexp(logits + self.log_counts, -1) - target
        return losses @ self.weights

    def accuracy(self, theta: Float[Tensor, "*N dim"]) -> Float[Tensor, "*N"]:
        """Share of sequences whose right answer is above all others."""
        with torch.no_grad():
            logits = self.logits(theta)
            rows = torch.arange(len(self.target))
            target = logits[..., rows, self.target]
            rest = logits.masked_fill(~self.log_counts.isfinite(), float("-inf")).clone()
            rest[..., rows, self.target] = float("-inf")
            alone = self.log_counts[rows, self.target] == 0
            return ((target > rest.amax(-1)) & alone).to(self.weights) @ self.weights

    def logits(self, theta: Float[Tensor, "*N dim"]) -> Float[Tensor, "*N R g"]:
        """Logits of each group of answers at the last token.

        Raises:
            ShapeError: for another number of coordinates.
        """
        manifold, config = self.manifold, self.config
        if theta.shape[-1] != manifold.dim:
            raise ShapeError(
                f"coordinates of shape {list(theta.shape)}",
                expected=f"[..., {manifold.dim}]",
                do="give one a name of the manifold",
            )
        lead, theta = theta.shape[:-1], theta.reshape(-1, manifold.dim)
        c, H, start = manifold.selectors.num, config.num_heads, 0
        R, T = self.gram.shape[1], self.gram.shape[2]
        # The attention that each path has gone through; None: none, which is x itself.
        paths: list[Tensor | None] = [None]
        for layer in range(config.num_layers):
            num, last = len(paths), layer == config.num_layers - 1
            size = H * num * num * c
            blocks = theta[:, start : start + size].view(-1, H, num, num, c)
            chosen = None if self._support is None else self._chosen(start, size).view(H, num, num, c)
            start += size
            queries = [None if path is None else path[..., -1:, :] for path in paths] if last else paths
            moved: list[Tensor] = []
            for head in range(H):
                scores: Tensor | None = None
                for a, query in enumerate(queries):
                    # Of the last layer one query alone is needed, which for the input itself is one row.
                    gram = self.gram[:, :, -1:] if last and query is None else self.gram
                    inner: Tensor | None = None
                    for b, key in enumerate(paths):
                        values, matrices = blocks[:, head, a, b], gram
                        if chosen is not None:
                            some = chosen[head, a, b].nonzero()[:, 0]
                            if not len(some):
                                continue
                            values, matrices = values[:, some], gram[some]
                        met = torch.einsum("nc,crts->nrts", values, matrices)
                        met = met if key is None else met @ key.transpose(-1, -2)
                        inner = met if inner is None else inner + met
                    if inner is None:
                        continue
                    outer = inner if query is None else query @ inner
                    scores = outer if scores is None else scores + outer
                mask = self.mask[-1:] if last else self.mask
                pattern = (mask.expand(1, R, -1, -1) if scores is None else scores + mask).softmax(-1)
                moved += [pattern if path is None else pattern @ path for path in paths]
            paths = [*queries, *moved]
        own = torch.zeros(1, T, dtype=theta.dtype)
        own[0, -1] = 1.0
        rows = [(own if path is None else path).expand(len(theta), R, 1, T)[:, :, 0] for path in paths]
        found = torch.stack(rows, 2)
        if config.readout == "trained":
            coefficients = theta[:, start:].view(len(theta), len(paths), -1)
            answers = torch.einsum("npc,rcgt,nrpt->nrg", coefficients, self.answers, found)
        else:
            names = config.paths(config.num_layers)
            chosen = [names.index(path) for path in config.answering_paths]
            answers = config.readout_scale * torch.einsum("rgt,nrt->nrg", self.answers[:, 0], found[:, :, chosen].sum(2))
        return answers.view(*lead, *answers.shape[1:])

    def _chosen(self, start: int, size: int) -> Bool[Tensor, "size"]:
        assert self._support is not None
        return torch.tensor([index in self._support for index in range(start, start + size)])

    def gradient(self, theta: Float[Tensor, "*N dim"]) -> tuple[Float[Tensor, "*N dim"], Float[Tensor, "*N"]]:
        """Natural gradient G⁻¹ ∂L/∂θ, the direction in which descent on the full weights goes, and the loss."""
        point = theta.detach().requires_grad_()
        with torch.enable_grad():
            losses = self(point)
            # A direct readout with no coordinate left has no slope anywhere.
            slope = torch.autograd.grad(losses.sum(), point)[0] if losses.requires_grad else torch.zeros_like(point)
        diagonal = self.metric.diagonal()
        if torch.equal(self.metric, torch.diag(diagonal)):
            return slope / diagonal, losses.detach()
        return torch.linalg.solve(self.metric, slope.reshape(-1, slope.shape[-1]).T).T.view(slope.shape), losses.detach()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trajectory:
    """What descent or a flow left behind.

    Args:
        times: steps, or times of a flow, [S]; for a flow of several points each has its own, [S, N].
        losses: [S, *N]. coordinates: [S, *N, dim].
    """

    times: Tensor
    losses: Float[Tensor, "S *N"]
    coordinates: Float[Tensor, "S *N dim"]


def descend(
    reduced: ReducedLoss,
    theta: Float[Tensor, "*N dim"],
    *,
    learning_rate: float,
    steps: int,
    every: int = 1,
    stop: Callable[[Float[Tensor, "*N"]], bool] | None = None,
) -> Trajectory:
    """Gradient descent on the full model's weights, carried out in coordinates.

    Args:
        reduced: the loss. theta: where to start, [*N, dim].
        learning_rate: of the full weights. steps: at most so many.
        every: how often loss and coordinates are kept, the start and the end always.
        stop: of the losses; descent ends where it is true.

    Raises:
        ConfigError: for no step. NonFiniteError: where it diverges, with the step.
    """
    if steps < 1 or every < 1:
        raise ConfigError(f"steps = {steps}, every = {every}", expected="1 or more", do="raise it")
    kept: list[tuple[int, Tensor, Tensor]] = []
    for step in range(steps + 1):
        slope, losses = reduced.gradient(theta)
        if not bool(losses.isfinite().all()):
            raise NonFiniteError(f"the loss at step {step}", expected="finite numbers", do="lower learning_rate")
        ended = step == steps or (stop is not None and stop(losses))
        if step % every == 0 or ended:
            kept.append((step, losses, theta))
        if ended:
            break
        theta = theta - learning_rate * slope
    times, losses, coordinates = zip(*kept, strict=True)
    return Trajectory(times=torch.tensor(times), losses=torch.stack(losses), coordinates=torch.stack(coordinates))
