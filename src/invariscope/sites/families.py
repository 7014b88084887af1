"""The families of Hugging Face's causal language models: the one table of where their sites are.

A site is a place in the computation, and every family has it elsewhere: what attention adds to the residual stream is GPT-2's
``attn`` output, but Gemma's only after one more norm. The table says, for each family, which submodule of a block it is, whether
its input or its output is meant, and which entry of a tuple. Nobody else names a family; none is imported: the model's own
``config.model_type`` says what it is (checked with transformers 5.24, family by family, in ``tests/consistency``).

==============================  ========================================================================================
site                            what it is, in every family
==============================  ========================================================================================
``embed``                       what the first block reads: token embeddings, with those of positions where they are added
``resid_pre``, ``resid_post``   input and output of the block
``attn_pattern``                [B, H, T, T]: the weights that attention returns. Read-only: they are a copy. Eager only
``attn_heads``                  [B, T, H, d]: input of attention's output projection, head by head
``attn_out``, ``mlp_out``       what is *added* to the residual stream (Gemma: after the norms behind attention and MLP)
``resid_mid``                   the residual stream between attention and MLP; there is none where both read the block's input
``mlp_pre``                     before the non-linearity; in a gated MLP what the gate projection puts out
``mlp_post``                    input of the MLP's output projection; in a gated MLP gate times up
``final_norm``                  what the unembedding reads
``logits``                      what the unembedding puts out, before a soft cap where there is one (:class:`LanguageParts`)
==============================  ========================================================================================

>>> " ".join(sorted(FAMILIES))
'gemma2 gemma3_text gpt2 gpt_neox llama mistral qwen2 qwen3'
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from invariscope.errors import ConfigError, UnknownNameError

__all__ = ["BLOCK_SITES", "FAMILIES", "Family", "LanguageParts", "Located", "Place", "language_parts", "locate"]

BLOCK_SITES = (
    *("resid_pre", "attn_pattern", "attn_heads", "attn_out", "resid_mid"),
    *("mlp_pre", "mlp_post", "mlp_out", "resid_post"),
)
"""Sites of a block in the order of the forward pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a site is.

    Args:
        path: the submodule, from the block or the base model; empty: that itself.
        side: its output or its first tensor input.
        entry: which entry, where the output is a tuple.
        per_head: the last axis holds the heads side by side.
        forked: the input goes elsewhere too (the residual stream past a norm): replacing it must reach both ways.
        read_only: what is seen is a copy, and replacing it would change nothing.
    """

    path: str = ""
    side: Literal["out", "in"] = "out"
    entry: int = 0
    per_head: bool = False
    forked: bool = False
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionPlaces:
    """Where the weights of a block's heads are: submodules of the block.

    Args:
        norm: what stands in front of attention.
        module: attention itself, whose ``scaling`` multiplies the scores.
        query, key, value: projections; where one module holds all three, ``query`` names it and the others are empty.
        output: the projection behind the heads.
        packing: of that one module: all queries, then all keys, then all values (``parts``), or head by head (``heads``).
        inputs_first: matrices are [inputs, outputs].
    """

    norm: str
    module: str
    query: str
    key: str = ""
    value: str = ""
    output: str
    packing: Literal["", "parts", "heads"] = ""
    inputs_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One row of the table.

    Args:
        blocks: the list of blocks in the base model.
        embed: the module of the base model that gives what the first block reads.
        final_norm: the module of the base model that gives what the unembedding reads.
        block: sites of a block.
        tokens, positions: modules of the base model that hold the embeddings; empty: there is no embedding of positions.
        attention: where the weights of heads are; None: heads are more than linear maps there, with norms of their own.
        parallel: the option of the configuration under which attention and MLP read the same input.
    """

    blocks: str
    embed: str
    final_norm: str
    block: Mapping[str, Place]
    tokens: str = "embed_tokens"
    positions: str = ""
    attention: AttentionPlaces | None = None
    parallel: str = ""


def _block(*, attention: str, projection: str, mlp_pre: str, mlp_post: str, **rest: Place) -> Mapping[str, Place]:
    return {
        "resid_pre": Place(side="in"),
        "attn_pattern": Place(path=attention, entry=1, read_only=True),
        "attn_heads": Place(path=f"{attention}.{projection}", side="in", per_head=True),
        "mlp_pre": Place(path=mlp_pre),
        "mlp_post": Place(path=mlp_post, side="in"),
        "resid_post": Place(),
        **rest,
    }


