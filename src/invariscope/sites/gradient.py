"""Jacobians of an objective with respect to activations: several sites, one forward pass, no backward hooks.

A zero perturbation is added at each site and selected token, and ``torch.autograd.grad`` differentiates with respect to it:
several sites on one path do not cut each other's graph. Weights are frozen meanwhile; every mode is restored afterwards.

Reach. With one output a sequence, J[b, s, k] = d f_k(b) / d h[b, s]. With several, ``same`` differentiates the objective at a
token with respect to the site at that very token; ``later`` sums over every output that the token reaches. Where nothing above
the site mixes tokens both are one backward pass an output; otherwise ``same`` takes one a token, as it must.

For K > 32 outputs, K backward passes would be wasteful: random signs v give E[(Jᵀv)(Jᵀv)ᵀ] = JᵀJ, so ``sketch`` = s rows
(Jᵀv) / sqrt(s) a sample stand for it.

>>> from invariscope.sites.objective import logits
>>> model = nn.Sequential(nn.Identity(), nn.Identity())
>>> batch = Batch(inputs={"input": torch.tensor([[1.0, 2.0]])})
>>> found = site_gradients(model, batch, sites=["module:0"], objective=logits(normalise="centred"), positions="last")
>>> found["module:0"].activations.tolist(), found["module:0"].jacobians.tolist()
([[1.0, 2.0]], [[[0.5, -0.5], [-0.5, 0.5]]])
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from invariscope.batch import Batch
from invariscope.errors import NoForwardError, ObjectiveError, PositionError, ShapeError
from invariscope.positions import Positions, Rows, positions_of, rows_of, select_positions
from invariscope.sites.hooks import Selection, gather_rows, hook_site, scatter_rows
from invariscope.sites.names import Site, resolve_sites
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
    sites: Sequence[str] | str,
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
        batch: the rows; tokens that are not ``valid`` are never selected.
        sites: names, see :mod:`invariscope.sites.names`.
        objective: K differentiable numbers a row.
        positions: the tokens whose activations are differentiated.
        outputs_at: the tokens at which the objective is taken; None: ``positions``.
        reach: ``same`` or ``later``, see the module's text.
        sketch: random signs a sample; ``auto``: 16 where K > 32, else exact.
        generator: source of the signs; needed only where sketched.
        logits_of: from the model's output to its logits, where it is neither a tensor nor has ``.logits``.

    Returns:
        Per site: activations [n, D], Jacobians [n, K, D] in the activations' type, and the rows. Where the outputs are at
        other tokens than the site, targets and probabilities that belong to the outputs only are left out of the rows.

    Raises:
        UnknownNameError, CompiledModelError: for a site that cannot be hooked.
        PositionError: for positions that select nothing or padding, and for a reach that does not fit ``outputs_at``.
        NoForwardError: for a site that the forward pass does not reach.
        ShapeError: for a site that has not one vector a token, or is reached several times.
        ObjectiveError: for logits or an objective that do not fit, one that does not depend on a site, or a sketch without
            generator.
    """
    resolved = resolve_sites(model, sites)
    shape, device = (batch.num_rows, batch.length), next(iter(batch.inputs.values())).device
    index = select_positions(positions_of(batch, positions), valid=batch.valid, shape=shape, device=device)
    outputs = index
    if outputs_at is not None:
        outputs = select_positions(positions_of(batch, outputs_at), valid=batch.valid, shape=shape, device=device)
    _check_reach(reach, index, outputs)
    points = _Perturbations(batch, index)
    # Both modes may be on around this call; inside the other one neither alone is enough.
    with frozen(model), torch.inference_mode(False), torch.enable_grad(), ExitStack() as stack:
        for site in resolved:
            stack.enter_context(hook_site(site, points.adder(site)))
        found = output_logits(model(**batch.inputs), logits_of)
        for site in resolved:
            if site.name not in points.zeros:
                raise NoForwardError(
                    f"site {site.name!r}, which the forward pass did not reach",
                    expected="a module that this model calls",
                    do="choose another site",
                )
        _check_logits(found, batch)
        output_rows = rows_of(batch, outputs)
        values = objective(logits_at(found, outputs), output_rows)
        if values.ndim != 2 or len(values) != len(outputs):
            raise ObjectiveError(
                f"an objective {objective.name!r} that gives {list(values.shape)} for {len(outputs)} rows",
                expected=f"[{len(outputs)}, K]",
                do="return K numbers a row",
            )
        num_directions = resolve_sketch(sketch, values.shape[1])
        directions = _directions(values, num_directions, generator)
        # With one output a sequence there is nothing to keep apart.
        apart = _token_ordinals(outputs) if reach == "same" and torch.equal(index, outputs) else None
        jacobians = _jacobians(values, directions, num_directions or values.shape[1], resolved, points.zeros, apart)
    rows = output_rows if torch.equal(index, outputs) else rows_of(_without_output_laws(batch), index)
    return {
        site.name: SiteGradients(activations=points.activations[site.name], jacobians=jacobians[site.name], rows=rows)
        for site in resolved
    }


