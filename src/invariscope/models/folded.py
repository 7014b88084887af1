"""The logits of a two-layer attention model at the last token, from tables: no product over batch x tokens is left.

Without norm and without an MLP in the first layer, what that layer does is a matter of *which rows meet*. Stack the embeddings
of tokens and positions into one table C of K rows; a token at a position is the sum of two of them. Then

* every score of the first layer is a sum of four entries of C W_Q W_Kᵀ Cᵀ / √d (token and position of the query, of the key);
* what a head moves is a sum of rows of U = C W_V W_O, weighted by its pattern A.

So after the first layer the residual stream is a weighted *count* of N rows, C and one U for each head, here called atoms:

    x(t) = C[token(t)] + C[position(t)] + Σ_h Σ_s A_h(t, s) (U_h[token(s)] + U_h[position(s)])

The answer needs the second layer at one query only. Its scores look up, for each atom, the product of the query with the atom's
key; what it attends to is again a count of atoms, times their values. Matrix products have K, N or B rows, where the plain
forward has B x T in both layers; what is left at B x T x T is looking up, the softmax, and sums. The count of operations falls
by twenty in the study of arXiv:2605.31497, the time by a little less (``benchmarks/assign_add.py``).

The rows of a batch come *last* here: softmax and sums over tokens then run along whole vectors of rows.

Legend of shapes: B rows, T tokens, Q = T queries, V token vocabulary, K = V + T rows of the table (V without positions), D width,
H and G heads of the first and second layer, d head width, N = (1 + H) K atoms.

>>> from invariscope.models.transformer import TransformerConfig
>>> config = TransformerConfig(vocab_size=5, context_length=6, num_layers=2, width=8, num_heads=1, mlp_width=(0, 16))
>>> model = Transformer(config, generator=torch.Generator().manual_seed(0))
>>> tokens = torch.tensor([[0, 3, 1, 4], [2, 2, 0, 4]])
>>> torch.allclose(folded_logits(model, tokens), model(tokens)[:, -1], atol=1e-6)
True
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from invariscope.errors import ConfigError, HookedSiteError, ShapeError
from invariscope.models.transformer import Attention, Block, Transformer, TransformerConfig

__all__ = ["check_foldable", "folded_logits"]

LARGEST_TABLE = 2**23
"""Numbers in the table of pairs (heads x context x vocabulary²) beyond which the tables cost more than what they replace."""


def check_foldable(config: TransformerConfig) -> None:
    """Accept a configuration whose logits :func:`folded_logits` computes.

    Raises:
        ConfigError: for any other, naming every choice that does not fold.
    """
    choices = {
        "num_layers": (config.num_layers, config.num_layers == 2),
        "causal": (config.causal, config.causal),
        "dropout": (config.dropout, config.dropout == 0),
        "mlp_width of the first layer": (config.layer("mlp_width", 0), config.layer("mlp_width", 0) == 0),
    }
    for name, wanted in (("norm", "none"), ("attention_bias", False)):
        values = [config.layer(name, layer) for layer in range(config.num_layers)]
        choices[name] = (tuple(values), all(value == wanted for value in values))
    size = config.layer("num_heads", 0) * config.context_length * config.vocab_size**2
    choices["heads x context_length x vocab_size²"] = (size, size <= LARGEST_TABLE)
    bad = [f"{name} = {value!r}" for name, (value, fits) in choices.items() if not fits]
    if bad:
        raise ConfigError(
            f"a forward by tables with {', '.join(bad)}",
            expected="two causal layers without norm, attention bias and dropout, no MLP in the first, and at most "
            f"{LARGEST_TABLE} pairs",
            do="use model.last_logits(tokens), in training forward='last'",
        )


def folded_logits(model: Transformer, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B V"]:
    """``model(tokens)[:, -1]`` by tables, differentiable (once) in every weight.

    Args:
        model: of a configuration that :func:`check_foldable` accepts.
        tokens: of one length, up to the context.

    Raises:
        ConfigError: where the configuration does not fold.
        HookedSiteError: where any module of the model carries a hook, which would see nothing or too little.
        ShapeError: where the tokens are not [B, T], or longer than the context.

    Notes:
        Equal to the plain forward up to rounding: sums run in another order, in float32 a few 1e-6 in logits and gradients.
        Rounding depends on nothing but the inputs and the number of threads.
    """
    check_foldable(model.config)
    _refuse_hooks(model)
    _check_tokens(model.config, tokens)
    tokens_TB, V = tokens.T.long().contiguous(), model.config.vocab_size
    first, second = (cast(Block, block) for block in model.blocks)
    table_KD = model.token_embedding
    has_positions = model.config.positions == "learned"
    if has_positions:
        table_KD = torch.cat([table_KD, model.position_embedding[: len(tokens_TB)]])
    scores_HKK, moved_HKD = _first_tables(first.attention, table_KD)
    pattern_HQTB = _Scores.apply(scores_HKK, tokens_TB, V).softmax(2)

    last_BD = table_KD.index_select(0, tokens_TB[-1])
    if has_positions:
        last_BD = last_BD + table_KD[-1]
    counts_HKB = _count(pattern_HQTB[:, -1], tokens_TB, V, len(table_KD))
    last_BD = last_BD + counts_HKB.flatten(0, 1).T @ moved_HKD.flatten(0, 1)

    atoms_ND = torch.cat([table_KD[None], moved_HKD]).flatten(0, 1)
    x_BD = last_BD + _attend(second.attention, last_BD, atoms_ND, pattern_HQTB, tokens_TB, V)
    if second.has_mlp:
        x_BD = x_BD + second.mlp_output(second.activation(second.mlp_input(x_BD)))
    return model.unembedding(model.final_norm(x_BD))


def _refuse_hooks(model: Transformer) -> None:
    for name, module in model.named_modules():
        if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks:
            raise HookedSiteError(
                f"a hook on {name!r} during folded_logits" if name else "a hook on the model during folded_logits",
                expected="no hook: what it is to see is looked up in tables and never computed",
                do="call model(tokens), on which every hook fires",
            )


def _check_tokens(config: TransformerConfig, tokens: Tensor) -> None:
    if tokens.ndim != 2 or not 1 <= tokens.shape[1] <= config.context_length:
        raise ShapeError(
            f"tokens of shape {list(tokens.shape)}",
            expected=f"[B, T] with T from 1 to the context length {config.context_length}",
            do="shorten the sequences or build the model with a longer context_length",
        )


def _first_tables(attention: Attention, table_KD: Tensor) -> tuple[Tensor, Tensor]:
    # Scores of every row as query with every row as key, and what a head moves where it attends to a row.
    H, d = attention.num_heads, attention.head_width
    qkv_KX = F.linear(table_KD, attention.query_key_value.weight)
    q_HKd, k_HKd, v_HKd = qkv_KX.view(len(table_KD), 3, H, d).permute(1, 2, 0, 3)
    scores_HKK = torch.bmm(q_HKd / math.sqrt(d), k_HKd.transpose(1, 2))
    return scores_HKK, torch.bmm(v_HKd, attention.output.weight.view(-1, H, d).permute(1, 2, 0))


def _attend(attention: Attention, last_BD: Tensor, atoms_ND: Tensor, pattern_HQTB: Tensor, tokens_TB: Tensor, V: int) -> Tensor:
    # What the second layer adds at the last token. Its attention at t is that to the two atoms of t itself (of C), and by the
    # first layer's pattern of t that to the two atoms (of U) of each earlier token.
    (T, B), (H, _, _, _) = tokens_TB.shape, pattern_HQTB.shape
    G, d, K = attention.num_heads, attention.head_width, len(atoms_ND) // (1 + H)
    query_weight, rest_weight = attention.query_key_value.weight.split([G * d, 2 * G * d])
    q_BGd = F.linear(last_BD / math.sqrt(d), query_weight).view(B, G, d)
    k_GNd, v_GNd = F.linear(atoms_ND, rest_weight).view(-1, 2, G, d).permute(1, 2, 0, 3)
    scores_GNB = torch.bmm(k_GNd, q_BGd.permute(1, 2, 0))
    found_GXTB = _look_up(scores_GNB.view(G * (1 + H), K, B), tokens_TB, V).view(G, 1 + H, T, B)
    scores_GTB = found_GXTB[:, 0] + (pattern_HQTB * found_GXTB[:, 1:, None]).sum((1, 3))
    attended_GTB = scores_GTB.softmax(1)
    through_GHTB = (pattern_HQTB * attended_GTB[:, None, :, None]).sum(2)
    weights_GXTB = torch.cat([attended_GTB[:, None], through_GHTB], 1)
    counts_GNB = _count(weights_GXTB.flatten(0, 1), tokens_TB, V, K).view(G, (1 + H) * K, B)
    heads_GBd = torch.bmm(counts_GNB.transpose(1, 2), v_GNd)
    return attention.output(heads_GBd.transpose(0, 1).reshape(B, G * d))


def _look_up(values_RKB: Tensor, tokens_TB: Tensor, V: int) -> Tensor:
    # In each of R maps over the table's rows, the entry of each token plus, where there are positions, of its position.
    found_RTB = values_RKB[:, :V].gather(1, tokens_TB.expand(len(values_RKB), -1, -1))
    return found_RTB if values_RKB.shape[1] == V else found_RTB + values_RKB[:, V:]


def _count(weights_RTB: Tensor, tokens_TB: Tensor, V: int, K: int) -> Tensor:
    # The transpose of looking up: the weight of each row of the table, summed over the tokens at which it stands.
    R, _, B = weights_RTB.shape
    counts_RVB = weights_RTB.new_zeros(R, V, B).scatter_add(1, tokens_TB.expand(R, -1, -1), weights_RTB)
    return counts_RVB if K == V else torch.cat([counts_RVB, weights_RTB], 1)


class _Scores(torch.autograd.Function):
    """[H, Q, T, B]: the first layer's scores, -inf at later tokens, from those of every row of the table with every row.

    By hand, because the gradient of an index is one addition for each of the H Q T B scores: as ``scatter_add_`` on a flat table,
    with query token, key token and key position in one index, it takes a third of the time of what autograd does.
    """

    @staticmethod
    def forward(ctx: Any, scores_HKK: Tensor, tokens_TB: Tensor, V: int) -> Tensor:
        (T, B), (H, K, _) = tokens_TB.shape, scores_HKK.shape
        has_positions = K > V
        # Of query token v with key token w at key position t.
        pairs_HTVV = scores_HKK[:, None, :V, :V]
        # int32 sums are several times faster than int64 ones; LARGEST_TABLE keeps them in range.
        keys_TB = queries_TB = tokens_TB.int()
        if has_positions:
            pairs_HTVV = pairs_HTVV + scores_HKK[:, :V, V:].transpose(1, 2).contiguous()[..., None]
            keys_TB = keys_TB + V * V * torch.arange(T, dtype=torch.int32, device=tokens_TB.device)[:, None]
        index = ((V * queries_TB)[:, None] + keys_TB).long().reshape(-1)
        found_HQTB = scores_HKK.new_empty(H, T, T, B)
        for pairs_TVV, found_QTB in zip(pairs_HTVV, found_HQTB, strict=True):
            torch.index_select(pairs_TVV.reshape(-1), 0, index, out=found_QTB.view(-1))
        positions_HQT = scores_HKK.new_full((1, T, T), -math.inf).triu_(1)
        if has_positions:
            positions_HQT = positions_HQT + scores_HKK[:, V:, V:]
            by_position = scores_HKK[:, V:, :V].reshape(H * T, V).index_select(1, tokens_TB.view(-1))
            found_HQTB += by_position.view(H, T, T, B)
        ctx.save_for_backward(index, tokens_TB)
        ctx.V, ctx.K = V, K
        return found_HQTB.add_(positions_HQT[..., None])

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  # torch gives one gradient for each output: here is one
        ctx: Any, gradient_HQTB: Tensor
    ) -> tuple[Tensor, None, None]:
        index, tokens_TB = ctx.saved_tensors
        (H, T, _, B), V, K = gradient_HQTB.shape, ctx.V, ctx.K
        num_places = T if K > V else 1
        pairs_HTVV = gradient_HQTB.new_zeros(H, num_places, V, V)
        for pairs_TVV, gradient_QTB in zip(pairs_HTVV, gradient_HQTB, strict=True):
            pairs_TVV.view(-1).scatter_add_(0, index, gradient_QTB.reshape(-1))
        if K == V:
            return pairs_HTVV[:, 0], None, None
        scores_HKK = gradient_HQTB.new_empty(H, K, K)
        scores_HKK[:, :V, :V] = pairs_HTVV.sum(1)
        scores_HKK[:, :V, V:] = pairs_HTVV.sum(3).transpose(1, 2)
        keys = tokens_TB.view(1, -1).expand(H * T, -1)
        by_position = gradient_HQTB.new_zeros(H * T, V).scatter_add_(1, keys, gradient_HQTB.reshape(H * T, T * B))
        scores_HKK[:, V:, :V] = by_position.view(H, T, V)
        scores_HKK[:, V:, V:] = gradient_HQTB.sum(-1)
        return scores_HKK, None, None
