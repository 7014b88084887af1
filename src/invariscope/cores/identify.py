"""Which linear map acts in a core? Try every map that the task can think of, and rank them by hold-out R² (arXiv:2602.22600).

A task states its candidate maps: pairs (i, j) with z_j ~ A z_i, and the spectrum that A should have. Each is fitted by least
squares, scored on held-out sequences, and set beside the same fit on shuffled pairs. No form is presupposed.

Two kinds of coordinates. ``core``: z = (h - μ) R itself. ``law``: the leading principal components of the next-token law
*read from the core alone*, softmax at μ + P(h - μ). With more states than k + 1 the span of log T is not invariant under T,
and least squares on z has a bias that no training removes (.03 on a 12-state chain); the law's own span is invariant, and its
fit is as good as the counts.

Two kinds of successors. ``sampled``: the z_{t+1} of the sequence as it was drawn, whose draw is most of the error.
``predicted``: its expectation under the model's own law of the next token (:mod:`invariscope.cores.successors`), which takes one
forward pass a token of the vocabulary and asks the model, not the data: is its core closed under its own dynamics?

What is no evidence: class means with the true transition matrix satisfy the map for *any* model.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Complex, Float
from torch import Tensor, nn

from invariscope.batch import Batch
from invariscope.cores.core import Core
from invariscope.cores.measure import measure_law, site_rows
from invariscope.cores.successors import follows_tokens, leading_directions, predicted_successors
from invariscope.errors import ConfigError, unknown_name
from invariscope.estimate import Estimate
from invariscope.numerics.operators import Method, Operator, fit_operator
from invariscope.numerics.resampling import permuted_groups
from invariscope.positions import Rows, parse_positions
from invariscope.tasks.task import CandidateMap, Task

__all__ = ["Identification", "IdentifiedMap", "core_coordinates", "identify_operator", "leading_spectrum"]

NUM_SHUFFLES = 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IdentifiedMap:
    """One candidate map, fitted.

    Args:
        name: the task's name for it.
        operator: the fit, with its hold-out R² and its eigenvalues.
        null_r2: the largest hold-out R² of the same fit over shuffled pairs; None where none was asked for.
        error: largest distance between the fitted eigenvalues and the task's, matched. Where the task states more of them than
            the core has dimensions k, the k of largest modulus are meant (:func:`leading_spectrum`); None where it states none,
            or fewer than k.
    """

    name: str
    operator: Operator
    null_r2: float | None
    error: Estimate | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Identification:
    """All candidate maps, best first.

    Args:
        candidates: ranked by hold-out R².
        coordinates: ``core`` or ``law``. successors: ``sampled`` or ``predicted``.
    """

    candidates: tuple[IdentifiedMap, ...]
    coordinates: str
    successors: str = "sampled"

    @property
    def best(self) -> IdentifiedMap:
        """The map with the largest hold-out R²."""
        return self.candidates[0]


def core_coordinates(core: Core, model: nn.Module, batches: Iterable[Batch]) -> tuple[Float[Tensor, "n k"], Rows]:
    """Core coordinates of every selected token, [n, k] in float64, and the rows."""
    positions = parse_positions(core.provenance.positions)
    return site_rows(model, batches, core.coordinates, site=core.provenance.site, positions=positions)


def identify_operator(
    core: Core,
    model: nn.Module,
    task: Task,
    batches: Iterable[Batch],
    *,
    coordinates: Literal["core", "law"] = "core",
    successors: Literal["sampled", "predicted"] = "sampled",
    method: Method = "least_squares",
    generator: torch.Generator | None = None,
    num_bootstrap: int = 200,
    num_shuffles: int = NUM_SHUFFLES,
) -> Identification:
    """Fit every candidate map of ``task`` on the core's coordinates.

    Args:
        core: the core, with its site and positions in its provenance.
        model: its model.
        task: states the candidate maps.
        batches: where the coordinates are read; their sampling error bounds the eigenvalues' (~ N^-1/2).
        coordinates: ``core`` or ``law``, see the module's text.
        successors: ``sampled`` or ``predicted``, see the module's text; ``predicted`` fits at one random token a sequence.
        method: of :func:`invariscope.numerics.fit_operator`; ``total_least_squares`` for predicted successors only.
        generator: of splits, draws and shuffles; None: seed 0.
        num_bootstrap: draws behind the intervals. num_shuffles: repetitions of the null; 0: no null.

    Raises:
        UnknownNameError: for another choice. ConfigError: where the task states no candidate map, for predicted successors of a
            map that does not go from each token to the next, or for total least squares on sampled ones.
        TooFewSamplesError: for too few sequences.
    """
    if coordinates not in ("core", "law"):
        raise unknown_name("coordinates", str(coordinates), ("core", "law"))
    if successors not in ("sampled", "predicted"):
        raise unknown_name("successors", str(successors), ("sampled", "predicted"))
    if method == "total_least_squares" and successors == "sampled":
        raise ConfigError(
            "total least squares on sampled successors, whose errors are those of z_{t+1} alone",
            expected="errors of one size on both sides",
            do="pass successors='predicted', or method='least_squares'",
        )
    if not task.candidate_maps:
        raise ConfigError(
            f"task {task.name!r}, which states no candidate map", expected="at least one", do="fit_operator on pairs"
        )
    generator = generator or torch.Generator().manual_seed(0)
    fit = functools.partial(fit_operator, generator=generator, method=method)
    if successors == "predicted":
        ends = predicted_successors(core, model, batches, coordinates=coordinates, generator=generator)
        maps = [candidate for candidate in task.candidate_maps if follows_tokens(candidate)]
        if not maps:
            raise ConfigError(
                f"predicted successors of {', '.join(candidate.name for candidate in task.candidate_maps)}",
                expected="a candidate map from each token to the next one",
                do="use successors='sampled'",
            )
        fitted = [
            _fit(candidate, ends.z_from, ends.z_to, ends.groups, fit, generator, num_bootstrap, num_shuffles)
            for candidate in maps
        ]
    else:
        if coordinates == "core":
            z, rows = core_coordinates(core, model, batches)
        else:
            law, rows = measure_law(core, model, batches)
            z = (law - law.mean(0)) @ leading_directions(law, core.rank)
        fitted = []
        for candidate in task.candidate_maps:
            i, j = candidate.pairs(rows)
            fitted.append(_fit(candidate, z[i], z[j], rows.groups[i], fit, generator, num_bootstrap, num_shuffles))
    fitted.sort(key=lambda found: -found.operator.r2_heldout.value)
    return Identification(candidates=tuple(fitted), coordinates=coordinates, successors=successors)


def _fit(
    candidate: CandidateMap,
    z_from: Tensor,
    z_to: Tensor,
    groups: Tensor,
    fit: Callable[..., Operator],
    generator: torch.Generator,
    num_bootstrap: int,
    num_shuffles: int,
) -> IdentifiedMap:
    operator = fit(z_from, z_to, groups=groups, num_bootstrap=num_bootstrap)
    null = []
    for _ in range(num_shuffles):
        shuffled = z_to[permuted_groups(groups, generator)]
        null.append(fit(z_from, shuffled, groups=groups, num_bootstrap=0).r2_heldout.value)
    expected = None if candidate.spectrum is None else leading_spectrum(candidate.spectrum, len(operator.eigenvalues))
    error = None if expected is None else operator.error(expected)
    return IdentifiedMap(name=candidate.name, operator=operator, null_r2=max(null, default=None), error=error)


def leading_spectrum(spectrum: Complex[Tensor, "m"], k: int) -> Complex[Tensor, "k"] | None:
    """The k eigenvalues of largest modulus that a k-dimensional core can carry; None where there are fewer than k.

    A 12-state chain of rank 4 has eleven eigenvalues without the 1, eight of them 0: a core of three dimensions is held against
    the other three. Moduli equal to nine decimals keep their order, so a conjugate pair is cut only where k falls inside it.

    >>> leading_spectrum(torch.tensor([0.5, 0.0, -0.7, 0.0], dtype=torch.complex128), 2).real.tolist()
    [-0.7, 0.5]
    """
    if len(spectrum) < k:
        return None
    modulus = spectrum.abs().round(decimals=9)
    return spectrum[modulus.argsort(descending=True, stable=True)[:k]]
