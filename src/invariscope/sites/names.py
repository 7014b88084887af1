"""Sites: named places in a model where activations are read or replaced, and the one table that says where they are.

A site's name is the same for every model (``blocks.3.resid_post``, ``final_norm``); the table maps it, family by family, to a
submodule, the side of it (its output or its input) and, for tuples, an index. Any other place is named by its module:
``module:encoder.layer.2`` is that submodule's output, ``module:encoder.layer.2:in`` its first tensor input.

>>> resolve_site(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), "module:0").name
'module:0'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from torch import nn

from invariscope.errors import CompiledModelError, UnknownNameError, nearest_names, unknown_name

__all__ = ["Site", "list_sites", "refuse_compiled", "resolve_site", "resolve_sites"]


@runtime_checkable
class HasSites(Protocol):
    """A model whose sites are submodules of that very name: our transformers."""

    def site_names(self) -> tuple[str, ...]:
        """All sites in the order of the forward pass."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Site:
    """A resolved place.

    Args:
        name: the site's name.
        module: the submodule that is hooked.
        side: whether its output or its first tensor input is meant.
        token_axis: the axis of tokens in a tensor of three axes or more; axis 0 is the batch. [B, D] has one entry a sequence.
        token_local: True where nothing above the site mixes tokens, so that the gradient of the outputs at one token reaches
            the site at that token only.
    """

    name: str
    module: nn.Module
    side: Literal["out", "in"] = "out"
    token_axis: int = 1
    token_local: bool = False


# In the last block every site after attention feeds its own token only; so does what follows the blocks.
TOKEN_LOCAL_IN_LAST_BLOCK = frozenset({"attn_heads", "attn_out", "resid_mid", "mlp_pre", "mlp_post", "mlp_out", "resid_post"})


def list_sites(model: nn.Module) -> tuple[str, ...]:
    """The names of all sites of ``model``; for a model of no known family, all its submodules as ``module:<dotted name>``."""
    if isinstance(model, HasSites):
        return model.site_names()
    return tuple(f"module:{name}" for name, _ in model.named_modules() if name)


def resolve_site(model: nn.Module, name: str) -> Site:
    """Find ``name`` in ``model``.

    Raises:
        UnknownNameError: with the three nearest sites.
        CompiledModelError: for a compiled model.
    """
    refuse_compiled(model)
    if name.startswith("module:"):
        dotted, _, side = name.removeprefix("module:").partition(":")
        # A module that is used under two names has two names here too.
        modules = dict(model.named_modules(remove_duplicate=False))
        if dotted not in modules or not dotted or side not in ("", "in"):
            raise unknown_name("site", name, [f"module:{module}" for module in modules if module])
        return Site(name=name, module=modules[dotted], side="in" if side else "out")
    known = list_sites(model)
    if name not in known:
        raise unknown_name("site", name, known)
    kind = name.rsplit(".", 1)[-1]
    last_block = max((int(site.split(".")[1]) for site in known if site.startswith("blocks.")), default=-1)
    above_blocks = name in ("final_norm", "logits")
    in_last_block = name.startswith(f"blocks.{last_block}.") and kind in TOKEN_LOCAL_IN_LAST_BLOCK
    return Site(
        name=name,
        module=model.get_submodule(name),
        token_axis=2 if kind == "attn_pattern" else 1,
        token_local=above_blocks or in_last_block,
    )


def resolve_sites(model: nn.Module, names: Sequence[str] | str) -> list[Site]:
    """Find every one of ``names`` in ``model``, each once, in the given order; a single name is a list of one.

    Raises:
        UnknownNameError: where there is no name at all, or as :func:`resolve_site` does.
        CompiledModelError: for a compiled model.
    """
    names = [names] if isinstance(names, str) else list(dict.fromkeys(names))
    if not names:
        some = ", ".join(nearest_names("resid_post", list_sites(model)))
        raise UnknownNameError("no site", expected="the name of at least one", do=f"name sites of this model, such as {some}")
    return [resolve_site(model, name) for name in names]


def refuse_compiled(model: nn.Module) -> None:
    """Raise where ``model`` or a part of it is compiled.

    Raises:
        CompiledModelError: a compiled module runs without its hooks, so a read or an edit would do nothing, silently.
    """
    for name, module in model.named_modules():
        advice = _plain_again(module, name)
        if advice:
            raise CompiledModelError(
                f"{type(model).__name__}, {f'of which module {name!r}' if name else 'which'} is compiled",
                expected="a plain module: compiled ones drop hooks silently",
                do=advice,
            )


def _plain_again(module: nn.Module, name: str) -> str:
    """How to get the plain module back; empty where it is plain. There are three ways to compile, and each has its own."""
    if hasattr(module, "_orig_mod"):
        if not name:
            return "pass the module as it was before torch.compile (model._orig_mod)"
        back = f"model.set_submodule({name!r}, model.get_submodule({name!r})._orig_mod)"
        return f"put the module as it was before torch.compile back: {back}"
    if getattr(module, "_compiled_call_impl", None) is not None:
        return "pass copy.deepcopy(model), which is plain, or build the model anew without calling compile() on this module"
    forward = module.forward
    # torch.compiler.disable leaves the same mark on what it keeps plain, and one of its own.
    if hasattr(forward, "_torchdynamo_orig_callable") and not getattr(forward, "_torchdynamo_disable", False):
        return "put this module's forward as it was before torch.compile back"
    return ""
