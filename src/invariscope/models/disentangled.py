"""The disentangled transformer: attention whose stream keeps every path apart (arXiv:2607.11875).

Layer l attends over the whole stream and writes what each head has moved into fresh blocks, beside what was there. So after L
layers the stream is a list of *paths*: ``x`` the input, ``a1`` the input moved by layer 1, ``a2`` by layer 2, ``a2a1`` by both,
and so on. Each block is as wide as the input, one-hot tokens beside one-hot position labels, and output-value maps are
identities into new blocks. What is learnt are the merged key-query matrices W, in

    score(query t, key s) = x_tᵀ W x_s        (rows of W read the query's stream, columns the key's)

and the output matrix. Nothing else mixes coordinates, so that a permutation of tokens or labels acts on the whole model by
acting on W; that is why the manifold is exact (:mod:`invariscope.manifold`). The choices ``feed_forward``, ``score_norm``,
``centred`` and ``stream`` are there to ask when that holds.

Legend of shapes: B rows, T tokens, V tokens, P labels, D = V + P, H heads, S = D (H + 1)^(l-1) the stream that layer l reads.

>>> config = DisentangledConfig(vocab_size=4, num_labels=4)
>>> config.paths(2), config.width(1)
(('x', 'a1', 'a2', 'a2a1'), 16)
>>> model = Disentangled(config, generator=torch.Generator().manual_seed(0))
>>> model(tokens=torch.tensor([[0, 1, 0]]), positions=torch.tensor([[0, 1, 2]])).shape
torch.Size([1, 4])
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from invariscope.errors import ConfigError, ShapeError, unknown_name

__all__ = ["Disentangled", "DisentangledConfig"]

Readout = Literal["trained", "direct"]
FeedForward = Literal["none", "plain", "rotated"]
Stream = Literal["concatenated", "additive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DisentangledConfig:
    """The shape of a disentangled transformer.

    Args:
        vocab_size: V. num_labels: P, position labels.
        num_layers: L. num_heads: H, of every layer.
        causal: whether tokens see earlier ones only.
        readout: ``trained``: an output matrix on the whole stream, as in the paper; ``direct``: the token part of
            ``readout_paths`` times ``readout_scale``, which cannot memorise.
        readout_paths: of ``direct``; empty: the last layer's move of the input. readout_scale: λ.
        centred: whether one-hot inputs have their mean taken off, tokens and labels each.
        score_norm: root-mean-square norm of the stream before scores, without parameters.
        feed_forward: after each layer but the last, add relu(x F): ``plain`` in the one-hot basis, ``rotated`` in a random one.
        stream: ``concatenated``, or ``additive``: all heads write into one block through random fixed maps.

    Raises:
        ConfigError, UnknownNameError: for a number out of range, or an unknown choice.
    """

    vocab_size: int
    num_labels: int
    num_layers: int = 2
    num_heads: int = 1
    causal: bool = True
    readout: Readout = "trained"
    readout_paths: tuple[str, ...] = ()
    readout_scale: float = 10.0
    centred: bool = False
    score_norm: bool = False
    feed_forward: FeedForward = "none"
    stream: Stream = "concatenated"

    def __post_init__(self) -> None:
        for name in ("vocab_size", "num_labels", "num_layers", "num_heads"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} = {getattr(self, name)}", expected="1 or more", do=f"raise {name}")
        for name, kind in (("readout", Readout), ("feed_forward", FeedForward), ("stream", Stream)):
            if getattr(self, name) not in get_args(kind):
                raise unknown_name(name, str(getattr(self, name)), get_args(kind))
        for path in self.readout_paths:
            if path not in self.paths(self.num_layers):
                raise unknown_name("path", path, self.paths(self.num_layers))

    @property
    def input_width(self) -> int:
        """D, tokens and labels."""
        return self.vocab_size + self.num_labels

    def heads(self, layer: int) -> tuple[str, ...]:
        """Names of the moves of one layer, from 1."""
        return tuple(f"a{layer}" if self.num_heads == 1 else f"a{layer}.{head}" for head in range(self.num_heads))

    def paths(self, layer: int) -> tuple[str, ...]:
        """Names of the stream's blocks after ``layer`` layers, in order."""
        paths: tuple[str, ...] = ("x",)
        for number in range(1, layer + 1 if self.stream == "concatenated" else 1):
            moved = [head if path == "x" else head + path for head, path in itertools.product(self.heads(number), paths)]
            paths = (*paths, *moved)
        return paths

    def width(self, layer: int) -> int:
        """S, width of the stream after ``layer`` layers."""
        return self.input_width * len(self.paths(layer))

    @property
    def answering_paths(self) -> tuple[str, ...]:
        """Paths whose token part is the answer of a ``direct`` readout."""
        return self.readout_paths or self.heads(self.num_layers)