class _Perturbations:
    """The zeros that are added at each site, with respect to which the objective is differentiated."""

    def __init__(self, batch: Batch, index: Selection) -> None:
        self.batch, self.index = batch, index
        self.zeros: dict[str, Tensor] = {}
        self.activations: dict[str, Tensor] = {}

    def adder(self, site: Site) -> Callable[[Tensor], Tensor]:
        """The callback of one site."""

        def add_zero(tensor: Tensor) -> Tensor:
            self._check(site, tensor)
            rows = gather_rows(site, tensor, self.index)
            self.activations[site.name] = rows.detach().clone()
            self.zeros[site.name] = torch.zeros_like(rows, requires_grad=True)
            return scatter_rows(site, tensor, self.index, rows + self.zeros[site.name])

        return add_zero

    def _check(self, site: Site, tensor: Tensor) -> None:
        if site.name in self.zeros:
            raise ShapeError(
                f"site {site.name!r}, which one forward pass reaches several times",
                expected="one vector a token",
                do="choose a module that is called once, such as the one around it",
            )
        if tensor.ndim > 3 or not tensor.is_floating_point():
            raise ShapeError(
                f"site {site.name!r} with a tensor of shape {list(tensor.shape)} and type {tensor.dtype}",
                expected="one vector a token, [B, T, D] or [B, D], of floating point",
                do="choose a site of the residual stream, an attention or MLP output, or a module that gives [B, T, D]",
            )
        rows, length = self.batch.num_rows, self.batch.length
        a_token = tensor.ndim == 3 and tuple(tensor.shape[:2]) == (rows, length)
        a_sequence = tensor.ndim == 2 and len(tensor) == rows
        if a_sequence and int(torch.bincount(self.index[:, 0]).max()) > 1:
            raise ShapeError(
                f"site {site.name!r} of shape {list(tensor.shape)}, one vector a sequence, at several tokens of a sequence",
                expected="positions that select one token a sequence",
                do="pass positions='last', or choose a site that has one vector a token",
            )
        if not a_token and not a_sequence:
            raise ShapeError(
                f"site {site.name!r} of shape {list(tensor.shape)} for inputs of {rows} rows and {length} tokens",
                expected=f"[{rows}, {length}, D] or [{rows}, D]",
                do="choose a module that keeps rows and tokens apart",
            )


def _check_logits(logits: Tensor, batch: Batch) -> None:
    expected = (batch.num_rows, batch.length)[: logits.ndim - 1]
    if tuple(logits.shape[:-1]) != expected:
        raise ObjectiveError(
            f"logits of shape {list(logits.shape)} for inputs of {batch.num_rows} rows and {batch.length} tokens",
            expected=f"[{batch.num_rows}, {batch.length}, V] or [{batch.num_rows}, V]",
            do="pass logits_of=, a function from the model's output to such logits",
        )