def _residual(norm: str) -> Place:
    return Place(path=norm, side="in", forked=True)


def _gated(**rest: Place) -> Mapping[str, Place]:
    return _block(attention="self_attn", projection="o_proj", mlp_pre="mlp.gate_proj", mlp_post="mlp.down_proj", **rest)


_GPT2 = Family(
    blocks="h",
    embed="drop",
    final_norm="ln_f",
    block=_block(
        attention="attn",
        projection="c_proj",
        attn_out=Place(path="attn"),
        resid_mid=_residual("ln_2"),
        mlp_pre="mlp.c_fc",
        mlp_post="mlp.c_proj",
        mlp_out=Place(path="mlp"),
    ),
    tokens="wte",
    positions="wpe",
    attention=AttentionPlaces(
        norm="ln_1", module="attn", query="attn.c_attn", output="attn.c_proj", packing="parts", inputs_first=True
    ),
)
_GPT_NEOX = Family(
    blocks="layers",
    embed="emb_dropout",
    final_norm="final_layer_norm",
    block=_block(
        attention="attention",
        projection="dense",
        attn_out=Place(path="post_attention_dropout"),
        resid_mid=_residual("post_attention_layernorm"),
        mlp_pre="mlp.dense_h_to_4h",
        mlp_post="mlp.dense_4h_to_h",
        mlp_out=Place(path="post_mlp_dropout"),
    ),
    tokens="embed_in",
    attention=AttentionPlaces(
        norm="input_layernorm",
        module="attention",
        query="attention.query_key_value",
        output="attention.dense",
        packing="heads",
    ),
    parallel="use_parallel_residual",
)
_LLAMA = Family(
    blocks="layers",
    embed="embed_tokens",
    final_norm="norm",
    block=_gated(
        attn_out=Place(path="self_attn"),
        resid_mid=_residual("post_attention_layernorm"),
        mlp_out=Place(path="mlp"),
    ),
    attention=AttentionPlaces(
        norm="input_layernorm",
        module="self_attn",
        query="self_attn.q_proj",
        key="self_attn.k_proj",
        value="self_attn.v_proj",
        output="self_attn.o_proj",
    ),
)
_GEMMA = Family(
    blocks="layers",
    embed="embed_tokens",
    final_norm="norm",
    block=_gated(
        attn_out=Place(path="post_attention_layernorm"),
        resid_mid=_residual("pre_feedforward_layernorm"),
        mlp_out=Place(path="post_feedforward_layernorm"),
    ),
)

FAMILIES: Mapping[str, Family] = {
    "gpt2": _GPT2,
    "gpt_neox": _GPT_NEOX,
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "qwen2": _LLAMA,
    "qwen3": dataclasses.replace(_LLAMA, attention=None),
    "gemma2": _GEMMA,
    "gemma3_text": _GEMMA,
}
"""``config.model_type`` to its row; the text part of a model of several kinds of input has a type of its own."""

# The unembedding has this name in all of them.
_UNEMBEDDING = "lm_head"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Located:
    """A model of a known family.

    Args:
        family: its row of the table.
        model_type: its key in the table.
        base: the submodule that holds the blocks.
        blocks: they.
        unembedding: the head; None for a model without one.
        config: the configuration of ``base``.
    """

    family: Family
    model_type: str
    base: nn.Module
    blocks: nn.ModuleList
    unembedding: nn.Module | None
    config: Any

    def names(self) -> tuple[str, ...]:
        """The sites that this model has as it stands, in the order of the forward pass."""
        kinds = [kind for kind in BLOCK_SITES if not (kind == "resid_mid" and self.is_parallel)]
        if not self.is_eager:
            kinds.remove("attn_pattern")
        inside = [f"blocks.{number}.{kind}" for number in range(len(self.blocks)) for kind in kinds]
        return ("embed", *inside, "final_norm", *(("logits",) if self.unembedding is not None else ()))

    @property
    def is_parallel(self) -> bool:
        """Whether attention and MLP read the same input."""
        return bool(self.family.parallel) and bool(getattr(self.config, self.family.parallel))

    @property
    def is_eager(self) -> bool:
        """Whether attention is carried out in the one way that returns its weights."""
        return getattr(self.config, "_attn_implementation", None) == "eager"

    def place(self, name: str) -> tuple[nn.Module, Place]:
        """The module and the place of the site ``name``, which is one of :meth:`names`.

        Raises:
            UnknownNameError, ConfigError: for a site that this family has and this model has not, or not as it stands.
        """
        if name in ("embed", "final_norm"):
            return self.base.get_submodule(getattr(self.family, name)), Place()
        if name == "logits":
            assert self.unembedding is not None
            return self.unembedding, Place()
        _, number, kind = name.split(".")
        place = self.family.block[kind]
        return self.blocks[int(number)].get_submodule(place.path), place

    def refuse_absent(self, name: str) -> None:
        """Raise where the family has the site ``name`` and this model has not; any other name passes.

        Raises:
            UnknownNameError: for the middle of a block whose residual stream has none.
            ConfigError: for attention weights that this implementation does not return.
        """
        parts = name.split(".")
        if len(parts) != 3 or parts[0] != "blocks" or parts[1] not in map(str, range(len(self.blocks))):
            return
        block = f"blocks.{parts[1]}"
        if parts[2] == "resid_mid" and self.is_parallel:
            raise UnknownNameError(
                f"site {name!r} of a {self.model_type} whose residual is parallel",
                expected="a residual stream between attention and MLP, and here both read the block's input",
                do=f"take {block}.resid_pre, {block}.resid_post, or what is added: {block}.attn_out and {block}.mlp_out",
            )
        if parts[2] == "attn_pattern" and not self.is_eager:
            raise ConfigError(
                f"site {name!r} with the attention implementation {getattr(self.config, '_attn_implementation', None)!r}",
                expected="'eager', the only one that returns attention weights",
                do="call model.set_attn_implementation('eager') first, or load the model with attn_implementation='eager'",
            )


