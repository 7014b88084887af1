"""Distributed alignment search: a subspace that is optimised, as a baseline for one that is extracted (arXiv:2303.02536).

An orthonormal basis Q [D, k] is moved by Adam until keeping it, h -> μ + Q Qᵀ (h - μ), leaves the model's own output as it was.
Geiger et al. exchange activations between inputs that a causal model pairs; here the unedited model is the target, as for a core.
It is trained for the very test that a core must pass, so it shows what an orthogonal subspace of this rank can keep; nothing
asks it to be *necessary*. Its cost stands beside it, because a core costs one pass.

>>> from invariscope.models import Transformer, TransformerConfig
>>> from invariscope.tasks import MarkovChain
>>> task = MarkovChain([[0.9, 0.1], [0.5, 0.5]], 4)
>>> shape = TransformerConfig(vocab_size=2, context_length=4, width=8, num_heads=2, mlp_width=8)
>>> model = Transformer(shape, generator=torch.Generator().manual_seed(0))
>>> batches = task.batches(64, batch_size=32, seed=0, pool="train")
>>> das = distributed_alignment_search(
...     model, batches, site="blocks.0.resid_mid", rank=1, positions="all", steps=3, generator=torch.Generator().manual_seed(0)
... )
>>> das.core.rank, das.core.provenance.rank_rule, das.steps, das.cpu_seconds > 0
(1, 'given; 3 steps of Adam', 3, True)

A further row of the table: ``validate_core(core, model, batches, controls={**moments.controls(...), "das": [das.core]})``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from invariscope.batch import Batch, check_batches
from invariscope.cores.core import Core, Provenance
from invariscope.cores.measure import check_any
from invariscope.cores.moments import versions
from invariscope.errors import ConfigError, RankError
from invariscope.estimate import Estimate
from invariscope.models import fingerprint
from invariscope.numerics.linalg import no_autocast, positive_qr
from invariscope.numerics.resampling import estimate_mean
from invariscope.numerics.subspaces import fix_signs, random_subspace
from invariscope.positions import Positions, Rows, describe_positions, positions_of, rows_of, select_positions
from invariscope.sites import LogitsOf, Objective, edit_site, frozen, logits_at, output_logits, read_sites

__all__ = ["Baseline", "distributed_alignment_search"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Baseline:
    """A subspace that was fitted, and what that cost.

    Args:
        core: as any other.
        score: how good the fit is by its own measure: for DAS the loss over all batches, for a probe its hold-out accuracy.
        steps: of the optimiser. cpu_seconds: processor time of the whole fit, reading the activations included.
        losses: at each step, where the optimiser tells.
    """

    core: Core
    score: Estimate
    steps: int
    cpu_seconds: float
    losses: tuple[float, ...] = ()


def distributed_alignment_search(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    site: str,
    rank: int,
    positions: Positions = "last",
    outputs_at: Positions | None = None,
    objective: Objective | None = None,
    steps: int = 300,
    learning_rate: float = 0.05,
    generator: torch.Generator,
    logits_of: LogitsOf | None = None,
) -> Baseline:
    """Optimise an orthonormal basis whose keep leaves the model's own output as it was.

    ``min_Q mean KL(p(x) || p(x | h -> μ + Q Qᵀ (h - μ)))``, Q from the QR of an unconstrained matrix

    Args:
        model: in evaluation mode, weights frozen; both restored.
        batches: one a step, in turn; weights of the rows count.
        rank: k.
        positions, outputs_at: where the site is edited and where outputs are compared; None: the same.
        objective: None: the divergence of all probabilities; else the mean squared change of its numbers.
        steps: of Adam. learning_rate: falls to zero along a half cosine.
        generator: of the random start.
        logits_of: as in :func:`invariscope.cores.collect_moments`.

    Returns:
        The core (orthogonal, about the mean activation), its loss over all batches, and the cost: two forward passes and one
        backward pass a step, after one pass for the mean.

    Raises:
        ConfigError: for fewer than 1 step. RankError: for a rank above the site's dimension. And as :func:`edit_site` does.
    """
    if steps < 1:
        raise ConfigError(f"{steps} steps of optimisation", expected="at least 1", do="leave steps at its default of 300")
    outputs_at = positions if outputs_at is None else outputs_at
    started = time.process_time()
    mean, num_samples = _mean_activation(model, batches, site, positions)
    if not 1 <= rank <= len(mean):
        raise RankError(f"rank {rank} at {site!r}", expected=f"1 to {len(mean)}, the site's dimension", do="use the core's rank")

    def change(batch: Batch, basis: Tensor, first_row: int = 0) -> tuple[Tensor, Rows]:
        """How much keeping the span of ``basis`` changes the output of each row."""
        index = select_positions(positions_of(batch, outputs_at), valid=batch.valid, shape=(batch.num_rows, batch.length))
        rows = rows_of(batch, index, first_row=first_row)
        with torch.no_grad():
            before = logits_at(output_logits(model(**batch.inputs), logits_of), index).double()
        with edit_site(model, site, lambda x: _keep(x, mean, basis), positions=positions_of(batch, positions), valid=batch.valid):
            after = logits_at(output_logits(model(**batch.inputs), logits_of), index).double()
        if objective is not None:
            return (objective(after, rows) - objective(before, rows)).square().sum(1), rows
        p, q = before.log_softmax(-1), after.log_softmax(-1)
        return (p.exp() * (p - q)).sum(1), rows

    with frozen(model), torch.inference_mode(False), torch.enable_grad():
        matrix = random_subspace(len(mean), rank, generator).to(mean.device).requires_grad_()
        optimiser = torch.optim.Adam([matrix], lr=learning_rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=steps)
        losses = []
        while len(losses) < steps:
            for batch in check_batches(batches):
                found, rows = change(batch, positive_qr(matrix)[0])
                loss = found.mean() if rows.weights is None else (found * rows.weights.to(found)).sum() / rows.weights.sum()
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                schedule.step()
                losses.append(float(loss.detach()))
                if len(losses) == steps:
                    break
        basis = positive_qr(matrix.detach())[0]
        unit = "nats" if objective is None else "squared change"
        with torch.no_grad():
            score = _score(change, batches, basis, generator, unit)
    write, _ = fix_signs(basis, None)
    provenance = Provenance(
        site=site,
        positions=describe_positions(positions),
        outputs_at=describe_positions(outputs_at),
        objective="divergence from the unedited model" if objective is None else objective.name,
        projection="das",
        rank_rule=f"given; {steps} steps of Adam",
        num_samples=num_samples,
        model=fingerprint(model),
        versions=versions(),
    )
    core = Core(read=write, write=write, mean=mean, singular_values=_NO_SPECTRUM, provenance=provenance)
    return Baseline(core=core, score=score, steps=steps, cpu_seconds=time.process_time() - started, losses=tuple(losses))


_NO_SPECTRUM = torch.zeros(0, dtype=torch.float64)


def _keep(x: Float[Tensor, "n D"], mean: Float[Tensor, "D"], basis: Float[Tensor, "D k"]) -> Float[Tensor, "n D"]:
    with no_autocast(x):
        centre = mean.to(x.device)
        q = basis.to(x.device)
        return centre + (x.to(torch.float64) - centre) @ q @ q.T


def _mean_activation(
    model: nn.Module, batches: Iterable[Batch], site: str, positions: Positions
) -> tuple[Float[Tensor, "D"], int]:
    """Mean over all selected tokens, weighted where the batches say so, and their number; keeps no activations."""
    sums: list[Tensor] = []
    total, num = 0.0, 0
    # Not in inference mode, whose tensors cannot take part in a gradient later.
    with torch.inference_mode(False), torch.no_grad(), frozen(model):
        for batch in check_batches(batches):
            with read_sites(model, [site], positions=positions_of(batch, positions), valid=batch.valid) as seen:
                model(**batch.inputs)
            rows = seen[site].double()
            weights = rows_of(batch, seen.index).weights
            weight = torch.ones_like(rows[:, 0]) if weights is None else weights.to(rows)
            sums.append(weight @ rows)
            total, num = total + float(weight.sum()), num + len(rows)
    check_any(sums)
    return torch.stack(sums).sum(0) / total, num


def _score(
    change: Callable[[Batch, Tensor, int], tuple[Tensor, Rows]],
    batches: Iterable[Batch],
    basis: Tensor,
    generator: torch.Generator,
    unit: str,
) -> Estimate:
    """The loss over all batches, with its interval."""
    values, weights, groups, first_row = [], [], [], 0
    for batch in batches:
        found, rows = change(batch, basis, first_row)
        first_row += batch.num_rows
        values.append(found.cpu())
        groups.append(rows.groups.cpu())
        weights.append(torch.ones(rows.num) if rows.weights is None else rows.weights.cpu())
    return estimate_mean(torch.cat(values), generator=generator, groups=torch.cat(groups), weights=torch.cat(weights), unit=unit)
