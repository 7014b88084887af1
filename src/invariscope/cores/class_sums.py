"""Streaming class means of activations: what the controls that know the labels are made of.

For each class c the weight w_c = Σ_i w_i and the sum s_c = Σ_i w_i h_i; with one-hot labels z this is all of the
cross-covariance that LEACE needs, since Σ_xz[:, c] = p_c (m_c - m) with p_c = w_c / w and m_c = s_c / w_c.

>>> sums = ClassSums(1)
>>> sums.update(torch.tensor([[1.0], [3.0], [9.0]]), torch.tensor([0, 0, 7]), None)
>>> sums.labels.tolist(), sums.weights.tolist(), sums.means.tolist()
([0, 7], [2.0, 1.0], [[2.0], [9.0]])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from invariscope.errors import ForeignFileError, ShapeError

__all__ = ["ClassSums", "check_labels"]


def check_labels(labels: Int[Tensor, "n"], num: int) -> Int[Tensor, "n"]:
    """``labels`` as int64, after checking that there is one whole number for each of ``num`` rows.

    Raises:
        ShapeError: where they are not such.
    """
    if not isinstance(labels, Tensor) or labels.shape != (num,) or labels.is_floating_point() or labels.is_complex():
        given = f"{labels.dtype} labels of shape {list(labels.shape)}" if isinstance(labels, Tensor) else type(labels).__name__
        raise ShapeError(f"{given} for {num} activations", expected=f"whole numbers [{num}]", do="give the class of every row")
    return labels.detach().long()


class ClassSums:
    """Weights and sums of activations by class; streaming and mergeable.

    Args:
        dim: D. device: where the sums live.

    Attributes:
        labels: the classes seen so far, ascending, [C]. weights: of each, [C].
    """

    def __init__(self, dim: int, device: torch.device | str = "cpu") -> None:
        self.labels = torch.zeros(0, dtype=torch.long, device=device)
        self.weights = torch.zeros(0, dtype=torch.float64, device=device)
        self._sums = torch.zeros(0, dim, dtype=torch.float64, device=device)

    @property
    def means(self) -> Float[Tensor, "C D"]:
        """Mean activation of each class; 0 for a class that only rows of weight 0 have."""
        return self._sums / torch.where(self.weights > 0, self.weights, 1.0)[:, None]

    @property
    def num_classes(self) -> int:
        """Classes of positive weight."""
        return int((self.weights > 0).sum())

    def update(self, activations: Float[Tensor, "n D"], labels: Int[Tensor, "n"], weights: Float[Tensor, "n"] | None) -> None:
        """Take in n more rows; what they are has been checked.

        Args:
            activations: [n, D]. labels: [n]. weights: [n]; None: 1 each.
        """
        rows, device = activations.detach().to(self._sums), self._sums.device
        weight = torch.ones(len(rows), dtype=torch.float64, device=device) if weights is None else weights.to(rows)
        self._add(labels.to(device), weight, rows * weight[:, None])

    @classmethod
    def merge(cls, parts: Sequence[ClassSums]) -> ClassSums:
        """The sums over all rows of ``parts``, at least one."""
        merged = cls(parts[0]._sums.shape[1], parts[0]._sums.device)
        for part in parts:
            merged._add(*(tensor.to(merged._sums.device) for tensor in (part.labels, part.weights, part._sums)))
        return merged

    def state(self) -> dict[str, Tensor]:
        """Everything that :meth:`from_state` needs."""
        return {"labels": self.labels, "weights": self.weights, "sums": self._sums}

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor], dim: int) -> ClassSums:
        """The sums that :meth:`state` described.

        Raises:
            ForeignFileError: where a part is missing or the parts do not fit.
        """
        shapes = {name: list(state[name].shape) for name in ("labels", "weights", "sums") if name in state}
        num = len(state.get("labels", ()))
        if shapes != {"labels": [num], "weights": [num], "sums": [num, dim]}:
            raise ForeignFileError(
                f"class sums of shapes {shapes}", expected=f"labels [C], weights [C], sums [C, {dim}]", do="collect them again"
            )
        found = cls(dim, state["sums"].device)
        found.labels, found.weights, found._sums = (state[name] for name in ("labels", "weights", "sums"))
        return found

    def _add(self, labels: Tensor, weights: Tensor, sums: Tensor) -> None:
        self.labels, index = torch.unique(torch.cat([self.labels, labels]), return_inverse=True)
        both = torch.cat([self.weights, weights]), torch.cat([self._sums, sums])
        self.weights, self._sums = (
            torch.zeros(len(self.labels), *x.shape[1:], dtype=x.dtype, device=x.device).index_add_(0, index, x) for x in both
        )
