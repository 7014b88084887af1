"""The part of a language model that computes the answer at the last token: everything else is run once, without gradients.

An answer is read at the last token of a prompt. In a causal model nothing at that token reaches the tokens before it, so their
keys and values are constants of every edit and every gradient at the last token. :func:`split_prefix` computes them once;
:class:`Downstream` runs the last token alone from there, from the embedding or, with ``block=i``, from the residual stream that
block i puts out: the map R^D -> R^K whose Jacobian a core is made of (arXiv:2602.22600). What is skipped changes no number: the
logits equal those of the plain forward up to rounding.

    batches = [split_prefix(model, batch) for batch in batches]         # prompts padded on the left
    last = Downstream(model)                                            # last(**batch.inputs): logits [B, V]
    states = read_states(last, batches[0], blocks=[11])                 # {11: [B, 1, D]}
    above = Downstream(model, block=11)                                 # its site is "module:state"
    above(**from_state(batches[0], states[11]).inputs)                  # the same logits, from blocks 12, 13, ...
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from invariscope.batch import Batch
from invariscope.errors import ConfigError, HookedSiteError, PositionError
from invariscope.sites import frozen, language_parts, read_sites

__all__ = ["STATE", "Downstream", "from_state", "read_states", "split_prefix"]

STATE = "module:state"
"""The site of a :class:`Downstream` that starts at a block: what that block puts out."""


class Downstream(nn.Module):
    """A causal language model from the output of one block to the logits at the last token.

    Args:
        model: of a known family (:mod:`invariscope.sites`); used as it is, its parameters are not copied.
        block: the last block that is skipped, from 0; None: none is, and every site of the model can be hooked at the last token.
        vocabulary: compute the logits of these token ids only, in this order; None: of all.

    Raises:
        ConfigError: for a block that the model does not have.
    """

    def __init__(self, model: nn.Module, *, block: int | None = None, vocabulary: Sequence[int] | None = None) -> None:
        super().__init__()
        self.viewed = model
        self.parts = language_parts(model)
        num_blocks = len(self.parts.blocks)
        if block is not None and not 0 <= block < num_blocks:
            raise ConfigError(
                f"block {block} of a model of {num_blocks} blocks", expected=f"0 to {num_blocks - 1}", do="count blocks from 0"
            )
        self.block = block
        self.vocabulary: Tensor | None = None if vocabulary is None else torch.as_tensor(list(vocabulary))
        self.state = nn.Identity()

    def forward(
        self,
        state: Float[Tensor, "B t D"] | None = None,
        *,
        input_ids: Tensor,
        attention_mask: Tensor,
        position_ids: Tensor,
        **cached: Tensor,
    ) -> Float[Tensor, "B V"]:
        """Logits at the last token.

        Args:
            state: what block ``block`` puts out at the t tokens of ``input_ids``.
            input_ids, position_ids: [B, t]: the last token (t = 1), or the whole prompt.
            attention_mask: [B, T] of the whole prompt, padded on the left.
            cached: ``key_0``, ``value_0``, ...: what each block attends to before those t tokens.

        Raises:
            PositionError: for a prompt that does not end at the last token.
            HookedSiteError: where a skipped block carries a hook.
        """
        if not bool(attention_mask[:, -1].all()):
            raise PositionError(
                "prompts padded on the right", expected="prompts that end at the last token", do="pad them on the left"
            )
        cache = _cache_of(self.viewed, attention_mask.shape[1] - input_ids.shape[1], cached) if cached else None
        with self._skipping(state):
            found = self.parts.base(
                input_ids=input_ids,
                attention_mask=attention_mask,
                position_ids=position_ids,
                cache=cache,
                use_cache=cache is not None,
            )
        return self._unembed(found.last_hidden_state[:, -1])

    def _unembed(self, final: Float[Tensor, "B D"]) -> Float[Tensor, "B V"]:
        head: Any = self.parts.unembedding
        if self.vocabulary is None:
            logits = head(final)
        else:
            chosen = self.vocabulary.to(head.weight.device)
            logits = F.linear(final, head.weight[chosen], None if head.bias is None else head.bias[chosen])
        cap = self.parts.softcap
        return logits if cap is None else cap * torch.tanh(logits / cap)

    @contextmanager
    def _skipping(self, state: Tensor | None) -> Iterator[None]:
        """Inside, the blocks up to ``block`` compute nothing, and that one gives ``state``."""
        if self.block is None:
            yield
            return
        if state is None:
            raise ConfigError(
                f"a forward from block {self.block} without its state", expected="state [B, t, D]", do="call from_state"
            )
        skipped = list(self.parts.blocks[: self.block + 1])
        self._refuse_hooks(skipped)
        replaced = self.state(state)

        def passed(hidden_states: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            return hidden_states

        def given(hidden_states: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            return replaced

        # The model's own forward still builds masks and rotations; only the blocks' work is left out.
        before = [block.__dict__.get("forward") for block in skipped]
        try:
            for block in skipped:
                block.forward = passed
            skipped[-1].forward = given
            yield
        finally:
            for block, own in zip(skipped, before, strict=True):
                del block.forward
                if own is not None:
                    block.forward = own

    def _refuse_hooks(self, skipped: Sequence[nn.Module]) -> None:
        for number, block in enumerate(skipped):
            for name, module in block.named_modules():
                hooks = (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
                # What transformers installs to record hidden states stays for good and sees nothing unless it is asked to.
                if any(not getattr(hook, "__module__", "").startswith("transformers.") for hook in hooks):
                    where = f"block {number}, {name!r}," if name else f"block {number}"
                    raise HookedSiteError(
                        f"a hook on {where} of a forward that starts above block {len(skipped) - 1}",
                        expected="no hook where nothing is computed",
                        do=f"hook {STATE!r}, or a block from {len(skipped)} on",
                    )


def split_prefix(model: nn.Module, batch: Batch) -> Batch:
    """The last token of each prompt, with the keys and values of all tokens before it; labels and the like stay.

    Args:
        model: a causal language model.
        batch: prompts padded on the left: ``input_ids``, ``attention_mask`` and ``position_ids``, [B, T].

    Returns:
        A batch of length 1, for :class:`Downstream`.

    Raises:
        PositionError: for prompts padded on the right.
    """
    ids, mask, positions = (batch.inputs[name] for name in ("input_ids", "attention_mask", "position_ids"))
    if not bool(mask[:, -1].all()):
        raise PositionError(
            "prompts padded on the right", expected="prompts that end at the last token", do='build them with side="left"'
        )
    last = {"input_ids": ids[:, -1:], "position_ids": positions[:, -1:], "attention_mask": mask}
    cached: dict[str, Tensor] = {}
    if ids.shape[1] > 1:
        base = language_parts(model).base
        with torch.no_grad(), frozen(model):
            found = base(input_ids=ids[:, :-1], attention_mask=mask[:, :-1], position_ids=positions[:, :-1], use_cache=True)
        for number, layer in enumerate(found.cache.layers):
            cached |= {f"key_{number}": layer.keys, f"value_{number}": layer.values}
    return dataclasses.replace(batch, inputs={**last, **cached}, valid=None, marked=None)


def from_state(batch: Batch, state: Float[Tensor, "B t D"]) -> Batch:
    """The same rows, to be run from the ``state`` that a block puts out (see :class:`Downstream`)."""
    return dataclasses.replace(batch, inputs={"state": state, **batch.inputs})


def read_states(model: Downstream, batch: Batch, *, blocks: Sequence[int]) -> dict[int, Float[Tensor, "B t D"]]:
    """What each of ``blocks`` puts out at the tokens of ``batch``, in one forward."""
    names = {block: f"blocks.{block}.resid_post" for block in blocks}
    shape = batch.inputs["input_ids"].shape
    every = torch.ones(shape, dtype=torch.bool)
    with torch.no_grad(), frozen(model), read_sites(model, list(names.values()), positions="all", valid=every) as seen:
        model(**batch.inputs)
    return {block: seen[name].unflatten(0, tuple(shape)) for block, name in names.items()}


def _cache_of(model: nn.Module, length: int, cached: dict[str, Tensor]) -> Any:
    """The keys and values of the ``length`` tokens before, as transformers wants them."""
    from transformers import DynamicCache

    config: Any = model.config
    cache = DynamicCache(config=config)
    layers: list[Any] = cache.layers
    for number, layer in enumerate(layers):
        keys, values = cached[f"key_{number}"], cached[f"value_{number}"]
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
        # A sliding layer keeps fewer keys than it has seen tokens.
        if hasattr(layer, "cumulative_length"):
            layer.cumulative_length = length
    return cache
