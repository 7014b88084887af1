"""Does each thing score its own partner above the others? Means over pairs, and what all shufflings of the partners give.

Of a table a [n, n], own partners on the diagonal, the score is the mean of the diagonal. Over all n! shufflings of the columns
its mean and variance are known in closed form (Hoeffding 1951, *A Combinatorial Central Limit Theorem*, doi
10.1214/aoms/1177729545): with d the table centred in rows and columns,

    mean = mean of a,        variance = sum of d^2 / (n^2 (n - 1)),

and the score is normal in the limit, so that nothing has to be drawn. Of a table a = L R^T the sums are traces of [d, d]
matrices.

>>> found = match_table(torch.eye(4, dtype=torch.float64))
>>> float(found.value), float(found.null_mean), round(float(found.null_std), 4), round(float(found.z), 4)
(1.0, 0.25, 0.25, 3.0)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from invariscope.errors import TooFewSamplesError

__all__ = ["Matched", "match_factors", "match_table"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Matched:
    """Scores beside what shuffled partners give; tensors of one shape.

    Args:
        value: the score. null_mean, null_std: of the score when partners are shuffled.
    """

    value: Float[Tensor, "*n"]
    null_mean: Float[Tensor, "*n"]
    null_std: Float[Tensor, "*n"]

    @property
    def excess(self) -> Float[Tensor, "*n"]:
        """The score above the mean of the null."""
        return self.value - self.null_mean

    @property
    def z(self) -> Float[Tensor, "*n"]:
        """The excess in standard deviations of the null; 0 where the null does not vary and the score is its mean."""
        return torch.where(self.excess == 0, 0.0, self.excess / self.null_std)


def match_table(table: Float[Tensor, "*n m m"]) -> Matched:
    """Scores of tables, own partners on the diagonal.

    Raises:
        TooFewSamplesError: for fewer than two pairs, which cannot be shuffled.
    """
    m = _enough(table.shape[-1])
    centred = table - table.mean(-1, keepdim=True)
    centred = centred - centred.mean(-2, keepdim=True)
    variance = centred.square().sum((-2, -1)) / (m**2 * (m - 1))
    return Matched(value=table.diagonal(0, -2, -1).mean(-1), null_mean=table.mean((-2, -1)), null_std=variance.sqrt())


def match_factors(excess: Float[Tensor, "*n"], null_mean: Float[Tensor, "*n"], energy: Float[Tensor, "*n"], num: int) -> Matched:
    """Scores of tables L R^T that are never formed; L and R have a row a pair.

    Args:
        excess: mean over pairs of the products of what is left of L and R without their means. null_mean: product of the means.
        energy: trace of the covariance of L times that of R, both over ``num`` and not one less. num: pairs.

    Raises:
        TooFewSamplesError: for fewer than two pairs.
    """
    # Of covariances that cancel, rounding can leave a trace just below nought.
    std = (energy / (_enough(num) - 1)).clamp_min(0.0).sqrt()
    return Matched(value=excess + null_mean, null_mean=null_mean, null_std=std)


def _enough(num: int) -> int:
    if num < 2:
        raise TooFewSamplesError(f"{num} pairs to be shuffled", expected="2 or more", do="give more tokens or pairs")
    return num
