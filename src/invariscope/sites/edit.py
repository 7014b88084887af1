"""Replace activations at a site and some positions by a function of themselves, and report what that did.

>>> model = nn.Sequential(nn.Identity(), nn.ReLU())
>>> with edit_site(model, "module:0", lambda rows: -rows, positions="last") as report:
...     model(torch.ones(1, 3, 1)).flatten().tolist()
[1.0, 1.0, 0.0]
>>> report.num_positions, report.mean_change
(1, 2.0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from invariscope.errors import HookedSiteError, NoForwardError, ShapeError
from invariscope.positions import Positions
from invariscope.sites.hooks import gather_rows, hook_site, scatter_rows, watch_validity
from invariscope.sites.names import resolve_site

__all__ = ["EditReport", "edit_site"]


@dataclass(slots=True, kw_only=True)
class EditReport:
    """What an edit did so far.

    Args:
        forwards: forward passes that reached the site.
        num_positions: tokens that were edited, over all forwards.
        total_change: sum over them of the Euclidean length of the change.
    """

    forwards: int = 0
    num_positions: int = 0
    total_change: float = 0.0

    @property
    def mean_change(self) -> float:
        """Mean Euclidean length of the change; zero is reported, not an error."""
        return self.total_change / self.num_positions if self.num_positions else 0.0


@contextmanager
def edit_site(
    model: nn.Module,
    site: str,
    function: Callable[[Tensor], Tensor],
    *,
    positions: Positions = "all",
    valid: Bool[Tensor, "B T"] | None = None,
) -> Iterator[EditReport]:
    """Inside the context, every forward of ``model`` continues from ``function`` of the rows at ``site`` and ``positions``.

    Args:
        model: any module.
        site: its name, see :mod:`invariscope.sites.names`.
        function: rows [n, D] to rows [n, D]; its result takes the rows' type and device. It gets a copy, so it may work in place.
        positions: which tokens; in unpadded coordinates.
        valid: True on real tokens, [B, T]; None: the model's ``attention_mask`` where it is called with one, else all.

    Raises:
        UnknownNameError: for a site that the model does not have.
        CompiledModelError: for a compiled model, on which nothing would be edited.
        HookedSiteError: for a site that can only be read: the attention pattern of a Hugging Face model.
        PositionError: where the positions select nothing or padding.
        ShapeError: where ``function`` changes the shape of the rows, or ``valid`` does not fit the site's tensor.
        NoForwardError: on leaving, where no forward reached the site (unless another error is under way).
    """
    resolved = resolve_site(model, site)
    if resolved.read_only:
        raise HookedSiteError(
            f"an edit at {site!r}, which this model shows as a copy",
            expected="a site that the model goes on from",
            do="edit attn_heads or attn_out of the same block; the pattern can be read",
        )
    report = EditReport()

    def edit(tensor: Tensor) -> Tensor:
        index = validity.select(positions, resolved, tensor)
        rows = gather_rows(resolved, tensor, index)
        # In the rows themselves, an edit in place would change the model's own tensor and seem to change nothing.
        edited = function(rows.clone())
        if not isinstance(edited, Tensor) or edited.shape != rows.shape:
            given = list(edited.shape) if isinstance(edited, Tensor) else type(edited).__name__
            raise ShapeError(
                f"an edit at {site!r} that turns rows of shape {list(rows.shape)} into {given}",
                expected="rows of the same shape",
                do="return one edited row for each row",
            )
        # A copy: the model may go on in place, and the caller's tensor is the caller's.
        edited = edited.to(device=rows.device, dtype=rows.dtype, copy=True)
        report.forwards += 1
        report.num_positions += len(index)
        change = (edited.detach().double() - rows.detach().double()).flatten(1)
        report.total_change += float(torch.linalg.vector_norm(change, dim=1).sum())
        return scatter_rows(resolved, tensor, index, edited)

    with watch_validity(model, valid) as validity, hook_site(resolved, edit):
        yield report
    # Reached only when no other error is under way.
    if not report.forwards:
        raise NoForwardError(
            f"an edit at {site!r} that no forward pass reached",
            expected="a forward pass inside the context",
            do="call model(...) inside `with edit_site(...)`, with inputs that reach this module",
        )
