"""A linear probe as a baseline: the directions that a logistic regression uses to read the answer from the activations.

With class weights w_c of a regression on the activations, centred over the classes (a common part changes no prediction), the
probe's subspace is spanned by their leading singular directions. What can be read is not what is used: beside a core, a probe
usually keeps less of the output, or needs more directions.

scikit-learn fits it. A further row of the table of effects:
``validate_core(core, model, batches, controls={"probe": [linear_probe_core(model, batches, ...).core]})``.

>>> rows = torch.tensor([[0.0, 9.0], [1.0, 8.0], [4.0, 9.0], [5.0, 8.0]])
>>> weights = probe_weights(rows, torch.tensor([0, 0, 1, 1]))[0]
>>> list(weights.shape), bool(weights[0, 0] < 0 < weights[1, 0]), bool((weights[:, 0].abs() > weights[:, 1].abs()).all())
([2, 2], True, True)
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from invariscope.batch import Batch, check_batches
from invariscope.cores.baselines import Baseline
from invariscope.cores.controls import describe_filling, fill_up
from invariscope.cores.core import Core, Provenance
from invariscope.cores.moments import versions
from invariscope.errors import ObjectiveError, RankError, TooFewSamplesError, unknown_name
from invariscope.models import fingerprint
from invariscope.numerics.linalg import no_autocast
from invariscope.numerics.resampling import estimate_mean, split_groups
from invariscope.numerics.subspaces import fix_signs
from invariscope.positions import Positions, Rows, describe_positions, positions_of, rows_of
from invariscope.sites import frozen, read_sites

__all__ = ["linear_probe_core", "probe_weights"]

Answers = Literal["targets", "labels"]
# A row of activations is kept for each: 20 000 of D = 4096 are 655 MB in float64.
MAX_SAMPLES = 20_000
_MAX_STEPS = 1000


def linear_probe_core(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    site: str,
    rank: int,
    positions: Positions = "last",
    outputs_at: Positions | None = None,
    answers: Answers = "targets",
    heldout_share: float = 0.2,
    max_samples: int = MAX_SAMPLES,
    generator: torch.Generator,
) -> Baseline:
    """The subspace of a logistic regression from the activations at a site to the answer.

    Args:
        model: in evaluation mode; restored.
        batches: read until there are ``max_samples`` tokens.
        rank: k; beyond the C - 1 directions that tell C answers apart it is filled up with random ones, and says so.
        positions: which tokens; ``outputs_at`` only goes into the provenance, for ``validate_core`` (None: the same).
        answers: ``targets`` (the correct output at each token) or ``labels`` (the class of the sequence).
        heldout_share: share of the groups that the accuracy is scored on; the directions are those of the other part.
        generator: of the split, the interval and the filling.

    Returns:
        The core (orthogonal, about the mean activation), the probe's hold-out accuracy with its chance level, and the cost.

    Raises:
        ObjectiveError: for batches without the answers.
        TooFewSamplesError: where the fitted part has fewer than two answers. RankError: for a rank above the dimension.
        UnknownNameError: for other answers, and as :func:`invariscope.sites.read_sites` does.
    """
    if answers not in ("targets", "labels"):
        raise unknown_name("answers", str(answers), ("targets", "labels"))
    started = time.process_time()
    activations, found, groups = _read(model, batches, site, positions, answers, max_samples)
    dim = activations.shape[1]
    if not 1 <= rank <= dim:
        raise RankError(f"rank {rank} at {site!r}", expected=f"1 to {dim}, the site's dimension", do="use the core's rank")
    heldout = split_groups(groups, heldout_share, generator)
    weights, predict, steps = probe_weights(activations[~heldout], found[~heldout])
    right = (predict(activations[heldout]) == found[heldout]).double()
    score = estimate_mean(
        right,
        generator=generator,
        groups=groups[heldout],
        unit="share",
        chance=float(torch.unique(found[heldout], return_counts=True)[1].max()) / len(right),
    )
    with no_autocast(weights):
        directions, sigma, _ = torch.linalg.svd(weights.T, full_matrices=False)
    known = min(int((sigma > 1e-9 * sigma[0]).sum()), len(weights) - 1)
    write, _ = fix_signs(fill_up(directions[:, :known], rank, generator))
    provenance = Provenance(
        site=site,
        positions=describe_positions(positions),
        outputs_at=describe_positions(positions if outputs_at is None else outputs_at),
        objective=f"logistic regression on {answers}",
        projection="probe",
        rank_rule=describe_filling(known, rank, "directions of the probe"),
        num_samples=int((~heldout).sum()),
        model=fingerprint(model),
        versions=versions(),
    )
    core = Core(read=write, write=write, mean=activations.mean(0), singular_values=sigma, provenance=provenance)
    return Baseline(core=core, score=score, steps=steps, cpu_seconds=time.process_time() - started)


def probe_weights(rows: Float[Tensor, "n D"], answers: Int[Tensor, "n"]) -> tuple[Float[Tensor, "C D"], Any, int]:
    """Weights of a logistic regression, centred over the classes, its prediction of other rows, and the steps that it took.

    Fitted on standardised columns, with scikit-learn's default penalty there, and mapped back.

    Raises:
        TooFewSamplesError: for fewer than two different answers.
    """
    # Imported here: it takes a second, and nothing else needs it.
    from sklearn.linear_model import LogisticRegression

    if len(answers.unique()) < 2:
        raise TooFewSamplesError(
            f"{len(answers)} rows to fit a probe on, all of one answer",
            expected="at least two answers",
            do="give batches whose answers differ",
        )
    rows = rows.double().cpu()
    mean, scale = rows.mean(0), rows.std(0)
    scale = torch.where(scale > 0, scale, 1.0)
    fit = LogisticRegression(max_iter=_MAX_STEPS).fit(((rows - mean) / scale).numpy(), answers.cpu().numpy())

    def predict(other: Float[Tensor, "m D"]) -> Int[Tensor, "m"]:
        return torch.from_numpy(fit.predict(((other.double().cpu() - mean) / scale).numpy()))

    weights = torch.from_numpy(fit.coef_) / scale
    if len(weights) == 1:
        # Two answers have one row of weights, their difference.
        weights = torch.cat([-weights, weights]) / 2
    return weights - weights.mean(0), predict, int(max(fit.n_iter_))


def _read(
    model: nn.Module, batches: Iterable[Batch], site: str, positions: Positions, answers: Answers, max_samples: int
) -> tuple[Float[Tensor, "n D"], Int[Tensor, "n"], Int[Tensor, "n"]]:
    """At most ``max_samples`` activations, their answers and their groups."""
    activations: list[Tensor] = []
    parts: list[Rows] = []
    first_row = num = 0
    with torch.no_grad(), frozen(model):
        for batch in check_batches(batches):
            with read_sites(model, [site], positions=positions_of(batch, positions), valid=batch.valid) as seen:
                model(**batch.inputs)
            activations.append(seen[site].double().cpu())
            parts.append(rows_of(batch, seen.index, first_row=first_row))
            first_row += batch.num_rows
            num += len(activations[-1])
            if num >= max_samples:
                break
    if not num:
        raise TooFewSamplesError("batches that are empty", expected="at least one batch", do="pass task.batches(num, ...)")
    rows = Rows.concatenate(parts)
    found = rows.targets if answers == "targets" else rows.labels
    if found is None:
        raise ObjectiveError(
            f"a probe on batches without {answers}", expected=f"Batch.{answers}", do="fill it, or pass the other answers="
        )
    return torch.cat(activations)[:max_samples], found.cpu()[:max_samples], rows.groups.cpu()[:max_samples]
