"""An algorithmic core: a rank-k subspace at a site that reads and writes what the rest of the model uses (arXiv:2602.22600).

With mean μ, read matrix R [D, k] and write matrix W [D, k], RᵀW = I:

    coordinates(h) = (h - μ) R                   P = W Rᵀ
    keep(h)   = μ + P (h - μ)                    only the core remains
    remove(h) = h - P (h - μ)                    only the core is gone
    flip(h)   = h - 2 P (h - μ)                  the core is reflected about the mean

For the orthogonal projections R = W. Sign convention: the largest entry of each write column is positive, its read column is
turned along with it; ties within 1e-9 go to the lowest index.

>>> axis = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
>>> core = Core(read=axis, write=axis, mean=torch.tensor([1.0, 1.0], dtype=torch.float64), singular_values=torch.ones(1))
>>> core.flip(torch.tensor([[3.0, 5.0]]))
tensor([[-1.,  5.]])
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from invariscope.batch import check_finite
from invariscope.cores.ranks import RankCurve
from invariscope.errors import ForeignFileError, ShapeError
from invariscope.estimate import html_table
from invariscope.numerics.linalg import no_autocast
from invariscope.storage.tensors import load_tensors, save_tensors

__all__ = ["Core", "Provenance", "load_core"]

KIND = "core"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """How a core was made; all of it JSON.

    Args:
        site: where. positions, outputs_at: at which tokens activations and outputs were taken, as text or index.
        objective: whose Jacobian. reach: ``same`` or ``later``. sketch: random signs a sample, or None.
        projection: ``activation``, ``adjoint``, ``oblique``, or the name of a control.
        rank_rule: how the rank was chosen.
        num_samples: activations behind it.
        model: fingerprint of the weights.
        versions: of invariscope and torch.
    """

    site: str = ""
    positions: str | int = ""
    outputs_at: str | int = ""
    objective: str = ""
    reach: str = ""
    sketch: int | None = None
    projection: str = ""
    rank_rule: str = ""
    num_samples: int = 0
    model: str = ""
    versions: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Core:
    """A causal subspace with its two sides; see the module's text for what it does.

    Args:
        read: R, [D, k] float64. write: W, [D, k] float64, RᵀW = I.
        mean: μ, [D] float64, of the activations that it was extracted from.
        singular_values: of H Jᵀ divided by the number of samples, all of them, largest first.
        provenance: how it was made.
        rank_curve: what each rank keeps and removes, where the rank was chosen by it.

    Raises:
        ShapeError: where the parts do not fit. NonFiniteError: where an entry is not finite.
    """

    read: Float[Tensor, "D k"]
    write: Float[Tensor, "D k"]
    mean: Float[Tensor, "D"]
    singular_values: Float[Tensor, "m"]
    provenance: Provenance = field(default_factory=Provenance)
    rank_curve: RankCurve | None = None

    def __post_init__(self) -> None:
        if self.read.ndim != 2 or self.read.shape != self.write.shape or self.mean.shape != self.read.shape[:1]:
            raise ShapeError(
                f"a core with read {list(self.read.shape)}, write {list(self.write.shape)} and mean {list(self.mean.shape)}",
                expected="[D, k], [D, k] and [D]",
                do="make it with extract_core or Moments.core",
            )
        for name in ("read", "write", "mean", "singular_values"):
            check_finite(f"core.{name}", getattr(self, name))

    @property
    def rank(self) -> int:
        """k."""
        return self.read.shape[1]

    @property
    def dim(self) -> int:
        """D."""
        return self.read.shape[0]

    def coordinates(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... k"]:
        """(x - μ) R, computed in float64, in x's type and on its device."""
        return self._coordinates64(x).to(x.dtype)

    def keep(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """Only the core remains; everything else is set to its mean."""
        return self._edited(x, offset=True, share=1.0)

    def remove(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """The core is set to its mean; everything else remains."""
        return self._edited(x, offset=False, share=-1.0)

    def flip(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """The core is reflected about its mean; everything else remains."""
        return self._edited(x, offset=False, share=-2.0)

    def constant(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """The mean alone: neither the core nor anything else remains."""
        self._check_width(x)
        return self.mean.to(x).expand_as(x)

    def move(self, x: Float[Tensor, "... D"], coordinates: Float[Tensor, "... k"]) -> Float[Tensor, "... D"]:
        """x with its core coordinates replaced: x + W (coordinates - coordinates(x))."""
        with no_autocast(x):
            change = coordinates.to(device=x.device, dtype=torch.float64) - self._coordinates64(x)
            return (x.to(torch.float64) + change @ self.write.to(x.device).T).to(x.dtype)

    def save(self, path: Path | str) -> None:
        """Write the core, its provenance and its rank curve; see :func:`load_core`."""
        metadata: dict[str, Any] = {"provenance": dataclasses.asdict(self.provenance)}
        if self.rank_curve is not None:
            metadata["rank_curve"] = self.rank_curve.to_json()
        tensors = {name: getattr(self, name) for name in ("read", "write", "mean", "singular_values")}
        save_tensors(Path(path), _apart(tensors), kind=KIND, metadata=metadata)

    def _repr_html_(self) -> str:
        leading = self.singular_values[: self.rank + 1].tolist()
        rows: list[tuple[str, str]] = [("rank", f"{self.rank} of {self.dim}")]
        rows.append(("singular values, and the next", " ".join(f"{value:.4g}" for value in leading)))
        rows += [
            (name.replace("_", " "), f"{value}")
            for name, value in dataclasses.asdict(self.provenance).items()
            if value or value == 0
        ]
        return html_table(f"Core at {self.provenance.site or 'an unnamed site'}", rows)

    def _check_width(self, x: Tensor) -> None:
        if x.shape[-1] != self.dim:
            raise ShapeError(
                f"activations of shape {list(x.shape)}",
                expected=f"[..., {self.dim}]",
                do=f"read them at the core's own site{f' {self.provenance.site!r}' if self.provenance.site else ''}",
            )

    def _coordinates64(self, x: Tensor) -> Tensor:
        self._check_width(x)
        with no_autocast(x):
            return (x.to(torch.float64) - self.mean.to(x.device)) @ self.read.to(x.device)

    def _edited(self, x: Tensor, *, offset: bool, share: float) -> Tensor:
        with no_autocast(x):
            inside = share * (self._coordinates64(x) @ self.write.to(x.device).T)
            base = self.mean.to(x.device) if offset else x.to(torch.float64)
            return (base + inside).to(x.dtype)


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    # An orthogonal core's two sides may be one tensor; in the file each stands on its own.
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def load_core(path: Path | str) -> Core:
    """The core that :meth:`Core.save` wrote.

    Raises:
        ForeignFileError: for a truncated, damaged or foreign file.
    """
    tensors, metadata = load_tensors(Path(path), kind=KIND)
    try:
        curve = metadata.get("rank_curve")
        return Core(
            **tensors,
            provenance=Provenance(**metadata["provenance"]),
            rank_curve=None if curve is None else RankCurve.from_json(curve),
        )
    except (KeyError, TypeError, AttributeError, ShapeError) as error:
        raise ForeignFileError(f"{path}: {error}", expected="a core of this version", do="extract the core again") from error
