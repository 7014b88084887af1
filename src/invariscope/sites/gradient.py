"""Jacobians of an objective with respect to activations: several sites, one forward pass, no backward hooks.

A zero perturbation is added at each site and selected token, and ``torch.autograd.grad`` differentiates with respect to it:
several sites on one path do not cut each other's graph. Weights are frozen meanwhile; every mode is restored afterwards.

Reach. With one output a sequence, J[b, s, k] = d f_k(b) / d h[b, s]. With several, ``same`` differentiates the objective at a
token with respect to the site at that very token; ``later`` sums over every output that the token reaches. Where nothing above
the site mixes tokens both are one backward pass an output; otherwise ``same`` takes one a token, as it must.

For K > 32 outputs, K backward passes would be wasteful: random signs v give E[(Jᵀv)(Jᵀv)ᵀ] = JᵀJ, so ``sketch`` = s rows
(Jᵀv) / sqrt(s) a sample stand for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from invariscope.batch import Batch
from invariscope.errors import NoForwardError, ObjectiveError, PositionError, ShapeError
from invariscope.positions import Positions, Rows, rows_of, select_positions
from invariscope.sites.hooks import Selection, gather_rows, hook_site, scatter_rows
from invariscope.sites.names import Site, resolve_site
from invariscope.sites.objective import LogitsOf, Objective, logits_at, output_logits

__all__ = ["DEFAULT_SKETCH", "MAX_EXACT_OUTPUTS", "SiteGradients", "frozen", "resolve_sketch", "site_gradients"]

Reach = Literal["same", "later"]
MAX_EXACT_OUTPUTS = 32
DEFAULT_SKETCH = 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiteGradients:
    """Activations and Jacobians at one site.

    Args:
        activations: [n, D], detached.
        jacobians: [n, K, D], or [n, s, D] where sketched.
        rows: what is known about the n tokens.
    """

    activations: Float[Tensor, "n D"]
    jacobians: Float[Tensor, "n K D"]
    rows: Rows


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Inside, ``model`` is in evaluation mode and its parameters need no gradient; both are restored, whatever happens."""
    needed = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        for parameter, _ in needed:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter, flag in needed:
            parameter.requires_grad_(flag)
        for module, mode in modes:
            module.training = mode


def resolve_sketch(sketch: int | Literal["auto"] | None, num_outputs: int) -> int | None:
    """How many random signs a sample stand for K = ``num_outputs`` Jacobian rows; None: all rows themselves."""
    if sketch == "auto":
        return DEFAULT_SKETCH if num_outputs > MAX_EXACT_OUTPUTS else None
    if sketch is not None and (not isinstance(sketch, int) or sketch < 1):
        raise ObjectiveError(f"sketch = {sketch!r}", expected="'auto', None or a positive int", do="leave it at 'auto'")
    return sketch


def site_gradients(
    model: nn.Module,
    batch: Batch,
    *,
    sites: Sequence[str],
    objective: Objective,
    positions: Positions,
    outputs_at: Positions | None = None,
    reach: Reach = "same",
    sketch: int | Literal["auto"] | None = "auto",
    generator: torch.Generator | None = None,
    logits_of: LogitsOf | None = None,
) -> dict[str, SiteGradients]:
    """Activations and Jacobians of ``objective`` at every site, in one forward pass.

    Args:
        model: any module; run in evaluation mode, its weights frozen, both restored.
        batch: the rows.
        sites: names, see :mod:`invariscope.sites.names`.
        objective: K differentiable numbers a row.
        positions: the tokens whose activations are differentiated.
        outputs_at: the tokens at which the objective is taken; None: ``positions``.
        reach: ``same`` or ``later``, see the module's text.
        sketch: random signs a sample; ``auto``: 16 where K > 32, else exact.
        generator: source of the signs; needed only where sketched.
        logits_of: from the model's output to its logits, where it is neither a tensor nor has ``.logits``.

    Returns:
        Per site: activations [n, D], Jacobians [n, K, D] in the activations' type, and the rows.

    Raises:
        UnknownNameError, PositionError, ObjectiveError, ShapeError, NoForwardError: each with what to do.
    """
    resolved = [resolve_site(model, name) for name in sites]
    shape = (batch.num_rows, batch.length)
    index = select_positions(positions, valid=batch.valid, shape=shape)
    outputs = index if outputs_at is None else select_positions(outputs_at, valid=batch.valid, shape=shape)
    _check_reach(reach, index, outputs)
    perturbations: dict[str, Tensor] = {}
    activations: dict[str, Tensor] = {}

    def perturb(site: Site, chosen: Selection) -> object:
        def add_zero(tensor: Tensor) -> Tensor:
            rows = gather_rows(site, tensor, chosen)
            if rows.ndim != 2:
                raise ShapeError(
                    f"site {site.name!r} with rows of shape {list(rows.shape)}",
                    expected="one vector a token, [n, D]",
                    do="choose a site of the residual stream, an attention or MLP output, or a module that gives [B, T, D]",
                )
            activations[site.name] = rows.detach().clone()
            zero = torch.zeros_like(rows, requires_grad=True)
            perturbations[site.name] = zero
            return scatter_rows(site, tensor, chosen, rows + zero)

        return add_zero

    with frozen(model), ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        for site in resolved:
            stack.enter_context(hook_site(site, perturb(site, index)))  # pyright: ignore[reportArgumentType]
        found = logits_at(output_logits(model(**batch.inputs), logits_of), outputs)
        for site in resolved:
            if site.name not in perturbations:
                raise NoForwardError(
                    f"site {site.name!r}, which the forward pass did not reach",
                    expected="a module that this model calls",
                    do="choose another site",
                )
        output_rows = rows_of(batch, outputs)
        values = objective(found, output_rows)
        if values.ndim != 2 or len(values) != len(outputs):
            raise ObjectiveError(
                f"an objective {objective.name!r} that gives {list(values.shape)} for {len(outputs)} rows",
                expected=f"[{len(outputs)}, K]",
                do="return K numbers a row",
            )
        directions = _directions(values, resolve_sketch(sketch, values.shape[1]), generator)
        groups = _token_groups(outputs) if reach == "same" and outputs_at is None else None
        jacobians = _jacobians(values, directions, resolved, perturbations, groups, index)
    rows = output_rows if outputs_at is None else rows_of(batch, index)
    return {
        site.name: SiteGradients(activations=activations[site.name], jacobians=jacobians[site.name], rows=rows)
        for site in resolved
    }


