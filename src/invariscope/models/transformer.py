"""A decoder-only transformer in one file: every choice that the papers make is a field of its configuration.

The model follows the standard picture of the residual stream (Elhage et al. 2021, *A Mathematical Framework for Transformer
Circuits*): embeddings are written into it, each block reads it and adds to it, the unembedding reads its end. Each named
*site* is an ``nn.Identity`` submodule of that very name, so ``model.get_submodule("blocks.0.resid_mid")`` is the site and a
plain forward hook reads or replaces it.

Legend of shapes: B rows, T tokens, D width, H heads, d head width, M MLP width, V outputs.

>>> config = TransformerConfig(vocab_size=4, context_length=16, width=8, num_heads=2, mlp_width=16)
>>> model = Transformer(config, generator=torch.Generator().manual_seed(0))
>>> model(torch.zeros(2, 16, dtype=torch.long)).shape
torch.Size([2, 16, 4])
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from invariscope.errors import ConfigError, HookedSiteError, ShapeError, unknown_name

__all__ = ["Dropout", "Transformer", "TransformerConfig"]

Norm = Literal["none", "pre", "post"]
Activation = Literal["gelu", "relu"]

ACTIVATIONS = {"gelu": F.gelu, "relu": F.relu}
NORMS = ("none", "pre", "post")
POSITIONS = ("learned", "none")
INITIAL_STDS = ("width", "fan_in")
PER_LAYER = ("num_heads", "head_width", "mlp_width", "activation", "norm", "attention_bias", "mlp_bias")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerConfig:
    """Shape and choices of a :class:`Transformer`. A field that says "per layer" takes one value, or a tuple of one a layer.

    Args:
        vocab_size: number of input tokens.
        context_length: the longest sequence, in tokens.
        num_outputs: V, number of output tokens; None: as many as input tokens.
        num_layers: number of blocks.
        width: D, width of the residual stream.
        num_heads: H, per layer.
        head_width: d, per layer; None: width / num_heads.
        mlp_width: M, per layer; 0 means a block without MLP.
        activation: of the MLP, per layer: ``gelu`` (exact) or ``relu``.
        norm: layer norm, per layer: ``none``; ``pre``: x + attention(norm(x)), then x + mlp(norm(x)) of the new x (Xiong et al.,
            arXiv:2002.04745); ``post``: norm(x + attention(x)), then norm(x + mlp(x)) (Vaswani et al., arXiv:1706.03762), so
            that ``resid_mid`` and ``resid_post`` are what the norms put out.
        final_norm: a layer norm before the unembedding.
        attention_bias, mlp_bias: biases in the projections, per layer.
        unembedding_bias: a bias on the logits.
        positions: ``learned`` absolute embeddings, or ``none``.
        causal: each token attends to itself and to earlier ones only.
        initial_scale: multiplies the standard deviation of every initial weight matrix.
        initial_std: ``width``: 1 / sqrt(D) for every matrix; ``fan_in``: 1 / sqrt(inputs), and 1 / sqrt(D) for embeddings.
            Biases start at zero, gains at one.
        embedding_std: standard deviation of the initial token and position embeddings; None: as ``initial_std`` and
            ``initial_scale`` say.
        dropout: p, from 0 to below 1: in training mode the probability with which an entry is dropped (:class:`Dropout`) where
            PyTorch's ``TransformerEncoderLayer`` drops: attention weights, what attention adds, hidden units, what the MLP adds.

    Raises:
        ConfigError: for a choice that does not exist or does not fit.
    """

    vocab_size: int
    context_length: int
    num_outputs: int | None = None
    num_layers: int = 1
    width: int = 64
    num_heads: int | tuple[int, ...] = 4
    head_width: int | tuple[int, ...] | None = None
    mlp_width: int | tuple[int, ...] = 256
    activation: Activation | tuple[Activation, ...] = "gelu"
    norm: Norm | tuple[Norm, ...] = "none"
    final_norm: bool = False
    attention_bias: bool | tuple[bool, ...] = False
    mlp_bias: bool | tuple[bool, ...] = False
    unembedding_bias: bool = False
    positions: Literal["learned", "none"] = "learned"
    causal: bool = True
    initial_scale: float = 1.0
    initial_std: Literal["width", "fan_in"] = "fan_in"
    embedding_std: float | None = None
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("vocab_size", "context_length", "num_outputs", "num_layers", "width"):
            _check_at_least(name, getattr(self, name), 1)
        for name in PER_LAYER:
            value = getattr(self, name)
            if isinstance(value, list) or (isinstance(value, tuple) and len(value) != self.num_layers):
                raise ConfigError(
                    f"{name} as a {type(value).__name__} of {len(value)} values for {self.num_layers} layers",
                    expected="one value, or a tuple of one a layer",
                    do=f"give one value or a tuple of {self.num_layers}",
                )
        for layer in range(self.num_layers):
            self._check_layer(layer)
        _check_name("positions", self.positions, POSITIONS)
        _check_name("initial_std", self.initial_std, INITIAL_STDS)
        if not 0 <= self.initial_scale < math.inf:
            raise ConfigError(
                f"initial_scale = {self.initial_scale}", expected="a finite number, at least 0", do="leave it at 1 or shrink it"
            )
        if self.embedding_std is not None and not 0 <= self.embedding_std < math.inf:
            raise ConfigError(
                f"embedding_std = {self.embedding_std}", expected="a finite number, at least 0", do="leave it out or shrink it"
            )
        if not 0 <= self.dropout < 1:
            raise ConfigError(
                f"dropout = {self.dropout}", expected="a probability from 0 to below 1", do="lower it, or leave dropout out"
            )

    def _check_layer(self, layer: int) -> None:
        _check_at_least("num_heads", self.layer("num_heads", layer), 1)
        _check_at_least("head_width", self.layer("head_width", layer), 1)
        _check_at_least("mlp_width", self.layer("mlp_width", layer), 0)
        _check_name("activation", self.layer("activation", layer), tuple(ACTIVATIONS))
        _check_name("norm", self.layer("norm", layer), NORMS)
        if self.layer("head_width", layer) is None and self.width % self.layer("num_heads", layer):
            raise ConfigError(
                f"width {self.width} with {self.layer('num_heads', layer)} heads",
                expected="a width that the heads divide",
                do="change either, or give head_width",
            )

    def layer(self, name: str, index: int) -> Any:
        """The value of a per-layer field in block ``index``."""
        value = getattr(self, name)
        return value[index] if isinstance(value, tuple) else value


def _check_at_least(name: str, value: int | None, least: int) -> None:
    if value is not None and value < least:
        raise ConfigError(f"{name} = {value}", expected=f"at least {least}", do=f"give a larger {name}")


def _check_name(kind: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise unknown_name(kind, str(value), known)


class Dropout(nn.Module):
    """In training mode, each entry becomes 0 with probability p and x / (1 - p) otherwise (Srivastava et al. 2014); else x.

    Masks come from ``generator`` and never from PyTorch's global one. Whoever trains sets it before each forward as a function
    of (seed, step), so that a resumed training draws the masks that an uninterrupted one would have drawn.

    Args:
        probability: p, from 0 to below 1.

    >>> dropout = Dropout(0.5)
    >>> dropout.generator = torch.Generator().manual_seed(1)
    >>> sorted(set(dropout(torch.ones(100)).tolist())), dropout.eval()(torch.ones(2)).tolist()
    ([0.0, 2.0], [1.0, 1.0])
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability
        self.generator: torch.Generator | None = None

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """``x`` with entries dropped.

        Raises:
            ConfigError: in training mode without a generator.
        """
        if not self.training or self.probability == 0:
            return x
        if self.generator is None:
            raise ConfigError(
                f"a forward in training mode with dropout = {self.probability} and no generator of masks",
                expected="a torch.Generator: the global one is never read",
                do="call model.eval() to measure, or set model.dropout.generator before each step of a training",
            )
        keep = 1 - self.probability
        # Drawn where the generator lives, so that a model on another device sees the same masks.
        mask = torch.empty(x.shape, dtype=x.dtype, device=self.generator.device).bernoulli_(keep, generator=self.generator)
        return x * mask.div_(keep).to(x.device)


