"""How stable a core's directions are: between two halves of the prompts, and under a bootstrap over groups.

A direction that another sample of prompts would turn is no property of the model. From N samples the core's two sides are the
leading singular vectors of the N x N K matrix M = diag(√w) H_w Jᵀ diag(√w), where w counts how often a sample is drawn and H_w is
centred by its weighted mean; mapped back by X = H_wᵀ √w U and Y = Jᵀ √w V they are those of
:class:`invariscope.cores.moments.Moments` with the same weights. G = H Jᵀ is formed once, so that a draw costs the N x N K
problem and not one of dimension D. Two spans are compared by √(||Q_aᵀ Q_b||_F² / k), which is |cos| for one direction.

>>> generator = torch.Generator().manual_seed(0)
>>> h = torch.randn(64, 5, generator=generator, dtype=torch.float64)
>>> found = direction_stability(h, torch.eye(5)[0].double().expand(64, 5), torch.arange(64), rank=1, generator=generator)
>>> round(found.adjoint_halves.value, 6), found.adjoint_halves.value > found.activation_halves.value > 0.8
(1.0, True)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from invariscope.batch import check_finite
from invariscope.errors import RankError, ShapeError, TooFewSamplesError
from invariscope.estimate import Estimate
from invariscope.numerics.linalg import no_autocast
from invariscope.numerics.resampling import group_index, quantile_interval
from invariscope.numerics.subspaces import chance_overlap, orthonormal_basis, overlap

__all__ = ["LEAST_GROUPS", "MAX_STABILITY_SAMPLES", "Stability", "direction_stability"]

MAX_STABILITY_SAMPLES = 4096
"""G of so many samples and one output is 134 MB."""
LEAST_GROUPS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Stability:
    """Likeness of directions, 1 for equal spans; chance is that of two random spans.

    Args:
        activation_halves, adjoint_halves: between the two halves of a random split of the groups: mean over splits, with their
            central 95 %.
        activation_bootstrap, adjoint_bootstrap: between a bootstrap sample of groups and the whole sample: median, with the
            central 95 %.
        num_groups: behind them.
    """

    activation_halves: Estimate
    adjoint_halves: Estimate
    activation_bootstrap: Estimate
    adjoint_bootstrap: Estimate
    num_groups: int


def direction_stability(
    activations: Float[Tensor, "n D"],
    jacobians: Float[Tensor, "n K D"] | Float[Tensor, "n D"],
    groups: Int[Tensor, "n"],
    *,
    rank: int,
    num_splits: int = 20,
    num_draws: int = 100,
    generator: torch.Generator,
) -> Stability:
    """How far the activation side and the adjoint side of a core turn when the prompts change.

    Args:
        activations: [n, D], not centred. jacobians: [n, D] for one output, [n, K, D] for K.
        groups: what splits and draws never break, [n].
        rank: k.
        num_splits: random splits in halves. num_draws: bootstrap samples.
        generator: of both.

    Raises:
        ShapeError: where the parts do not fit, or for more than :data:`MAX_STABILITY_SAMPLES` samples.
        TooFewSamplesError: for fewer than four groups. RankError: for a rank that a half cannot carry.
    """
    rows = jacobians[:, None] if jacobians.ndim == 2 else jacobians
    _check(activations, rows, groups)
    index, num_groups = group_index(groups, len(groups))
    if num_groups < LEAST_GROUPS:
        raise TooFewSamplesError(
            f"{num_groups} groups of prompts", expected=f"at least {LEAST_GROUPS}", do="give more groups, or one group a prompt"
        )
    problem = _Problem(activations.double().cpu(), rows.double().cpu(), rank)
    whole = problem.spans(torch.ones(len(groups), dtype=torch.float64))
    halves, draws = [], []
    for _ in range(num_splits):
        first = torch.zeros(num_groups, dtype=torch.float64)
        first[torch.randperm(num_groups, generator=generator)[: num_groups // 2]] = 1
        halves.append(_alike(problem.spans(first[index]), problem.spans(1 - first[index])))
    for _ in range(num_draws):
        drawn = torch.randint(num_groups, (num_groups,), generator=generator)
        draws.append(_alike(problem.spans(torch.bincount(drawn, minlength=num_groups).double()[index]), whole))
    chance = chance_overlap(rank, rank, activations.shape[1]) ** 0.5
    between, around = torch.tensor(halves, dtype=torch.float64), torch.tensor(draws, dtype=torch.float64)

    def estimate(values: Tensor, method: str, *, middle: bool) -> Estimate:
        low, high = quantile_interval(values, 0.95)
        centre = values.median() if middle else values.mean()
        return Estimate(value=float(centre), low=low, high=high, num=len(groups), unit="|cos|", method=method, chance=chance)

    split, drawn_over = f"{num_splits} splits of {num_groups} groups", f"{num_draws} draws of {num_groups} groups"
    return Stability(
        activation_halves=estimate(between[:, 0], split, middle=False),
        adjoint_halves=estimate(between[:, 1], split, middle=False),
        activation_bootstrap=estimate(around[:, 0], drawn_over, middle=True),
        adjoint_bootstrap=estimate(around[:, 1], drawn_over, middle=True),
        num_groups=num_groups,
    )


def _check(activations: Tensor, rows: Tensor, groups: Tensor) -> None:
    num = len(groups)
    fits = activations.ndim == 2 and rows.ndim == 3 and len(activations) == len(rows) == num
    if not fits or rows.shape[2] != activations.shape[1] or num > MAX_STABILITY_SAMPLES:
        raise ShapeError(
            f"activations {list(activations.shape)}, jacobians {list(rows.shape)} and {num} groups",
            expected=f"[n, D], [n, K, D] and [n], n at most {MAX_STABILITY_SAMPLES}",
            do="give the Jacobian and the group of every activation, of fewer samples where there are too many",
        )
    check_finite("activations", activations)
    check_finite("jacobians", rows)


class _Problem:
    """The cores of all weightings of one sample."""

    def __init__(self, activations: Float[Tensor, "n D"], jacobians: Float[Tensor, "n K D"], rank: int) -> None:
        # About any fixed origin the algebra is the same; about the mean it keeps its digits.
        self.h = activations - activations.mean(0)
        self.j = jacobians.flatten(0, 1)
        self.num_outputs, self.rank = jacobians.shape[1], rank
        with no_autocast(self.h):
            self.gram = self.h @ self.j.T

    def spans(self, weights: Float[Tensor, "n"]) -> tuple[Float[Tensor, "D k"], Float[Tensor, "D k"]]:
        """Orthonormal bases of the activation side and of the adjoint side."""
        here = weights > 0
        w = weights[here]
        with no_autocast(w):
            root, share = w.sqrt(), w / w.sum()
            columns = here.repeat_interleave(self.num_outputs)
            root_j = root.repeat_interleave(self.num_outputs)
            gram = self.gram[here][:, columns]
            m = root[:, None] * (gram - share @ gram) * root_j
            if self.rank > min(m.shape):
                raise RankError(
                    f"rank {self.rank} from {len(w)} samples", expected=f"at most {min(m.shape)}", do="give more prompts"
                )
            u, _, vh = torch.linalg.svd(m, full_matrices=False)
            h = self.h[here]
            left = (h - share @ h).T @ (root[:, None] * u[:, : self.rank])
            right = self.j[columns].T @ (root_j[:, None] * vh[: self.rank].T)
        return orthonormal_basis(left), orthonormal_basis(right)


def _alike(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> tuple[float, float]:
    left, right = (overlap(x, y) ** 0.5 for x, y in zip(a, b, strict=True))
    return left, right
