"""The one mechanism by which sites are read and replaced: plain forward hooks, ours only, removed whatever happens.

PyTorch calls a forward hook with what a module gave and lets it return something else; reading, editing and differentiating
are three callbacks on that. Nothing here keeps a tensor.

>>> import torch
>>> from invariscope.sites.names import resolve_site
>>> model = nn.Sequential(nn.Identity(), nn.ReLU())
>>> with hook_site(resolve_site(model, "module:0"), lambda tensor: -tensor):
...     model(torch.tensor([[1.0, -2.0]])).tolist()
[[0.0, 2.0]]
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jaxtyping import Bool, Int
from torch import Tensor, nn

from invariscope.errors import ShapeError
from invariscope.positions import Positions, select_positions
from invariscope.sites.names import Site

__all__ = ["Selection", "gather_rows", "hook_site", "scatter_rows", "watch_validity"]

Selection = Int[Tensor, "n 2"]


@contextmanager
def hook_site(site: Site, callback: Callable[[Tensor], Tensor | None]) -> Iterator[None]:
    """Call ``callback`` with the site's tensor on every forward; what it returns (unless None) takes the tensor's place.

    An output may be a tensor or a tuple of which an entry is one; an input may be positional or a keyword. An input that goes
    elsewhere too (``site.forked``) is replaced in place.
    """

    def seen(value: Any) -> Tensor | None:
        tensor = _check_tensor(site, value)
        if site.num_heads is None:
            return callback(tensor)
        replaced = callback(tensor.unflatten(-1, (site.num_heads, -1)))
        return None if replaced is None else replaced.flatten(-2)

    def after(module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        if not isinstance(output, tuple):
            return seen(output)
        replaced = seen(output[site.entry] if len(output) > site.entry else None)
        if replaced is None:
            return None
        entries = (*output[: site.entry], replaced, *output[site.entry + 1 :])
        # A named tuple takes its entries one by one.
        return type(output)(*entries) if hasattr(output, "_fields") else entries

    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        names = [*range(len(args)), *kwargs]
        for name, value in zip(names, (*args, *kwargs.values()), strict=True):
            if not isinstance(value, Tensor):
                continue
            replaced = seen(value)
            if replaced is None:
                return None
            if site.forked:
                # The same tensor also goes past this module: put into its place, the new values go both ways.
                value.copy_(replaced)
                return None
            if isinstance(name, int):
                return (*args[:name], replaced, *args[name + 1 :]), kwargs
            return args, {**kwargs, name: replaced}
        raise _no_tensor(site, "a call without a tensor")

    if site.side == "out":
        handle = site.module.register_forward_hook(after)
    else:
        handle = site.module.register_forward_pre_hook(before, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


class Validity:
    """Which tokens of the forward under way are real: what the caller said, else the model's own ``attention_mask``.

    Only a mask [B, T] says so; one of another shape (a mask of queries against keys) is none, and then all tokens are real.
    """

    def __init__(self, given: Bool[Tensor, "B T"] | None) -> None:
        self.given = given
        self.seen: Tensor | None = None

    def select(self, positions: Positions, site: Site, tensor: Tensor) -> Selection:
        """Padded (b, t) indices of the selected tokens of ``tensor``."""
        shape = (tensor.shape[0], 1 if tensor.ndim == 2 else tensor.shape[site.token_axis])
        valid = self.given if self.given is not None else self.seen
        if valid is not None and tensor.ndim == 2 and valid.ndim == 2 and len(valid) == len(tensor):
            # One entry a sequence: real where anything in it is.
            valid = valid.any(1, keepdim=True)
        if valid is not None and tuple(valid.shape) != shape:
            if self.given is not None or len(valid) != len(tensor):
                raise ShapeError(
                    f"{'valid' if self.given is not None else 'an attention_mask'} of shape {list(valid.shape)} "
                    f"at {site.name!r} with {shape[0]} rows and {shape[1]} tokens",
                    expected=f"{list(shape)}",
                    do="give the validity of this batch, or choose a site that has one entry a token",
                )
            valid = None
        return select_positions(positions, valid=valid, shape=shape, device=tensor.device)


@contextmanager
def watch_validity(
    model: nn.Module, valid: Bool[Tensor, "B T"] | None, *, on_forward: Callable[[], None] = lambda: None
) -> Iterator[Validity]:
    """Follow which tokens are real while ``model`` is called; ``on_forward`` is called at the start of each forward."""
    validity = Validity(valid)

    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        mask = kwargs.get("attention_mask")
        if mask is None and len(args) > 1:
            named = dict(zip(inspect.signature(module.forward).parameters, args, strict=False))
            mask = named.get("attention_mask")
        validity.seen = mask.bool() if isinstance(mask, Tensor) and mask.ndim == 2 else None
        on_forward()

    handle = model.register_forward_pre_hook(before, with_kwargs=True)
    try:
        yield validity
    finally:
        handle.remove()


def gather_rows(site: Site, tensor: Tensor, index: Selection) -> Tensor:
    """Rows [n, ...] of a site's tensor at padded (b, t) indices; a tensor [B, D] has one row a sequence.

    They may share the tensor's memory: copy them before they are kept or handed out.
    """
    b, t = index.to(tensor.device).unbind(1)
    if tensor.ndim == 2:
        return tensor[b]
    by_token = tensor.movedim(site.token_axis, 1)
    if len(index) == by_token.shape[0] * by_token.shape[1]:
        return by_token.flatten(0, 1)
    return by_token[b, t]


def scatter_rows(site: Site, tensor: Tensor, index: Selection, rows: Tensor) -> Tensor:
    """A copy of ``tensor`` whose rows at ``index`` are ``rows``; differentiable in both."""
    b, t = index.to(tensor.device).unbind(1)
    if tensor.ndim == 2:
        return tensor.index_put((b,), rows)
    by_token = tensor.movedim(site.token_axis, 1)
    if len(index) == by_token.shape[0] * by_token.shape[1]:
        return rows.reshape(by_token.shape).movedim(1, site.token_axis)
    return by_token.index_put((b, t), rows).movedim(1, site.token_axis)


def _check_tensor(site: Site, value: Any) -> Tensor:
    if not isinstance(value, Tensor) or value.ndim < 2:
        raise _no_tensor(
            site, type(value).__name__ if not isinstance(value, Tensor) else f"a tensor of shape {list(value.shape)}"
        )
    return value


def _no_tensor(site: Site, given: str) -> ShapeError:
    return ShapeError(
        f"site {site.name!r}, which gives {given}",
        expected="a tensor [B, T, ...] or [B, D], alone or first in a tuple",
        do="choose a module whose output is a tensor",
    )
