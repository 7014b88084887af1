"""Moments: all that cores need to know of N activations and N Jacobians, in O(D²) memory (arXiv:2602.22600, sheet "Extract").

The core is in the SVD of H Jᵀ = U Σ Vᵀ [N, N K], which is never formed. With streaming thin QRs H = Q_H R_H (centred) and
J = Q_J R_J (not centred) it is the SVD of R_H R_Jᵀ = A Σ Bᵀ, and its two sides are mapped back to the site by

    X = R_Hᵀ A  (activation side, Hᵀ U)          Y = R_Jᵀ B  (adjoint side, Jᵀ V)

Three projections: ``activation`` orthonormalises X in order (the paper's), ``adjoint`` orthonormalises Y, and ``oblique``
reads with Y and writes with X: P = X_k (Y_kᵀ X_k)⁻¹ Y_kᵀ, where Y_kᵀ X_k = Σ_k exactly: the projector of balanced truncation
(Moore 1981, doi:10.1109/TAC.1981.1102568).

>>> moments = Moments(dim=3)
>>> generator = torch.Generator().manual_seed(0)
>>> activations = torch.randn(100, 3, generator=generator)
>>> moments.update(activations, torch.tensor([1.0, 0.0, 0.0]).expand(100, 3))
>>> moments.core(rank=1, projection="adjoint").write.abs().round(decimals=6).T.tolist()
[[1.0, 0.0, 0.0]]
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from invariscope.batch import check_finite
from invariscope.cores.class_sums import ClassSums, check_labels
from invariscope.cores.controls import ALL_CONTROLS, CONTROLS, build_control
from invariscope.cores.core import Core, Provenance
from invariscope.cores.ranks import Rank, rank_by_spectrum
from invariscope.errors import ConfigError, ForeignFileError, RankError, ShapeError, TooFewSamplesError, unknown_name
from invariscope.numerics.factors import QRFactor, factored_svd
from invariscope.numerics.linalg import no_autocast
from invariscope.numerics.subspaces import fix_signs, orthonormal_basis
from invariscope.storage.tensors import load_tensors, save_tensors

__all__ = ["PROJECTIONS", "Moments", "Sides", "versions"]

PROJECTIONS = ("activation", "adjoint", "oblique")
KIND = "moments"
# Beyond it the oblique projector is a division by rounding errors.
MAX_CONDITION = 1e8


def versions() -> str:
    """The versions that a core's provenance names."""
    return f"invariscope {importlib.metadata.version('invariscope')}, torch {torch.__version__}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sides:
    """The SVD of H Jᵀ mapped back to the site.

    Args:
        activation: X, [D, D]. adjoint: Y, [D, D]. singular_values: of H Jᵀ over the number of samples, [D].
        scale: σ before that division.
    """

    activation: Float[Tensor, "D D"]
    adjoint: Float[Tensor, "D D"]
    singular_values: Float[Tensor, "D"]
    scale: Float[Tensor, "D"]