def locate(model: nn.Module) -> Located | None:
    """The one model of a known family that ``model`` is or wraps; None where there is none, or several.

    A wrapper may stand around it (an adapter, a model with several kinds of input), and its own head may be missing.
    """
    found: list[Located] = []
    ancestors = [module for module in model.modules() if isinstance(getattr(module, _UNEMBEDDING, None), nn.Module)]
    for module in model.modules():
        config = getattr(module, "config", None)
        model_type = getattr(config, "model_type", None)
        family = FAMILIES.get(model_type) if isinstance(model_type, str) else None
        blocks = None if family is None else module._modules.get(family.blocks)
        if family is None or not isinstance(blocks, nn.ModuleList):
            continue
        heads = [getattr(above, _UNEMBEDDING) for above in ancestors if any(part is module for part in above.modules())]
        located = Located(
            family=family,
            model_type=str(model_type),
            base=module,
            blocks=blocks,
            unembedding=heads[-1] if heads else None,
            config=config,
        )
        found.append(located)
    return found[0] if len(found) == 1 else None


def model_type_of(model: nn.Module) -> str | None:
    """What a Hugging Face model says it is; None for any other module."""
    model_type = getattr(getattr(model, "config", None), "model_type", None)
    return model_type if isinstance(model_type, str) else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LanguageParts:
    """The parts of a causal language model, whatever its family calls them.

    logits = unembedding(final_norm(blocks(embed(tokens)))), and then ``softcap`` * tanh(logits / softcap) where there is one.

    Args:
        blocks: the blocks, from the lowest.
        final_norm: what stands before the unembedding.
        unembedding: the head, a linear map of the final state to logits.
        base: the model without the head.
        softcap: the bound of the logits (Gemma 2); None: there is none.
        model_type: its family.
    """

    blocks: nn.ModuleList
    final_norm: nn.Module
    unembedding: nn.Module
    base: nn.Module
    softcap: float | None
    model_type: str


def language_parts(model: nn.Module) -> LanguageParts:
    """The parts of ``model``.

    Raises:
        ConfigError: for a model of no known family, or without an unembedding.
    """
    located = locate(model)
    if located is None:
        model_type = model_type_of(model)
        raise ConfigError(
            f"{type(model).__name__}{f' of type {model_type!r}' if model_type else ''}, taken for a causal language model",
            expected=f"one model of a known family: {', '.join(FAMILIES)}",
            do="read, edit and differentiate it at module:<dotted name>, which works on any module",
        )
    if located.unembedding is None:
        raise ConfigError(
            f"{type(model).__name__}, a {located.model_type} without an unembedding",
            expected="a model for causal language modelling",
            do="load it with AutoModelForCausalLM",
        )
    softcap = getattr(located.config, "final_logit_softcapping", None)
    return LanguageParts(
        blocks=located.blocks,
        final_norm=located.base.get_submodule(located.family.final_norm),
        unembedding=located.unembedding,
        base=located.base,
        softcap=None if softcap is None else float(softcap),
        model_type=located.model_type,
    )
