"""Read activations at named sites and positions; nothing else is kept, and nothing is left behind.

>>> model = nn.Sequential(nn.Linear(3, 5), nn.ReLU())
>>> with read_sites(model, ["module:0"], positions="last") as seen:
...     output = model(torch.ones(2, 4, 3))
>>> seen["module:0"].shape, seen.index.tolist()
(torch.Size([2, 5]), [[0, 3], [1, 3]])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from invariscope.errors import NoForwardError, unknown_name
from invariscope.positions import Positions
from invariscope.sites.hooks import Selection, Validity, gather_rows, hook_site, watch_validity
from invariscope.sites.names import Site, resolve_sites

__all__ = ["SeenSites", "read_sites"]


class SeenSites:
    """What the last forward showed: ``seen[site]`` is [n, ...] in (row, token) order, ``seen.index`` their padded (b, t)."""

    def __init__(self, sites: Sequence[str]) -> None:
        self._sites = tuple(sites)
        self._rows: dict[str, Tensor] = {}
        self._index: dict[str, Selection] = {}

    def __getitem__(self, site: str) -> Float[Tensor, "n ..."]:
        if site not in self._sites:
            raise unknown_name("site among those that are read", site, self._sites)
        if site not in self._rows:
            raise NoForwardError(
                f"activations at {site!r}, which no forward pass reached",
                expected="a forward pass inside the context",
                do="call model(...) inside `with read_sites(...)`, with inputs that reach this module",
            )
        return self._rows[site]

    def __contains__(self, site: object) -> bool:
        return site in self._rows

    @property
    def index(self) -> Selection:
        """Padded (b, t) of each row, [n, 2]; the same for every site that has one entry a token."""
        self[self._sites[0]]
        return self._index[self._sites[0]]

    def _record(self, site: Site, rows: Tensor, index: Selection) -> None:
        self._rows[site.name], self._index[site.name] = rows, index

    def _forget(self) -> None:
        # A site that a forward does not reach must not show the rows of the one before.
        self._rows.clear()
        self._index.clear()


@contextmanager
def read_sites(
    model: nn.Module,
    sites: Sequence[str] | str,
    *,
    positions: Positions = "all",
    valid: Bool[Tensor, "B T"] | None = None,
    gradients: bool = False,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Iterator[SeenSites]:
    """Read ``sites`` at ``positions`` on every forward of ``model`` inside the context; the last forward's rows remain.

    Args:
        model: any module. A part that one forward calls several times shows its last call.
        sites: names, see :mod:`invariscope.sites.names`.
        positions: which tokens; in unpadded coordinates.
        valid: True on real tokens, [B, T]; None: the model's ``attention_mask`` where it is called with one, else all.
        gradients: keep the graph. Rows are copies either way, and detached unless asked for.
        device, dtype: where and as what the rows are kept; None: as they are.

    Raises:
        UnknownNameError: for a site that the model does not have, or for none at all.
        CompiledModelError: for a compiled model, on which nothing would be read.
        ShapeError: where ``valid`` or the ``attention_mask`` does not fit the site's tensor.
        NoForwardError: on ``seen[site]`` where no forward reached the site.
        PositionError: where the positions select nothing or padding.
    """
    resolved = resolve_sites(model, sites)
    seen = SeenSites([site.name for site in resolved])

    def reader(site: Site, validity: Validity) -> Callable[[Tensor], None]:
        def read(tensor: Tensor) -> None:
            index = validity.select(positions, site, tensor)
            rows = gather_rows(site, tensor, index)
            # A view would keep the whole tensor alive, and would change with what is done in place to either.
            rows = (rows if gradients else rows.detach()).clone()
            seen._record(site, rows.to(device=device, dtype=dtype), index)

        return read

    with ExitStack() as stack:
        validity = stack.enter_context(watch_validity(model, valid, on_forward=seen._forget))
        for site in resolved:
            stack.enter_context(hook_site(site, reader(site, validity)))
        yield seen