class Attention(nn.Module):
    """Multi-head attention; queries, keys and values share one matrix [3 H d, D]."""

    def __init__(self, config: TransformerConfig, layer: int, dropout: Dropout) -> None:
        super().__init__()
        self.dropout = dropout
        self.num_heads = config.layer("num_heads", layer)
        self.head_width = config.layer("head_width", layer) or config.width // self.num_heads
        self.causal = config.causal
        inner, bias = self.num_heads * self.head_width, config.layer("attention_bias", layer)
        self.query_key_value = _linear(config.width, 3 * inner, bias=bias)
        self.output = _linear(inner, config.width, bias=bias)

    def forward(self, x_BTD: Tensor, pattern: nn.Identity, heads: nn.Identity, num_queries: int | None = None) -> Tensor:
        B, T, _ = x_BTD.shape
        q, k, v = self.query_key_value(x_BTD).view(B, T, 3, self.num_heads, self.head_width).permute(2, 0, 3, 1, 4)
        if num_queries is not None:
            q = q[:, :, T - num_queries :]
        scores_BHQT = (q @ k.transpose(-1, -2)) / math.sqrt(self.head_width)
        if self.causal:
            scores_BHQT = scores_BHQT + _causal_mask(q.shape[2], T, scores_BHQT)
        pattern_BHQT = pattern(scores_BHQT.softmax(-1))
        heads_BQHd = heads((self.dropout(pattern_BHQT) @ v).transpose(1, 2))
        return self.output(heads_BQHd.flatten(2))