class Moments:
    """Streaming, mergeable factors of activations and Jacobians at one site.

    Args:
        dim: D, the site's dimension.
        provenance: what is known about where the samples come from.
        device: where the factors live.
    """

    def __init__(self, dim: int, *, provenance: Provenance | None = None, device: torch.device | str = "cpu") -> None:
        self.dim = dim
        self.provenance = provenance or Provenance()
        self._activations = QRFactor(dim, centred=True, device=device)
        self._jacobians = QRFactor(dim, centred=False, device=device)
        self._classes: ClassSums | None = None
        self._sides: Sides | None = None

    @property
    def classes(self) -> ClassSums | None:
        """Weights and means of the classes; None where no labels were given."""
        return self._classes

    @property
    def num_samples(self) -> int:
        """N, the number of activations."""
        return self._activations.num_rows

    @property
    def mean(self) -> Float[Tensor, "D"]:
        """Mean activation."""
        return self._activations.mean

    def update(
        self,
        activations: Float[Tensor, "n D"],
        jacobians: Float[Tensor, "n D"] | Float[Tensor, "n K D"],
        labels: Int[Tensor, "n"] | None = None,
        weights: Float[Tensor, "n"] | None = None,
    ) -> None:
        """Take in n more samples.

        Args:
            activations: [n, D].
            jacobians: [n, D] for one output, [n, K, D] for K.
            labels: the class of each activation, [n] whole numbers; for the controls ``mean_difference`` and ``leace``.
            weights: [n]; None: all weigh the same.

        Raises:
            ShapeError, NonFiniteError: naming the tensor; the moments are then as before.
            ConfigError: where some samples have labels and others have none.
        """
        rows = jacobians[:, None] if jacobians.ndim == 2 else jacobians
        if (
            activations.ndim != 2
            or rows.ndim != 3
            or tuple(activations.shape) != (len(rows), rows.shape[2])
            or (activations.shape[1] != self.dim)
        ):
            raise ShapeError(
                f"activations of shape {list(activations.shape)} with jacobians of shape {list(jacobians.shape)}",
                expected=f"[n, {self.dim}] with [n, {self.dim}] or [n, K, {self.dim}]",
                do="give the Jacobian of every activation",
            )
        # Both are checked first, so that a bad one leaves the two factors in step.
        check_finite("activations", activations)
        check_finite("jacobians", rows)
        labels = None if labels is None else check_labels(labels, len(activations))
        if self.num_samples and len(activations) and (labels is None) != (self._classes is None):
            raise _mixed_labels()
        self._activations.update(activations, weights)
        if labels is not None:
            self._classes = self._classes or ClassSums(self.dim, self._activations.device)
            self._classes.update(activations, labels, weights)
        repeated = None if weights is None else weights.repeat_interleave(rows.shape[1])
        self._jacobians.update(rows.flatten(0, 1), repeated)
        self._sides = None

    @classmethod
    def merge(cls, parts: Sequence[Moments]) -> Moments:
        """The moments of all samples of ``parts``, as one pass over them would give.

        Raises:
            TooFewSamplesError: where there are none. ShapeError, ConfigError: where they do not belong together.
        """
        if not parts:
            raise TooFewSamplesError("no moments to merge", expected="at least one", do="pass the moments of every worker")
        first = parts[0].provenance
        for other in parts[1:]:
            differing = [
                field.name
                for field in dataclasses.fields(Provenance)
                if getattr(first, field.name) != getattr(other.provenance, field.name)
            ]
            if differing:
                raise ConfigError(
                    f"moments that differ in {', '.join(differing)}",
                    expected="one site, objective and model",
                    do="merge only moments of the same measurement",
                )
        classes = [part._classes for part in parts if part.num_samples]
        known = [found for found in classes if found is not None]
        if known and len(known) < len(classes):
            raise _mixed_labels()
        merged = cls(parts[0].dim, provenance=first)
        merged._classes = ClassSums.merge(known) if known else None
        merged._activations = QRFactor.merge([part._activations for part in parts])
        merged._jacobians = QRFactor.merge([part._jacobians for part in parts])
        return merged

    def activation_factor(self) -> Float[Tensor, "D D"]:
        """R_H of the centred activations, upper triangular."""
        return self._activations.factor()

    def jacobian_factor(self) -> Float[Tensor, "D D"]:
        """R_J of the Jacobians, not centred, upper triangular."""
        return self._jacobians.factor()

    def sides(self) -> Sides:
        """The SVD of H Jᵀ mapped back to the site; computed once."""
        if self._sides is None:
            left, right = self.activation_factor(), self.jacobian_factor()
            a, sigma, b = factored_svd(left, right)
            with no_autocast(left):
                self._sides = Sides(
                    activation=left.T @ a,
                    adjoint=right.T @ b,
                    singular_values=sigma / self._activations.total_weight,
                    scale=sigma,
                )
        return self._sides

    @property
    def singular_values(self) -> Float[Tensor, "D"]:
        """σ of H Jᵀ divided by the number of samples, largest first."""
        return self.sides().singular_values

    def core(self, rank: Rank, projection: str = "oblique") -> Core:
        """The core of the given rank.

        Args:
            rank: an int, ``by_energy(share)`` or ``by_gap()``.
            projection: ``activation``, ``adjoint`` or ``oblique``.

        Raises:
            UnknownNameError: for another projection.
            RankError: for a rank above what the data carry, or at which Y_kᵀ X_k is singular.
        """
        if projection not in PROJECTIONS:
            raise unknown_name("projection", str(projection), PROJECTIONS)
        sides = self.sides()
        k, rule = rank_by_spectrum(rank, sides.singular_values)
        if projection == "oblique":
            read, write = self._oblique(sides, k)
        else:
            basis = orthonormal_basis((sides.activation if projection == "activation" else sides.adjoint)[:, :k])
            write, _ = fix_signs(basis, None)
            read = write
        return Core(
            read=read,
            write=write,
            mean=self.mean,
            singular_values=sides.singular_values,
            provenance=self.describe(projection, rule),
        )

    def describe(self, projection: str, rank_rule: str) -> Provenance:
        """The provenance of a core made from these moments."""
        return dataclasses.replace(
            self.provenance, projection=projection, rank_rule=rank_rule, num_samples=self.num_samples, versions=versions()
        )

    def controls(
        self,
        rank: int,
        names: Sequence[str] | None = None,
        *,
        num_random: int = 8,
        generator: torch.Generator,
    ) -> dict[str, list[Core]]:
        """Cores of equal rank that know less, from the same samples; see :mod:`invariscope.cores.controls`.

        Args:
            rank: of every control.
            names: among ``random``, ``pca``, ``gradient``, ``mean_difference`` and ``leace``; None: all of them where the labels
                of two classes or more are known, else the first three.
            num_random: how many random subspaces.
            generator: of the random subspaces, and of the random directions beyond classes - 1.

        Raises:
            UnknownNameError: for another name. RankError: for a rank above the dimension.
            ConfigError: for ``mean_difference`` or ``leace`` without labels.
        """
        if names is None:
            names = ALL_CONTROLS if self._classes is not None and self._classes.num_classes > 1 else CONTROLS
        return {name: build_control(self, name, rank, num_random=num_random, generator=generator) for name in names}

    def _oblique(self, sides: Sides, k: int) -> tuple[Tensor, Tensor]:
        sigma = sides.scale
        bad = (sigma[:k] * MAX_CONDITION < sigma[0]).nonzero()
        if len(bad):
            raise RankError(
                f"an oblique core of rank {k}",
                expected=f"at most {int(bad[0])}: YᵀX is singular from {int(bad[0]) + 1} on (condition over {MAX_CONDITION:.0e})",
                do="ask for a smaller rank, or use projection='adjoint' or 'activation'",
            )
        # Unit write columns; the reading columns carry the scale, so that readᵀ write = I.
        length = torch.linalg.vector_norm(sides.activation[:, :k], dim=0)
        write, read = sides.activation[:, :k] / length, sides.adjoint[:, :k] * (length / sigma[:k])
        write, turned = fix_signs(write, read)
        assert turned is not None
        return turned, write

    def save(self, path: Path | str) -> None:
        """Write the factors; see :meth:`load`."""
        tensors = {f"activations.{name}": value for name, value in self._activations.state().items()}
        tensors |= {f"jacobians.{name}": value for name, value in self._jacobians.state().items()}
        if self._classes is not None:
            tensors |= {f"classes.{name}": value for name, value in self._classes.state().items()}
        save_tensors(Path(path), tensors, kind=KIND, metadata={"provenance": dataclasses.asdict(self.provenance)})

    @classmethod
    def load(cls, path: Path | str) -> Moments:
        """The moments that :meth:`save` wrote.

        Raises:
            ForeignFileError: for a truncated, damaged or foreign file.
        """
        tensors, metadata = load_tensors(Path(path), kind=KIND)
        parts = {
            side: QRFactor.from_state(
                {name.removeprefix(f"{side}."): x for name, x in tensors.items() if name.startswith(f"{side}.")}
            )
            for side in ("activations", "jacobians")
        }
        try:
            provenance = Provenance(**metadata["provenance"])
        except (KeyError, TypeError) as error:
            raise ForeignFileError(f"{path}: {error}", expected="moments of this version", do="collect them again") from error
        moments = cls(parts["activations"].dim, provenance=provenance)
        moments._activations, moments._jacobians = parts["activations"], parts["jacobians"]
        classes = {name.removeprefix("classes."): x for name, x in tensors.items() if name.startswith("classes.")}
        moments._classes = ClassSums.from_state(classes, moments.dim) if classes else None
        return moments


def _mixed_labels() -> ConfigError:
    return ConfigError(
        "moments of samples with and without labels",
        expected="labels for all samples or for none",
        do="pass labels= at every update, or leave them out",
    )