def _check_reach(reach: str, index: Selection, outputs: Selection) -> None:
    if reach not in ("same", "later"):
        raise PositionError(f"reach {reach!r}", expected="'same' or 'later'", do="choose one of them")
    several = len(outputs) != len(outputs[:, 0].unique())
    if reach == "same" and several and not torch.equal(index, outputs):
        raise PositionError(
            "reach='same' with several outputs a sequence at other tokens than the site is read at",
            expected="outputs_at equal to positions, or one output a sequence",
            do="use reach='later' to sum over the outputs, or leave outputs_at out",
        )


def _directions(values: Tensor, sketch: int | None, generator: torch.Generator | None) -> list[Tensor]:
    """Vectors [n, K] whose products with the Jacobian are the rows that are kept."""
    num_rows, num_outputs = values.shape
    if sketch is None:
        return [torch.eye(num_outputs, dtype=values.dtype, device=values.device)[k].expand_as(values) for k in range(num_outputs)]
    if generator is None:
        raise ObjectiveError(
            f"a sketch of {num_outputs} outputs without a generator",
            expected="a torch.Generator for the random signs",
            do="pass generator=torch.Generator().manual_seed(...), or sketch=None for all outputs",
        )
    signs = torch.randint(0, 2, (sketch, num_rows, num_outputs), generator=generator, device=generator.device)
    return list((signs.to(device=values.device, dtype=values.dtype) * 2 - 1) / sketch**0.5)


def _token_groups(outputs: Selection) -> Tensor:
    """For each output row, its ordinal within its sequence: rows with one ordinal never share a sequence."""
    b = outputs[:, 0]
    counts = torch.bincount(b)
    starts = counts.cumsum(0) - counts
    return torch.arange(len(b), device=b.device) - starts[b]


def _jacobians(
    values: Tensor,
    directions: list[Tensor],
    sites: Sequence[Site],
    perturbations: dict[str, Tensor],
    ordinals: Tensor | None,
    index: Selection,
) -> dict[str, Float[Tensor, "n K D"]]:
    local = [site.name for site in sites if site.token_local or ordinals is None or int(ordinals.max()) == 0]
    mixing = [site.name for site in sites if site.name not in local]
    columns: dict[str, list[Tensor]] = {site.name: [] for site in sites}
    num_passes = len(directions) * (bool(local) + (0 if not mixing or ordinals is None else int(ordinals.max()) + 1))
    done = 0

    def products(names: list[str], grad_outputs: Tensor) -> tuple[Tensor, ...]:
        nonlocal done
        done += 1
        return torch.autograd.grad(values, [perturbations[name] for name in names], grad_outputs, retain_graph=done < num_passes)

    for direction in directions:
        if local:
            for name, product in zip(local, products(local, direction), strict=True):
                columns[name].append(product)
        if mixing:
            assert ordinals is not None
            kept = [torch.zeros_like(perturbations[name]) for name in mixing]
            for ordinal in range(int(ordinals.max()) + 1):
                here = (ordinals == ordinal)[:, None]
                for total, product in zip(kept, products(mixing, direction * here), strict=True):
                    total += product * here
            for name, total in zip(mixing, kept, strict=True):
                columns[name].append(total)
    return {name: torch.stack(parts, dim=1) for name, parts in columns.items()}
