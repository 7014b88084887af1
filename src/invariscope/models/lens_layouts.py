"""The two layouts in which TransformerLens keeps the weights of one transformer, and the way from one to the other.

``hooked``, of ``HookedTransformer`` up to 3.x, has a matrix a head, inputs first: ``blocks.0.attn.W_Q`` [H, D, d] and
``blocks.0.attn.W_O`` [H, d, D]. ``native``, of a bridge from ``TransformerBridge.boot_native`` (4.x), has linear maps, outputs
first: ``blocks.0.attn.q.weight`` [H d, D]. A bridge shows a module also under the names of what it wraps, and the native
model has names of its own (``layers.0.mlp.fc_in``); all of them are understood.

>>> hooked = as_hooked({"layers.0.attn.q._original_component.weight": torch.zeros(6, 5)}, num_heads=2, name="a file")
>>> {name: list(tensor.shape) for name, tensor in hooked.items()}
{'blocks.0.attn.W_Q': [2, 5, 3]}
>>> {name: list(tensor.shape) for name, tensor in as_native(hooked).items()}
{'blocks.0.attn.q.weight': [6, 5]}
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from invariscope.errors import CheckpointError, ConfigError

__all__ = ["as_hooked", "as_native", "listed"]

# Constants that HookedTransformer keeps among its weights.
_CONSTANTS = (".mask", ".IGNORE")
# What a data-parallel wrapper, torch.compile and the bridge put in front of every name.
_PREFIXES = ("module.", "_orig_mod.", "original_model.")
_WRAPPED = "._original_component"
# What the native model calls what its bridge calls otherwise.
_ALIASES = {"tok_embed": "embed", "pos": "pos_embed", "layers": "blocks", "ln_out": "ln_final", "head": "unembed"}
_ALIASES |= {"fc_in": "in", "fc_out": "out"}

_NATIVE = {
    "embed.W_E": "embed.weight",
    "pos_embed.W_pos": "pos_embed.weight",
    "unembed.W_U": "unembed.weight",
    "unembed.b_U": "unembed.bias",
    "ln_final.w": "ln_final.weight",
    "ln_final.b": "ln_final.bias",
}
_NATIVE_IN_BLOCK = {
    **{f"ln{i}.{short}": f"ln{i}.{long}" for i in (1, 2) for short, long in (("w", "weight"), ("b", "bias"))},
    **{f"attn.W_{x}": f"attn.{x.lower()}.weight" for x in "QKVO"},
    **{f"attn.b_{x}": f"attn.{x.lower()}.bias" for x in "QKVO"},
    **{f"mlp.W_{x}": f"mlp.{x}.weight" for x in ("in", "out")},
    **{f"mlp.b_{x}": f"mlp.{x}.bias" for x in ("in", "out")},
}
_HOOKED = {native: hooked for hooked, native in _NATIVE.items()}
_HOOKED_IN_BLOCK = {native: hooked for hooked, native in _NATIVE_IN_BLOCK.items()}

# Matrices without an axis of heads, and those with one whose inputs are the residual stream.
_PLAIN = ("W_in", "W_out", "W_U")
_READING = ("W_Q", "W_K", "W_V")
_MOST_LISTED = 8


def as_hooked(tensors: Mapping[str, Tensor], *, num_heads: int | None, name: str) -> dict[str, Tensor]:
    """The tensors in the layout ``hooked``, without constants; those that are in it already stay as they are.

    Args:
        tensors: of either layout.
        num_heads: H, needed for the layout ``native``.
        name: what messages call the state dict.

    Raises:
        CheckpointError: for a name that TransformerLens does not give to a plain transformer, for one weight under two names and
            with two values, and for rows that the heads do not divide. ConfigError: where ``num_heads`` is needed and None.
    """
    found: dict[str, Tensor] = {}
    unknown = []
    for key, tensor in tensors.items():
        clean = _cleaned(key)
        if clean.endswith(_CONSTANTS):
            continue
        hooked = _renamed(clean, _HOOKED, _HOOKED_IN_BLOCK)
        if hooked is not None:
            tensor = _inputs_first(hooked, tensor, num_heads, name)
        elif _renamed(clean, _NATIVE, _NATIVE_IN_BLOCK) is not None:
            hooked = clean
        else:
            unknown.append(key)
            continue
        if hooked in found and not torch.equal(found[hooked], tensor):
            raise CheckpointError(
                f"{name}: two different tensors for {hooked}", expected="one", do="save the state_dict of one model alone"
            )
        found[hooked] = tensor.detach()
    if unknown or not found:
        raise CheckpointError(
            f"{name}: {listed(unknown) or 'no tensors'}",
            expected="what TransformerLens calls the weights of a plain transformer, such as embed.W_E or embed.weight",
            do="save the state_dict of a model with learned positions, as many keys as heads, and MLPs without gates",
        )
    return found


def as_native(hooked: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of the layout ``hooked`` in the layout ``native``: contiguous copies where they are transposed."""
    names = {key: _renamed(key, _NATIVE, _NATIVE_IN_BLOCK) for key in hooked}
    return {names[key] or key: _outputs_first(key, tensor) for key, tensor in hooked.items()}


def listed(parts: list[str]) -> str:
    """At most eight of them, and how many more there are."""
    more = f" and {len(parts) - _MOST_LISTED} more" if len(parts) > _MOST_LISTED else ""
    return ", ".join(parts[:_MOST_LISTED]) + more


def _cleaned(key: str) -> str:
    for prefix in _PREFIXES:
        key = key.removeprefix(prefix)
    return ".".join(_ALIASES.get(part, part) for part in key.replace(_WRAPPED, "").split("."))


def _renamed(key: str, names: Mapping[str, str], names_in_block: Mapping[str, str]) -> str | None:
    block = re.fullmatch(r"(blocks\.\d+\.)(.+)", key)
    if block is None:
        return names.get(key)
    inside = names_in_block.get(block[2])
    return None if inside is None else block[1] + inside


def _inputs_first(hooked: str, tensor: Tensor, num_heads: int | None, name: str) -> Tensor:
    part = hooked.rsplit(".", 1)[-1]
    if tensor.ndim == 2 and part in _PLAIN:
        return tensor.T
    if not re.fullmatch(r"W_[QKVO]|b_[QKV]", part):
        return tensor
    if num_heads is None:
        raise ConfigError(
            f"{name}, in the layout of a TransformerBridge, which does not say how many heads share a matrix",
            expected="num_heads",
            do="pass num_heads=, the n_heads of the model's configuration",
        )
    rows = tensor.T if part == "W_O" and tensor.ndim == 2 else tensor
    if rows.ndim == 0 or len(rows) % num_heads:
        raise CheckpointError(
            f"{name}: {hooked} of shape {list(tensor.shape)} for {num_heads} heads",
            expected="as many rows for each head",
            do="pass the n_heads of the model's configuration",
        )
    heads = rows.unflatten(0, (num_heads, -1))
    return heads.transpose(1, 2) if part in _READING else heads


def _outputs_first(hooked: str, tensor: Tensor) -> Tensor:
    part = hooked.rsplit(".", 1)[-1]
    if part in _PLAIN:
        return tensor.T.contiguous()
    if part in _READING:
        return tensor.transpose(1, 2).flatten(0, 1).contiguous()
    if part == "W_O":
        return tensor.flatten(0, 1).T.contiguous()
    return tensor.flatten() if part in ("b_Q", "b_K", "b_V") else tensor