class Block(nn.Module):
    """One block: attention and an MLP, each added to the residual stream; its submodules with site names are its sites.

    Dropout follows ``attn_pattern`` and ``mlp_post`` and precedes ``attn_out`` and ``mlp_out``: the pattern's rows sum to 1,
    and what a site shows as added to the residual stream is what is added.
    """

    def __init__(self, config: TransformerConfig, layer: int, dropout: Dropout) -> None:
        super().__init__()
        width, hidden, bias = config.width, config.layer("mlp_width", layer), config.layer("mlp_bias", layer)
        norm = nn.Identity if config.layer("norm", layer) == "none" else partial(nn.LayerNorm, width)
        self.norm_after = config.layer("norm", layer) == "post"
        self.dropout = dropout
        self.attention, self.attention_norm = Attention(config, layer, dropout), norm()
        self.has_mlp = hidden > 0
        self.activation = ACTIVATIONS[config.layer("activation", layer)]
        self.resid_pre, self.attn_pattern, self.attn_heads = nn.Identity(), nn.Identity(), nn.Identity()
        self.attn_out, self.resid_mid, self.resid_post = nn.Identity(), nn.Identity(), nn.Identity()
        if self.has_mlp:
            self.mlp_norm = norm()
            self.mlp_input, self.mlp_output = _linear(width, hidden, bias=bias), _linear(hidden, width, bias=bias)
            self.mlp_pre, self.mlp_post, self.mlp_out = nn.Identity(), nn.Identity(), nn.Identity()

    def forward(self, x_BTD: Tensor, num_queries: int | None = None) -> Tensor:
        x_BTD = self.resid_pre(x_BTD)
        read_BTD = x_BTD if self.norm_after else self.attention_norm(x_BTD)
        attended = self.dropout(self.attention(read_BTD, self.attn_pattern, self.attn_heads, num_queries))
        x_BTD = x_BTD if num_queries is None else x_BTD[:, x_BTD.shape[1] - num_queries :]
        x_BTD = x_BTD + self.attn_out(attended)
        x_BTD = self.resid_mid(self.attention_norm(x_BTD) if self.norm_after else x_BTD)
        if self.has_mlp:
            read_BTD = x_BTD if self.norm_after else self.mlp_norm(x_BTD)
            hidden_BTM = self.dropout(self.mlp_post(self.activation(self.mlp_pre(self.mlp_input(read_BTD)))))
            x_BTD = x_BTD + self.mlp_out(self.dropout(self.mlp_output(hidden_BTM)))
            x_BTD = self.mlp_norm(x_BTD) if self.norm_after else x_BTD
        return self.resid_post(x_BTD)


BLOCK_SITES = (
    "resid_pre",
    "attn_pattern",
    "attn_heads",
    "attn_out",
    "resid_mid",
    "mlp_pre",
    "mlp_post",
    "mlp_out",
    "resid_post",
)


# What last_logits computes at every token even in the last block: keys and values need all of them. So does the norm before
# attention, where there is one.
SEE_ALL_TOKENS = ("resid_pre", "attention.query_key_value")


