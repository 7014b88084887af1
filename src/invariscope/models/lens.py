"""TransformerLens state dicts: the same transformer under other names, read into ours and written from it.

Both compute one function, attention with scores over sqrt(d) and an MLP that add to the residual stream; only names and axes
differ (:mod:`invariscope.models.lens_layouts`). What a state dict does not say, the caller says: the activation, the mask,
whether norms were folded into the matrices, and in the layout ``native`` the number of heads.

Legend of shapes: D width, H heads, d head width, M MLP width, V tokens.

>>> config = TransformerConfig(vocab_size=5, context_length=4, width=6, num_heads=2, mlp_width=8, activation="relu")
>>> model = Transformer(config, generator=torch.Generator().manual_seed(0))
>>> tensors = to_lens(model)
>>> list(tensors["blocks.0.attn.W_Q"].shape), list(tensors["unembed.W_U"].shape)
([2, 6, 3], [6, 5])
>>> tokens = torch.tensor([[0, 1, 4]])
>>> torch.equal(from_lens(tensors)(tokens), model(tokens))
True
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from invariscope.errors import CheckpointError, ConfigError, unknown_name
from invariscope.models.lens_layouts import as_hooked, as_native, listed
from invariscope.models.transformer import Activation, Transformer, TransformerConfig

__all__ = ["LensLayout", "from_lens", "to_lens"]

LensLayout = Literal["hooked", "native"]

# Ours by the name in the layout native, whose matrices have the same axes.
_OURS = {
    "embed.weight": "token_embedding",
    "pos_embed.weight": "position_embedding",
    "ln_final": "final_norm",
    "unembed": "unembedding",
    "ln1": "attention_norm",
    "ln2": "mlp_norm",
    "attn.o": "attention.output",
    "mlp.in": "mlp_input",
    "mlp.out": "mlp_output",
}
_STACKED = "attention.query_key_value"


def from_lens(
    tensors: Mapping[str, Tensor],
    *,
    config: TransformerConfig | None = None,
    activation: Activation = "relu",
    num_heads: int | None = None,
    causal: bool = True,
    folded_norm: bool = False,
    name: str = "the state dict",
) -> Transformer:
    """The transformer of a TransformerLens state dict, in evaluation mode, on the device of its tensors.

    Without a ``config`` the shape is read off the tensors. A block whose MLP adds nothing (absent, or ``W_in``, ``W_out`` and
    ``b_out`` all zero) gets none; there are biases where one is not zero, and norms where there are gains.

    Args:
        tensors: names of either layout; float64 stays, other types become float32. Masks are left out.
        config: what the state dict has to be of; the next three arguments are then not read.
        activation: of the MLPs. ``gelu`` is exact; TransformerLens's ``gelu_new`` is another function.
        num_heads: H, which the layout ``native`` does not say.
        causal: whether tokens see earlier ones only.
        folded_norm: the norms have neither gains nor biases, because they were folded into the matrices (``LNPre``).
        name: what messages call the state dict.

    Raises:
        CheckpointError: for names that TransformerLens does not give to a plain transformer (rotary positions, gated MLPs), and
            for tensors that are missing, surplus or of shapes that do not fit ``config`` or each other, all of them listed.
        ConfigError: for the layout ``native`` without ``num_heads``, or for a ``config`` that TransformerLens does not have.

    Notes:
        A folded norm leaves no trace among the tensors: without ``folded_norm`` such a model is read as one without norms.
    """
    if config is not None:
        _check_expressible(config)
        num_heads = config.layer("num_heads", 0)
    found = as_hooked(tensors, num_heads=num_heads, name=name)
    if config is None:
        config = _infer(found, name, activation=activation, causal=causal, folded_norm=folded_norm)
    expected = _shapes(config)
    _check_fit(found, expected, name, folded_norm=folded_norm)
    like = found["embed.W_E"]
    dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
    # The initial weights are replaced at once; any generator does.
    model = Transformer(config, generator=torch.Generator().manual_seed(0)).to(like.device, dtype)
    whole = {key: found[key] if key in found else _default(key, shape).to(like.device) for key, shape in expected.items()}
    model.load_state_dict(_to_ours(as_native(whole)))
    return model.eval()


def to_lens(model: Transformer, *, layout: LensLayout = "hooked") -> dict[str, Tensor]:
    """The state dict that TransformerLens gives to the same transformer.

    Biases that the model does not have are zeros, and so are the MLP of a block without one (as wide as the others) and missing
    position embeddings, because TransformerLens has all of them.

    Args:
        model: with norms ``none``, or ``pre`` and a final norm.
        layout: ``hooked``: names of HookedTransformer, without its constant masks; ``native``: of a bridge from ``boot_native``.

    Returns:
        Copies, by name.

    Raises:
        ConfigError: for a model that TransformerLens does not have: norms after, or layers that differ in heads or activation.
        UnknownNameError: for another layout.
    """
    if layout not in get_args(LensLayout):
        raise unknown_name("layout", str(layout), get_args(LensLayout))
    _check_expressible(model.config)
    like = model.token_embedding.detach()
    found = as_hooked(_from_ours(model.state_dict()), num_heads=model.config.layer("num_heads", 0), name="the model")
    # In the order of the forward pass, as TransformerLens has it.
    hooked = {
        key: (found[key] if key in found else _default(key, shape).to(like.device, like.dtype)).clone().contiguous()
        for key, shape in _shapes(model.config, complete=True).items()
    }
    return hooked if layout == "hooked" else as_native(hooked)


def _check_expressible(config: TransformerConfig) -> None:
    layers = range(config.num_layers)
    for field in ("num_heads", "head_width", "norm", "mlp_width", "activation"):
        values = {config.layer(field, layer) for layer in layers if field != "activation" or config.layer("mlp_width", layer)}
        if len(values - {0}) > 1:
            raise ConfigError(
                f"{field} = {getattr(config, field)}",
                expected="the same in all layers, as TransformerLens has it",
                do="store the model as a checkpoint of ours",
            )
    norm = config.layer("norm", 0)
    if norm == "post" or config.final_norm != (norm == "pre"):
        raise ConfigError(
            f"norm = {norm!r} with final_norm = {config.final_norm}",
            expected="'none' without a final norm or 'pre' with one, as TransformerLens has it",
            do="store the model as a checkpoint of ours",
        )


def _infer(
    found: Mapping[str, Tensor], name: str, *, activation: Activation, causal: bool, folded_norm: bool
) -> TransformerConfig:
    def sizes(key: str, ndim: int) -> list[int]:
        if key not in found or found[key].ndim != ndim:
            given = "missing" if key not in found else f"of shape {list(found[key].shape)}"
            raise CheckpointError(f"{name}: {key} {given}", expected=f"{ndim} axes", do="save the whole state_dict of one model")
        return list(found[key].shape)

    def any_set(layer: int, *parts: str) -> bool:
        return any(_is_set(found, f"blocks.{layer}.{part}") for part in parts)

    layers = range(1 + max((int(key.split(".")[1]) for key in found if key.startswith("blocks.")), default=0))
    heads = [sizes(f"blocks.{layer}.attn.W_Q", 3) for layer in layers]
    has_mlp = [any_set(layer, "mlp.W_in", "mlp.W_out", "mlp.b_out") for layer in layers]
    has_norm = folded_norm or any(re.search(r"\bln\w+\.w$", key) for key in found)
    vocab_size, width = sizes("embed.W_E", 2)
    num_outputs = sizes("unembed.W_U", 2)[1]
    return TransformerConfig(
        vocab_size=vocab_size,
        context_length=sizes("pos_embed.W_pos", 2)[0],
        num_outputs=None if num_outputs == vocab_size else num_outputs,
        num_layers=len(layers),
        width=width,
        num_heads=_per_layer([shape[0] for shape in heads]),
        head_width=None if all(H * d == width for H, _, d in heads) else _per_layer([d for _, _, d in heads]),
        mlp_width=_per_layer([sizes(f"blocks.{layer}.mlp.W_in", 2)[1] if has_mlp[layer] else 0 for layer in layers]),
        activation=activation,
        norm="pre" if has_norm else "none",
        final_norm=has_norm,
        attention_bias=_per_layer([any_set(layer, *(f"attn.b_{x}" for x in "QKVO")) for layer in layers]),
        mlp_bias=_per_layer([has_mlp[layer] and any_set(layer, "mlp.b_in", "mlp.b_out") for layer in layers]),
        unembedding_bias=_is_set(found, "unembed.b_U"),
        causal=causal,
    )


def _per_layer(values: list[Any]) -> Any:
    return values[0] if len(set(values)) == 1 else tuple(values)


def _is_set(found: Mapping[str, Tensor], key: str) -> bool:
    return key in found and bool((found[key] != 0).any())


def _shapes(config: TransformerConfig, *, complete: bool = False) -> dict[str, tuple[int, ...]]:
    """Names and shapes in the layout ``hooked``; ``complete``: also of what TransformerLens always has."""
    D, V = config.width, config.vocab_size
    num_outputs = config.num_outputs or V
    widest = max(config.layer("mlp_width", layer) for layer in range(config.num_layers))
    shapes: dict[str, tuple[int, ...]] = {"embed.W_E": (V, D)}
    if complete or config.positions == "learned":
        shapes["pos_embed.W_pos"] = (config.context_length, D)
    for layer in range(config.num_layers):
        block, H, M = f"blocks.{layer}.", config.layer("num_heads", layer), config.layer("mlp_width", layer)
        d, M = config.layer("head_width", layer) or D // H, M or (widest if complete else 0)
        norms = () if config.layer("norm", layer) == "none" else ("ln1", "ln2") if M else ("ln1",)
        shapes |= {f"{block}{norm}.{x}": (D,) for norm in norms for x in "wb"}
        shapes |= {f"{block}attn.W_{x}": (H, D, d) for x in "QKV"} | {f"{block}attn.W_O": (H, d, D)}
        if complete or config.layer("attention_bias", layer):
            shapes |= {f"{block}attn.b_{x}": (H, d) for x in "QKV"} | {f"{block}attn.b_O": (D,)}
        if M:
            shapes |= {f"{block}mlp.W_in": (D, M), f"{block}mlp.W_out": (M, D)}
        if M and (complete or config.layer("mlp_bias", layer)):
            shapes |= {f"{block}mlp.b_in": (M,), f"{block}mlp.b_out": (D,)}
    if config.final_norm:
        shapes |= {f"ln_final.{x}": (D,) for x in "wb"}
    shapes["unembed.W_U"] = (D, num_outputs)
    if complete or config.unembedding_bias:
        shapes["unembed.b_U"] = (num_outputs,)
    return shapes


def _check_fit(found: Mapping[str, Tensor], expected: Mapping[str, tuple[int, ...]], name: str, *, folded_norm: bool) -> None:
    """Raise where a tensor is missing, of another shape, or surplus and not without effect; with all of them."""
    absent = re.compile(r"\.b_\w+$|\bln\w+\.[wb]$" if folded_norm else r"\.b_\w+$")
    wrong = [f"{key} missing" for key in expected if key not in found and not absent.search(key)]
    wrong += [
        f"{key} {list(found[key].shape)} for {list(shape)}"
        for key, shape in expected.items()
        if key in found and tuple(found[key].shape) != shape
    ]
    wrong += [f"{key} {list(found[key].shape)} surplus" for key in found if key not in expected and not _is_idle(key, found)]
    if wrong:
        raise CheckpointError(
            f"{name}: {listed(wrong)}",
            expected="exactly the weights of this model",
            do="give the checkpoint that belongs to this configuration, or no configuration",
        )


def _is_idle(key: str, found: Mapping[str, Tensor]) -> bool:
    """Whether the tensor changes no output: it is added or multiplied and zero, or belongs to an MLP that adds nothing."""
    block = re.match(r"(blocks\.\d+\.)(mlp|ln2)\.", key)
    if block is not None and not any(_is_set(found, f"{block[1]}mlp.{part}") for part in ("W_out", "b_out")):
        return True
    return not re.search(r"\bln\w+\.[wb]$", key) and not _is_set(found, key)


def _default(key: str, shape: tuple[int, ...]) -> Tensor:
    """What an absent tensor amounts to."""
    return torch.ones(shape) if key.endswith(".w") else torch.zeros(shape)


def _to_ours(native: Mapping[str, Tensor]) -> dict[str, Tensor]:
    ours: dict[str, Tensor] = {}
    for key, tensor in native.items():
        part = re.fullmatch(r"(blocks\.\d+\.)attn\.([qkv])\.(weight|bias)", key)
        if part is None:
            ours[_swapped(key, _OURS)] = tensor
        elif part[2] == "q":
            ours[f"{part[1]}{_STACKED}.{part[3]}"] = torch.cat([native[f"{part[1]}attn.{x}.{part[3]}"] for x in "qkv"])
    return ours


def _from_ours(ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    native: dict[str, Tensor] = {}
    names = {value: key for key, value in _OURS.items()}
    for key, tensor in ours.items():
        if _STACKED in key:
            for x, part in zip("qkv", tensor.chunk(3), strict=True):
                native[key.replace(_STACKED, f"attn.{x}")] = part
        else:
            native[_swapped(key, names)] = tensor
    return native


def _swapped(key: str, names: Mapping[str, str]) -> str:
    """The key with its module's name, between an optional block and ``weight`` or ``bias``, looked up."""
    block = re.match(r"blocks\.\d+\.", key)
    prefix = "" if block is None else block[0]
    rest = key.removeprefix(prefix)
    if rest in names:
        return prefix + names[rest]
    module, _, kind = rest.rpartition(".")
    return f"{prefix}{names[module]}.{kind}"
