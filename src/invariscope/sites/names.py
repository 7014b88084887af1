"""Sites: named places in a model where activations are read or replaced.

A site's name is the same for every model (``blocks.3.resid_post``, ``final_norm``). In our transformers it is a submodule of
that name; for Hugging Face's language models one table (:mod:`invariscope.sites.families`) maps it, family by family, to a
submodule, the side of it (its output or its input) and, for tuples, an entry. Any other place is named by its module:
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
from invariscope.sites.families import FAMILIES, Located, locate, model_type_of

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
        entry: which entry of the output, where that is a tuple.
        num_heads: H where the module holds [B, T, H * d] and the site is [B, T, H, d]; None: they are the same.
        forked: True where the input goes elsewhere too, past the module: it is then replaced in place, so that both ways see it.
        read_only: True where replacing the tensor would change nothing.
    """

    name: str
    module: nn.Module
    side: Literal["out", "in"] = "out"
    token_axis: int = 1
    token_local: bool = False
    entry: int = 0
    num_heads: int | None = None
    forked: bool = False
    read_only: bool = False


# In the last block every site after attention feeds its own token only; so does what follows the blocks.
TOKEN_LOCAL_IN_LAST_BLOCK = frozenset({"attn_heads", "attn_out", "resid_mid", "mlp_pre", "mlp_post", "mlp_out", "resid_post"})


def list_sites(model: nn.Module) -> tuple[str, ...]:
    """The names of all sites of ``model`` as it stands; of no known family, all its submodules as ``module:<dotted name>``.

    Attention patterns of a Hugging Face model are among them only while its implementation returns them (eager).
    """
    if isinstance(model, HasSites):
        return model.site_names()
    located = locate(model)
    if located is not None:
        return located.names()
    return tuple(f"module:{name}" for name, _ in model.named_modules() if name)


def resolve_site(model: nn.Module, name: str) -> Site:
    """Find ``name`` in ``model``.

    Raises:
        UnknownNameError: with the three nearest sites; for a site that this family has and this model has not, with the reason;
            for a model of an unknown family, with the families that are known.
        ConfigError: for attention patterns of a Hugging Face model that does not return them.
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
    located = None if isinstance(model, HasSites) else locate(model)
    known = list_sites(model) if located is None else located.names()
    if name not in known:
        raise _not_among(model, located, name, known)
    kind = name.rsplit(".", 1)[-1]
    token_axis, token_local = 2 if kind == "attn_pattern" else 1, _is_token_local(name, known)
    if located is None:
        return Site(name=name, module=model.get_submodule(name), token_axis=token_axis, token_local=token_local)
    module, place = located.place(name)
    return Site(
        name=name,
        module=module,
        side=place.side,
        token_axis=token_axis,
        token_local=token_local,
        entry=place.entry,
        num_heads=located.config.num_attention_heads if place.per_head else None,
        forked=place.forked,
        read_only=place.read_only,
    )


def _is_token_local(name: str, known: Sequence[str]) -> bool:
    last_block = max((int(site.split(".")[1]) for site in known if site.startswith("blocks.")), default=-1)
    in_last_block = name.startswith(f"blocks.{last_block}.") and name.rsplit(".", 1)[-1] in TOKEN_LOCAL_IN_LAST_BLOCK
    return name in ("final_norm", "logits") or in_last_block


def _not_among(model: nn.Module, located: Located | None, name: str, known: Sequence[str]) -> UnknownNameError:
    if located is not None:
        located.refuse_absent(name)
        return unknown_name("site", name, known)
    model_type = None if isinstance(model, HasSites) else model_type_of(model)
    if model_type is None:
        return unknown_name("site", name, known)
    return UnknownNameError(
        f"site {name!r} of a model of type {model_type!r}",
        expected=f"module:<dotted name>, or a model of a family whose sites have names: {', '.join(FAMILIES)}",
        do=f"name a submodule; nearest: {', '.join(nearest_names(name, known))}",
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