class Transformer(nn.Module):
    """A decoder-only transformer.

    Its one :class:`Dropout` module, ``dropout``, serves every place that drops.

    Args:
        config: its shape and choices.
        generator: source of the initial weights.
    """

    def __init__(self, config: TransformerConfig, *, generator: torch.Generator) -> None:
        super().__init__()
        self.config = config
        self.token_embedding = nn.Parameter(torch.empty(config.vocab_size, config.width))
        if config.positions == "learned":
            self.position_embedding = nn.Parameter(torch.empty(config.context_length, config.width))
        self.embed = nn.Identity()
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config, layer, self.dropout) for layer in range(config.num_layers))
        self.final_norm = nn.LayerNorm(config.width) if config.final_norm else nn.Identity()
        self.unembedding = _linear(config.width, config.num_outputs or config.vocab_size, bias=config.unembedding_bias)
        self.logits = nn.Identity()
        self._initialise(generator)

    def _initialise(self, generator: torch.Generator) -> None:
        config = self.config
        for name, parameter in self.named_parameters():
            if parameter.ndim == 1:
                gain = name.endswith("norm.weight")
                nn.init.constant_(parameter, 1.0 if gain else 0.0)
                continue
            is_embedding = name.endswith("_embedding")
            inputs = config.width if is_embedding or config.initial_std == "width" else parameter.shape[1]
            std = config.initial_scale / math.sqrt(inputs)
            if is_embedding and config.embedding_std is not None:
                std = config.embedding_std
            nn.init.normal_(parameter, std=std, generator=generator)

    def site_names(self) -> tuple[str, ...]:
        """The sites of this model, in the order of the forward pass; each is the dotted name of a submodule."""
        blocks = [
            f"blocks.{index}.{site}" for index, block in enumerate(self.blocks) for site in BLOCK_SITES if hasattr(block, site)
        ]
        return ("embed", *blocks, "final_norm", "logits")

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Logits at every token. Hooks on every site fire.

        Raises:
            ShapeError: where the sequence is longer than the context.
        """
        x_BTD = self._embedded(tokens)
        for block in self.blocks:
            x_BTD = block(x_BTD)
        return self.logits(self.unembedding(self.final_norm(x_BTD)))

    def last_logits(self, tokens: Int[Tensor, "B T"], num_rows: int = 1) -> Float[Tensor, "B num_rows V"]:
        """The last ``num_rows`` rows of :meth:`forward`, whose last block computes those rows only.

        Equal to ``forward(tokens)[:, -num_rows:]`` up to rounding (in training mode with dropout: of equal law).

        Raises:
            HookedSiteError: where a module that would see only part of the tokens, or none, carries a hook.
            ShapeError: where ``num_rows`` is not from 1 to T.
        """
        self._refuse_hooks_that_would_miss_tokens()
        if not 1 <= num_rows <= tokens.shape[-1]:
            raise ShapeError(
                f"num_rows = {num_rows} with tokens of shape {list(tokens.shape)}",
                expected=f"from 1 to the {tokens.shape[-1]} tokens of a sequence",
                do="ask for fewer rows, or call model(tokens)",
            )
        x_BTD = self._embedded(tokens)
        for block in self.blocks[:-1]:
            x_BTD = block(x_BTD)
        return self.unembedding(self.final_norm(self.blocks[-1](x_BTD, num_rows)))

    def _refuse_hooks_that_would_miss_tokens(self) -> None:
        last = f"blocks.{len(self.blocks) - 1}"
        before = () if self.config.layer("norm", -1) == "post" else ("attention_norm",)
        see_all = {f"{last}.{name}" for name in (*SEE_ALL_TOKENS, *before)}
        after = ("final_norm", "unembedding", "logits")
        modules = [(f"{last}.{name}".rstrip("."), module) for name, module in self.blocks[-1].named_modules()]
        for name, module in [*modules, *((name, self.get_submodule(name)) for name in after)]:
            if name not in see_all and (module._forward_hooks or module._forward_pre_hooks):
                raise HookedSiteError(
                    f"a hook on {name!r} during last_logits",
                    expected="no hook where only the last rows are computed",
                    do="call model(tokens), on which every hook fires",
                )

    def _embedded(self, tokens: Tensor) -> Tensor:
        if tokens.ndim != 2 or tokens.shape[1] > self.config.context_length:
            raise ShapeError(
                f"tokens of shape {list(tokens.shape)}",
                expected=f"[B, T] with T at most the context length {self.config.context_length}",
                do="shorten the sequences or build the model with a longer context_length",
            )
        x_BTD = F.embedding(tokens, self.token_embedding)
        if self.config.positions == "learned":
            x_BTD = x_BTD + self.position_embedding[: tokens.shape[1]]
        return self.embed(x_BTD)


def _linear(inputs: int, outputs: int, *, bias: bool) -> nn.Linear:
    # nn.Linear's own initialisation would draw from the global generator.
    return cast(nn.Linear, nn.utils.skip_init(nn.Linear, inputs, outputs, bias=bias))


def _causal_mask(num_queries: int, length: int, like: Tensor) -> Tensor:
    mask = torch.full((num_queries, length), -math.inf, dtype=like.dtype, device=like.device)
    return mask.triu_(length - num_queries + 1)