class Disentangled(nn.Module):
    """A model of a :class:`DisentangledConfig`.

    Args:
        config: its shape.
        generator: of the initial weights and of fixed random maps.
        initial_std: of the initial weights.

    Attributes:
        key_query: W of each layer, [H, S, S]; rows read the query's stream, columns the key's.
        readout: the output matrix, [V, S]; None where the readout is ``direct``.
        feed_forward: F of each layer but the last, [S, S]; empty without.
    """

    def __init__(self, config: DisentangledConfig, *, generator: torch.Generator, initial_std: float = 0.01) -> None:
        super().__init__()
        self.config = config

        def drawn(*shape: int, std: float = initial_std) -> Tensor:
            return std * torch.randn(*shape, generator=generator)

        layers, H = range(config.num_layers), config.num_heads
        widths = [config.width(layer) for layer in range(config.num_layers + 1)]
        self.key_query = nn.ParameterList([nn.Parameter(drawn(H, widths[layer], widths[layer])) for layer in layers])
        self.readout = nn.Parameter(drawn(config.vocab_size, widths[-1])) if config.readout == "trained" else None
        fed = layers[:-1] if config.feed_forward != "none" else ()
        self.feed_forward = nn.ParameterList([nn.Parameter(drawn(*[widths[layer + 1]] * 2)) for layer in fed])
        for layer in fed if config.feed_forward == "rotated" else ():
            size = widths[layer + 1]
            self.register_buffer(f"rotation_{layer}", torch.linalg.qr(drawn(size, size, std=1.0)).Q)
        for layer in layers if config.stream == "additive" else ():
            D = config.input_width
            self.register_buffer(f"output_value_{layer}", drawn(H, D, D, std=D**-0.5))

    def embed(self, tokens: Int[Tensor, "B T"], positions: Int[Tensor, "B T"] | None = None) -> Float[Tensor, "B T D"]:
        """One-hot tokens beside one-hot labels, each without its mean where the model is ``centred``.

        Args:
            tokens: of each sequence. positions: their labels; None: token t has the label t.

        Raises:
            ShapeError: for tokens and labels of different shapes, or out of range.
        """
        config, dtype = self.config, self.key_query[0].dtype
        if positions is None:
            positions = torch.arange(tokens.shape[-1], device=tokens.device).expand(tokens.shape)
        for name, given, size in (("tokens", tokens, config.vocab_size), ("positions", positions, config.num_labels)):
            if (
                given.shape != tokens.shape
                or given.ndim != 2
                or (given.numel() and not 0 <= int(given.min()) <= int(given.max()) < size)
            ):
                raise ShapeError(
                    f"{name} of shape {list(given.shape)} beside tokens of {list(tokens.shape)}",
                    expected=f"[B, T] of numbers from 0 to {size - 1}",
                    do="take both from one batch of the task that the model is for",
                )
        parts = [F.one_hot(tokens, config.vocab_size).to(dtype), F.one_hot(positions, config.num_labels).to(dtype)]
        if config.centred:
            parts = [part - 1 / part.shape[-1] for part in parts]
        return torch.cat(parts, -1)

    def forward(self, tokens: Int[Tensor, "B T"], positions: Int[Tensor, "B T"] | None = None) -> Float[Tensor, "B V"]:
        """Logits at the last token; the last layer computes that query alone. Arguments as :meth:`embed`."""
        x = self.embed(tokens, positions)
        for layer in range(self.config.num_layers):
            x = self._layer(x, layer, last_only=layer == self.config.num_layers - 1)
        last = x[:, -1]
        if self.readout is not None:
            return last @ self.readout.T
        paths, D = self.config.paths(self.config.num_layers), self.config.input_width
        starts = [D * paths.index(path) for path in self.config.answering_paths] if self.config.stream == "concatenated" else [0]
        answers = torch.stack([last[:, start : start + self.config.vocab_size] for start in starts]).sum(0)
        return self.config.readout_scale * answers

    def _layer(self, x: Float[Tensor, "B T S"], layer: int, *, last_only: bool) -> Float[Tensor, "B Q S"]:
        read = x
        if self.config.score_norm:
            read = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-12)
        T = x.shape[1]
        queries = read[:, -1:] if last_only else read
        scores = torch.einsum("bqi,hij,bkj->bhqk", queries, self.key_query[layer], read)
        if self.config.causal and not last_only:
            scores = scores.masked_fill(torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1), float("-inf"))
        moved = scores.softmax(-1) @ x[:, None]
        kept = x[:, -1:] if last_only else x
        if self.config.stream == "additive":
            return kept + torch.einsum("bhqi,hij->bqj", moved, getattr(self, f"output_value_{layer}"))
        stream = torch.cat([kept, *moved.unbind(1)], -1)
        return self._fed(stream, layer) if layer < len(self.feed_forward) else stream

    def _fed(self, x: Float[Tensor, "B T S"], layer: int) -> Float[Tensor, "B T S"]:
        weight = self.feed_forward[layer]
        if self.config.feed_forward == "plain":
            return x + (x @ weight).relu()
        rotation = getattr(self, f"rotation_{layer}")
        return x + (x @ rotation @ weight).relu() @ rotation.T