def _without_output_laws(batch: Batch) -> Batch:
    # With one entry a sequence or one a token they are known at every token; otherwise at the outputs only.
    def known(value: Tensor | None) -> Tensor | None:
        return value if value is not None and value.shape[1] in (1, batch.length) else None

    return dataclasses.replace(batch, targets=known(batch.targets), probabilities=known(batch.probabilities))


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


def _directions(values: Tensor, sketch: int | None, generator: torch.Generator | None) -> Iterator[Tensor]:
    """Vectors [n, K] whose products with the Jacobian are the rows that are kept, one at a time."""
    num_rows, num_outputs = values.shape
    if sketch is None:
        for k in range(num_outputs):
            one = values.new_zeros(num_outputs)
            one[k] = 1
            yield one.expand_as(values)
        return
    if generator is None:
        raise ObjectiveError(
            f"a sketch of {num_outputs} outputs without a generator",
            expected="a torch.Generator for the random signs",
            do="pass generator=torch.Generator().manual_seed(...), or sketch=None for all outputs",
        )
    for _ in range(sketch):
        signs = torch.randint(0, 2, (num_rows, num_outputs), generator=generator, device=generator.device)
        yield (signs.to(device=values.device, dtype=values.dtype) * 2 - 1) / sketch**0.5


def _token_ordinals(outputs: Selection) -> Tensor:
    """For each output row, its ordinal within its sequence: rows with one ordinal never share a sequence."""
    b = outputs[:, 0]
    counts = torch.bincount(b)
    starts = counts.cumsum(0) - counts
    return torch.arange(len(b), device=b.device) - starts[b]


def _jacobians(
    values: Tensor,
    directions: Iterator[Tensor],
    num_directions: int,
    sites: Sequence[Site],
    zeros: dict[str, Tensor],
    ordinals: Tensor | None,
) -> dict[str, Float[Tensor, "n K D"]]:
    """Each direction's product with the Jacobian at each site; ``ordinals`` says which outputs must be kept apart."""
    num_ordinals = 1 if ordinals is None else int(ordinals.max()) + 1
    local = [site.name for site in sites if site.token_local or num_ordinals == 1]
    mixing = [site.name for site in sites if site.name not in local]
    columns: dict[str, list[Tensor]] = {site.name: [] for site in sites}
    passes_left = num_directions * (bool(local) + num_ordinals * bool(mixing))

    def products(names: list[str], grad_outputs: Tensor) -> Iterator[tuple[str, Tensor]]:
        nonlocal passes_left
        passes_left -= 1
        found = _gradient(values, [zeros[name] for name in names], grad_outputs, retain_graph=passes_left > 0)
        for name, product in zip(names, found, strict=True):
            if product is None:
                raise ObjectiveError(
                    f"an objective that does not depend on the site {name!r}",
                    expected="a path of differentiable operations from the site to the logits",
                    do="choose a site that the logits are computed from, in a model that neither detaches nor uses no_grad",
                )
            yield name, product

    for direction in directions:
        if local:
            for name, product in products(local, direction):
                columns[name].append(product)
        if mixing:
            assert ordinals is not None
            kept = {name: torch.zeros_like(zeros[name]) for name in mixing}
            for ordinal in range(num_ordinals):
                here = (ordinals == ordinal)[:, None]
                for name, product in products(mixing, direction * here.to(direction.device)):
                    kept[name] += product * here.to(product.device)
            for name, total in kept.items():
                columns[name].append(total)
    return {name: torch.stack(parts, dim=1) for name, parts in columns.items()}


def _gradient(values: Tensor, inputs: list[Tensor], grad_outputs: Tensor, *, retain_graph: bool) -> tuple[Tensor | None, ...]:
    if not values.requires_grad:
        return (None,) * len(inputs)
    return torch.autograd.grad(values, inputs, grad_outputs, retain_graph=retain_graph, allow_unused=True)
