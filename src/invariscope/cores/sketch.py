"""How far sketched Jacobians are from the exact ones, on a sample that is small enough to have both.

For K outputs, s random signs a sample stand for K Jacobian rows: E[Ĵᵀ Ĵ] = JᵀJ. With N samples the error is an average of N s
independent terms, so it falls like 1 / sqrt(N s). Two numbers say how large it is:

- ``gram_error``: ||ĴᵀĴ - JᵀJ||_F / ||JᵀJ||_F, of the whole Gram matrix;
- ``angle``: the largest principal angle, in radians, between the rank-k adjoint cores of the two, which is what matters.

Both are extrapolated to a larger run by :meth:`SketchError.at`.

>>> error = SketchError(gram_error=0.1, angle=0.02, rank=3, sketch=16, num_samples=100, num_repeats=4)
>>> round(error.at(400).gram_error, 3), round(error.at(400).angle, 3)
(0.05, 0.01)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from invariscope.batch import Batch
from invariscope.cores.extract import collect_moments
from invariscope.errors import ConfigError
from invariscope.numerics.linalg import no_autocast
from invariscope.numerics.subspaces import principal_angles
from invariscope.positions import Positions
from invariscope.sites import LogitsOf, Objective
from invariscope.sites.gradient import DEFAULT_SKETCH

__all__ = ["SketchError", "estimate_sketch_error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SketchError:
    """The error of sketched Jacobians.

    Args:
        gram_error: relative Frobenius error of JᵀJ. angle: largest principal angle of the adjoint cores, radians. Both are root
            mean squares over ``num_repeats`` sketches.
        rank: k. sketch: s. num_samples: N that they were measured on (or extrapolated to).
    """

    gram_error: float
    angle: float
    rank: int
    sketch: int
    num_samples: int
    num_repeats: int

    def at(self, num_samples: int) -> SketchError:
        """Extrapolated to another number of samples of the same kind, like 1 / sqrt(N); angles near a right angle saturate."""
        factor = (self.num_samples / num_samples) ** 0.5
        return dataclasses.replace(self, gram_error=self.gram_error * factor, angle=self.angle * factor, num_samples=num_samples)


def estimate_sketch_error(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    site: str,
    rank: int,
    objective: Objective | None = None,
    positions: Positions = "last",
    outputs_at: Positions | None = None,
    reach: Literal["same", "later"] = "same",
    sketch: int = DEFAULT_SKETCH,
    num_repeats: int = 4,
    generator: torch.Generator,
    logits_of: LogitsOf | None = None,
) -> SketchError:
    """Compare sketched with exact Jacobians at a site.

    Args:
        model, site, objective, positions, outputs_at, reach, logits_of: as in :func:`invariscope.cores.collect_moments`.
        batches: a small part of the data: the exact Jacobians take K backward passes, the sketches s each.
        rank: k of the adjoint cores that are compared.
        sketch: s. num_repeats: independent sketches.
        generator: of their signs.

    Raises:
        ConfigError: for fewer than 1 repetition. RankError: for a rank above what the data carry; and as
            :func:`invariscope.cores.collect_moments` does.
    """
    if num_repeats < 1:
        raise ConfigError(f"{num_repeats} repetitions", expected="at least 1", do="leave num_repeats at its default of 4")

    def found(signs: int | None) -> tuple[Tensor, Tensor, int]:
        moments = collect_moments(
            model,
            batches,
            sites=[site],
            objective=objective,
            positions=positions,
            outputs_at=outputs_at,
            reach=reach,
            sketch=signs,
            generator=generator,
            logits_of=logits_of,
        )[site]
        factor = moments.jacobian_factor()
        with no_autocast(factor):
            return factor.T @ factor, moments.core(rank, "adjoint").write, moments.num_samples

    gram, write, num_samples = found(None)
    squares = torch.zeros(2, dtype=torch.float64)
    for _ in range(num_repeats):
        sketched, other, _ = found(sketch)
        error = float(torch.linalg.matrix_norm(sketched - gram) / torch.linalg.matrix_norm(gram))
        angle = float(principal_angles(other, write).max())
        squares += torch.tensor([error**2, angle**2], dtype=torch.float64)
    gram_error, angle = (squares / num_repeats).sqrt().tolist()
    return SketchError(
        gram_error=gram_error, angle=angle, rank=rank, sketch=sketch, num_samples=num_samples, num_repeats=num_repeats
    )
