"""Follow a core over training: the same measurements at every checkpoint of a run (arXiv:2602.22600, over time).

At each checkpoint: how many directions suffice and are necessary, what the energy rules say, how far the core's span overlaps
that of the *last* checkpoint's core (beside chance, k/D for random spans), what keeping the core alone loses, and how far the
eigenvalues of the operator in it are from the task's. The rank is chosen once, at the last checkpoint, so that overlaps and
spectra compare cores of one size. Every checkpoint sees the same sequences: what changes is the model. Where the core places each
token is given as well, turned onto the last checkpoint's core: a core's directions are free up to a rotation.

>>> import tempfile
>>> from invariscope.models import TransformerConfig
>>> from invariscope.tasks import MarkovChain
>>> from invariscope.training import TrainConfig, train
>>> task = MarkovChain([[0.9, 0.1], [0.5, 0.5]], 4)
>>> shape = TransformerConfig(vocab_size=2, context_length=4, width=8, num_heads=2, mlp_width=8)
>>> config = TrainConfig(steps=20, learning_rate=1e-2, checkpoint_every=10)
>>> [run] = train(task, shape, config, seeds=[0], folder=tempfile.mkdtemp(), progress=False)
>>> series = follow_core(run, task, site="blocks.0.resid_mid", rank=1, num_sequences=64, operator_sequences=64, progress=False)
>>> [found.step for found in series.checkpoints], round(series.checkpoints[-1].overlap.value, 6)
([10, 20], 1.0)
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from invariscope.cores.compare import projector_overlap
from invariscope.cores.core import Core
from invariscope.cores.core_series import CoreAtStep, CoreSeries, Eigenvalue
from invariscope.cores.extract import CURVE_RANKS, collect_moments, extract_core, rank_curve
from invariscope.cores.identify import core_coordinates, identify_operator, leading_spectrum
from invariscope.cores.moments import PROJECTIONS, Moments
from invariscope.cores.ranks import Rank, by_energy, by_sufficiency
from invariscope.errors import CheckpointError, unknown_name
from invariscope.estimate import Estimate
from invariscope.models import Transformer
from invariscope.numerics.procrustes import fit_procrustes
from invariscope.parallel import track
from invariscope.positions import Positions, describe_positions
from invariscope.tasks import SampledBatches, Task, derive_seed
from invariscope.training import Run
from invariscope.training.series import find_checkpoints, load_for

__all__ = ["follow_core"]

TOLERANCE = 0.02
BATCH = 256
# Energy shares that the paper and its public code use.
SHARES = (0.99, 0.999)


def follow_core(
    run_or_folder: Run | Path | str,
    task: Task,
    *,
    site: str,
    projection: str = "adjoint",
    rank: Rank | None = None,
    positions: Positions | None = None,
    tolerance: float = TOLERANCE,
    max_rank: int = CURVE_RANKS,
    coordinates: Literal["auto", "core", "law"] = "auto",
    num_sequences: int = 2048,
    operator_sequences: int = 8192,
    num_bootstrap: int = 200,
    initial: Transformer | None = None,
    steps: Collection[int] | None = None,
    seed: int = 0,
    progress: bool = True,
) -> CoreSeries:
    """Measure the core of every checkpoint at ``site``.

    Args:
        run_or_folder: a run, its folder, or a folder of checkpoints ``step-00000100.safetensors``, ...
        task: where sequences come from, and what the spectrum is held against (its first candidate map).
        site: a site of the models.
        projection: of the cores: ``activation``, ``adjoint`` or ``oblique``.
        rank: an int or a rule, applied at the last checkpoint and kept for all; None: ``by_sufficiency(tolerance)``.
        positions: where the site is read and the outputs are taken; None: the task's loss positions.
        tolerance: of the causal ranks, as a share.
        max_rank: the largest rank that the causal rules try.
        coordinates: that the operator is fitted on (:mod:`invariscope.cores.identify`); auto: ``core`` where the rank is the
            number of outputs less one, else ``law``.
        num_sequences: that cores are extracted from, and as many held-out ones that ranks and losses are measured on.
        operator_sequences: behind each spectrum; its sampling error falls like their number^-1/2.
        num_bootstrap: draws behind the intervals of the spectrum's error.
        initial: the model before its first step (:func:`invariscope.training.initial_model`), which is measured as step 0 unless
            a checkpoint of that step is there; None: the series begins at the first checkpoint.
        steps: of the checkpoints to measure; None: of all. The last one always is.
        seed: of the sequences; the same for every checkpoint.
        progress: show a progress bar.

    Raises:
        ConfigError: for a run in memory, or a task that does not fit a model (its file is named).
        CheckpointError: where there is no checkpoint, or none of one of ``steps``.
        ForeignFileError: for a damaged or foreign checkpoint, named.
        UnknownNameError: for an unknown site or projection. RankError: where no rank suffices at the last checkpoint.
    """
    if projection not in PROJECTIONS:
        raise unknown_name("projection", str(projection), PROJECTIONS)
    if coordinates not in ("auto", "core", "law"):
        raise unknown_name("coordinates", str(coordinates), ("auto", "core", "law"))
    found: list[tuple[int, Path | Transformer]] = [*find_checkpoints(run_or_folder)]
    if steps is not None:
        found = _chosen(found, steps)
    if initial is not None and found[0][0] > 0:
        found.insert(0, (0, initial))
    positions = task.loss_positions if positions is None else positions
    train_pool, heldout_pool = task.pools[0], task.pools[:2][-1]

    def draw(num: int, purpose: str, pool: str) -> SampledBatches:
        return SampledBatches(task, num, batch_size=BATCH, seed=derive_seed(seed, "follow", purpose), pool=pool)

    extraction, heldout = draw(num_sequences, "extraction", train_pool), draw(num_sequences, "heldout", heldout_pool)
    transitions = draw(operator_sequences, "transitions", heldout_pool)
    # The last one decides the rank, and is what the others are compared with.
    last_model = load_for(found[-1][1], task)
    rule = by_sufficiency(tolerance) if rank is None else rank
    last = extract_core(last_model, extraction, site=site, positions=positions, rank=rule, projection=projection)
    if coordinates == "auto":
        coordinates = "core" if last.rank >= task.num_outputs - 1 else "law"
    tokens, target = _token_means(last, last_model, extraction)
    checkpoints: list[CoreAtStep] = []
    chance = float("nan")
    with track("following", len(found), unit="checkpoints", show=progress) as advance:
        for step, source in found:
            model = last_model if step == found[-1][0] else load_for(source, task)
            moments = collect_moments(model, extraction, sites=[site], positions=positions)[site]
            curve = rank_curve(
                moments, model, heldout, projection=projection, positions=positions, max_rank=max(max_rank, last.rank)
            )
            core = moments.core(last.rank, projection)
            eigenvalues, error = _spectrum(core, model, task, transitions, coordinates, num_bootstrap)
            judged = curve.better_than_chance and last.rank in curve.ranks
            chance = curve.chance
            checkpoints.append(
                CoreAtStep(
                    step=step,
                    cross_entropy=curve.full,
                    sufficient=curve.sufficient(tolerance),
                    necessary=curve.necessary(tolerance),
                    energy_99=_energy(moments, SHARES[0]),
                    energy_999=_energy(moments, SHARES[1]),
                    keep_loss=curve.keep_loss()[curve.ranks.index(last.rank)] if judged else None,
                    overlap=projector_overlap(core, last),
                    eigenvalues=eigenvalues,
                    spectrum_error=error,
                    means=_turned(_token_means(core, model, extraction)[1], target),
                )
            )
            advance()
    first_map = task.candidate_maps[0] if task.candidate_maps else None
    expected = None if first_map is None or first_map.spectrum is None else leading_spectrum(first_map.spectrum, last.rank)
    return CoreSeries(
        task=task.name,
        site=site,
        positions=describe_positions(positions),
        projection=projection,
        rank=last.rank,
        rank_rule=last.provenance.rank_rule,
        dim=last.dim,
        tolerance=tolerance,
        chance=chance,
        map_name="" if first_map is None else first_map.name,
        coordinates=coordinates,
        expected=() if expected is None else _pairs(expected),
        num_sequences=num_sequences,
        operator_sequences=operator_sequences,
        checkpoints=tuple(checkpoints),
        tokens=tokens,
    )


def _chosen(found: list[tuple[int, Path | Transformer]], steps: Collection[int]) -> list[tuple[int, Path | Transformer]]:
    missing = sorted(set(steps) - {step for step, _ in found})
    if missing:
        raise CheckpointError(
            f"no checkpoint of step {', '.join(map(str, missing[:3]))}{' ...' if len(missing) > 3 else ''}",
            expected=f"some of {', '.join(str(step) for step, _ in found[:8])}{' ...' if len(found) > 8 else ''}",
            do="name steps that were saved",
        )
    return [(step, source) for step, source in found[:-1] if step in steps] + found[-1:]


def _energy(moments: Moments, share: float) -> int:
    return moments.core(by_energy(share), "adjoint").rank


def _spectrum(
    core: Core, model: nn.Module, task: Task, batches: SampledBatches, coordinates: Literal["core", "law"], num_bootstrap: int
) -> tuple[tuple[Eigenvalue, ...], Estimate | None]:
    """Eigenvalues and error of the task's first candidate map."""
    if not task.candidate_maps:
        return (), None
    found = identify_operator(
        core, model, task, batches, coordinates=coordinates, num_bootstrap=num_bootstrap, num_shuffles=0
    ).candidates
    first = next(candidate for candidate in found if candidate.name == task.candidate_maps[0].name)
    return _pairs(first.operator.eigenvalues), first.error


def _token_means(core: Core, model: nn.Module, batches: SampledBatches) -> tuple[tuple[int, ...], Float[Tensor, "m k"]]:
    """The tokens where the site is read, ascending, and the mean core coordinates of each."""
    z, rows = core_coordinates(core, model, batches)
    ids = torch.cat([batch.inputs["tokens"] for batch in batches])[rows.b, rows.t]
    tokens, which = ids.unique(return_inverse=True)
    if len(tokens) < 2:
        return (), z.new_zeros(0, core.rank)
    sums = z.new_zeros(len(tokens), core.rank).index_add_(0, which, z)
    return tuple(tokens.tolist()), sums / torch.bincount(which)[:, None]


def _turned(means: Float[Tensor, "m k"], target: Float[Tensor, "m k"]) -> tuple[tuple[float, ...], ...]:
    """``means`` turned (and reflected, never stretched) so that they lie as near as can be to ``target``."""
    if not len(means):
        return ()
    return tuple(tuple(row) for row in (means @ fit_procrustes(means, target).rotation).tolist())


def _pairs(eigenvalues: torch.Tensor) -> tuple[Eigenvalue, ...]:
    return tuple((float(value.real), float(value.imag)) for value in eigenvalues)
