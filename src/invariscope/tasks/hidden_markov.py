"""Hidden Markov chains: a task whose best solution is a belief about states that are never shown.

A hidden state s starts from its stationary law π and moves by P[s, s'] = P(next = s' | now = s); on arrival in s it emits the
token v with probability E[s, v]. The best prediction needs the exact posterior over the hidden state, the belief, which Bayes'
rule updates token by token:

    b_1 ∝ π ∘ E[:, x_1],    b_t ∝ (b_{t-1} P) ∘ E[:, x_t],    P(x_{t+1} | x_1 ... x_t) = b_t P E

A model that predicts as well as this carries the belief in some form, and `beliefs` says what to look for. Where the state moves
slowly and is seen dimly, the belief is no copy of the last tokens: `last_tokens_code` is the control that tells the two apart
(the last three tokens explain .99 of the belief of ``mess3_usual``, .82 of ``mess3_blurred``, .78 of ``six_tokens``).

References: beliefs in the residual stream, arXiv:2405.15943; the filter is the forward algorithm of Rabiner (1989),
doi:10.1109/5.18626.

>>> chain = HiddenMarkovChain([[0.5, 0.5], [0.5, 0.5]], [[0.9, 0.1], [0.2, 0.8]], sequence_length=2)
>>> [[round(share, 4) for share in belief] for belief in chain.beliefs(torch.tensor([[0, 1]]))[0].tolist()]
[[0.8182, 0.1818], [0.1111, 0.8889]]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from invariscope.batch import Batch
from invariscope.errors import ConfigError, ShapeError
from invariscope.estimate import Estimate
from invariscope.numerics import estimate_mean
from invariscope.positions import Positions
from invariscope.tasks.chain_algebra import check_emission, check_transition, is_cyclic, stationary_law
from invariscope.tasks.describe import factory_name
from invariscope.tasks.sequences import (
    check_enumerable,
    check_length,
    check_sample_size,
    cumulative_law,
    draw_outcomes,
    draw_path,
    is_enumerable,
    list_sequences,
    shipped_chain,
)
from invariscope.tasks.task import (
    CandidateMap,
    Chance,
    LazyBatches,
    SampledBatches,
    Symmetry,
    check_pool,
    cyclic_symmetry,
    derive_seed,
    time_shift,
)

__all__ = ["HiddenMarkovChain"]

Matrix: TypeAlias = "Float[Tensor, 'S V'] | np.ndarray | Sequence[Sequence[float]]"

# Sequences held at once by the exact optimum and its estimate.
CHUNK = 4096
# A one-hot code of more combinations has more columns than a regression on it can bear.
MAX_CODES = 4096


class HiddenMarkovChain:
    """A stationary hidden Markov chain: S hidden states, V tokens.

    Args:
        hidden_transition: P[s, s'] = P(next = s' | now = s), [S, S]; rows sum to 1 within 1e-6 and are normalised in float64.
        emission: E[s, v] = P(token = v | state = s), [S, V], the same.
        sequence_length: T, the tokens a model sees; one more is drawn, the last target.
        name: what results call it.

    Attributes:
        hidden_transition: [S, S] float64. emission: [S, V] float64.
        num_hidden: S. vocab_size, num_outputs: V.
        stationary: π, the law of the hidden state at every position, [S] float64.
        token_law: π E, the law of the token at every position, [V] float64.
        symmetry: the cyclic shift of tokens where it keeps P and E (as in Mess3), else None.
        candidate_maps: the time shift, with no spectrum: a belief moves by a linear map and a division, and by another map
            for each token.

    Raises:
        TransitionMatrixError: where ``hidden_transition`` is no transition matrix, reducible or periodic, or where ``emission``
            is no matrix of laws with one row a hidden state.
        ConfigError: where ``sequence_length`` is below 1.

    Notes:
        Both pools, ``train`` and ``heldout``, have the same law and separate random streams; short sequences occur in both.
    """

    loss_positions: Positions = "all"
    pools: tuple[str, ...] = ("train", "heldout")

    def __init__(
        self, hidden_transition: Matrix, emission: Matrix, sequence_length: int = 16, *, name: str = "hidden-markov"
    ) -> None:
        self.hidden_transition: Float[Tensor, "S S"] = check_transition(hidden_transition)
        self.num_hidden = len(self.hidden_transition)
        self.emission: Float[Tensor, "S V"] = check_emission(emission, self.num_hidden)
        self.vocab_size = self.num_outputs = self.emission.shape[1]
        self.sequence_length = check_length(sequence_length)
        self.name = name
        self.stationary: Float[Tensor, "S"] = stationary_law(self.hidden_transition)
        self.token_law: Float[Tensor, "V"] = self.stationary @ self.emission
        cyclic = is_cyclic(self.hidden_transition) and is_cyclic(self.emission)
        self.symmetry: Symmetry | None = cyclic_symmetry(self.vocab_size, sequence_length) if cyclic else None
        self.candidate_maps: tuple[CandidateMap, ...] = (time_shift(None),)
        self._optimum: Chance | None = None

    @classmethod
    def named(cls, name: str, sequence_length: int = 16) -> HiddenMarkovChain:
        """A hidden chain that ships with the library.

        ``six_tokens`` shows three slow states through six tokens; ``mess3_usual`` is the Mess3 of arXiv:2405.15943, whose state
        the last tokens nearly give away; in ``mess3_blurred`` the state is slower and seen less clearly.

        Raises:
            UnknownNameError: with the nearest three names.
        """
        chain = shipped_chain("hidden", name)
        return cls(chain["hidden_transition"], chain["emission"], sequence_length, name=name)

    def __repr__(self) -> str:
        return (
            f"HiddenMarkovChain({self.name!r}, num_hidden={self.num_hidden}, vocab_size={self.vocab_size}, "
            f"sequence_length={self.sequence_length})"
        )

    def describe(self) -> dict[str, Any]:
        """The chain as JSON; see :func:`invariscope.tasks.build_task`."""
        return {
            "factory": factory_name(type(self)),
            "arguments": {
                "hidden_transition": self.hidden_transition.tolist(),
                "emission": self.emission.tolist(),
                "sequence_length": self.sequence_length,
                "name": self.name,
            },
        }

    @classmethod
    def from_json(
        cls, *, hidden_transition: list[list[float]], emission: list[list[float]], sequence_length: int, name: str
    ) -> HiddenMarkovChain:
        """The chain that :meth:`describe` describes, equal to the last bit."""
        return cls(hidden_transition, emission, sequence_length, name=name)

    def beliefs(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T S"]:
        """The exact posterior over the hidden state after each token: b_t ∝ (b_{t-1} P) ∘ E[:, x_t], b_1 ∝ π ∘ E[:, x_1].

        Args:
            tokens: [B, T], of any length T.

        Returns:
            [B, T, S] float64 on the tokens' device; each belief sums to 1.

        Raises:
            ShapeError: where ``tokens`` is not [B, T], or holds what is no token of this chain.
            ConfigError: where a sequence cannot occur, with the token at which it becomes impossible.
        """
        beliefs, evidence = self._filter(tokens)
        impossible = (evidence <= 0).nonzero()
        if len(impossible):
            row, t = impossible[0].tolist()
            raise ConfigError(
                f"sequence {row}, whose token {int(tokens[row, t])} at position {t} has probability 0 after those before it",
                expected="sequences that the chain can emit",
                do="leave them out, or give every token a small probability in every hidden state",
            )
        return beliefs

    def next_token_law(self, beliefs: Float[Tensor, "... S"]) -> Float[Tensor, "... V"]:
        """b P E: the law of the token that comes next, for beliefs [..., S], in their dtype and on their device.

        Raises:
            ShapeError: where the last axis is not one share a hidden state.
        """
        if not beliefs.ndim or beliefs.shape[-1] != self.num_hidden:
            raise ShapeError(
                f"beliefs of shape {list(beliefs.shape)} for a chain of {self.num_hidden} hidden states",
                expected=f"[..., {self.num_hidden}]",
                do="pass beliefs(tokens), or coordinates mapped back to one share a hidden state",
            )
        return beliefs @ (self.hidden_transition @ self.emission).to(beliefs)

    def _filter(self, tokens: Int[Tensor, "B T"]) -> tuple[Float[Tensor, "B T S"], Float[Tensor, "B T"]]:
        # Beliefs, and P(x_t | x_1 ... x_{t-1}), the divisor of Bayes' rule.
        self._check_tokens(tokens)
        move, seen = self.hidden_transition.to(tokens.device), self.emission.T.to(tokens.device)
        prior = self.stationary.to(tokens.device).expand(len(tokens), -1)
        beliefs, evidence = [], []
        for t in range(tokens.shape[1]):
            joint = prior * seen[tokens[:, t]]
            evidence.append(joint.sum(1))
            # Impossible sequences stay zero: their evidence says so, and nothing is divided by it.
            beliefs.append(joint / evidence[-1].clamp_min(torch.finfo(joint.dtype).tiny)[:, None])
            prior = beliefs[-1] @ move
        return torch.stack(beliefs, 1), torch.stack(evidence, 1)

    def _check_tokens(self, tokens: Int[Tensor, "B T"]) -> None:
        integers = not (tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool)
        if tokens.ndim != 2 or not tokens.numel() or not integers:
            raise ShapeError(
                f"tokens of shape {list(tokens.shape)} and dtype {tokens.dtype}",
                expected="integers [B, T], at least one",
                do="pass batch.inputs['tokens']",
            )
        low, high = int(tokens.min()), int(tokens.max())
        if low < 0 or high >= self.vocab_size:
            raise ShapeError(
                f"tokens from {low} to {high} for a chain of {self.vocab_size} tokens",
                expected=f"0 ... {self.vocab_size - 1}",
                do="filter sequences of this very chain",
            )

    def last_tokens_code(self, tokens: Int[Tensor, "B T"], num: int = 2) -> Float[Tensor, "B T-num+1 V**num"]:
        """One-hot code of which ``num`` tokens came last: the control for a model that only copies tokens.

        A regression on it gives the conditional mean of whatever is predicted, so no function of the last ``num`` tokens explains
        more.

        Args:
            tokens: [B, T].
            num: tokens in the window.

        Returns:
            [B, T-num+1, V^num] float32; entry [b, i] stands for the tokens i ... i+num-1 and belongs to position i+num-1.

        Raises:
            ConfigError: where ``num`` is not in 1 ... T, or there are more than 4096 combinations.
            ShapeError: as `beliefs`.
        """
        self._check_tokens(tokens)
        length, combinations = tokens.shape[1], self.vocab_size ** max(num, 1)
        if not 1 <= num <= length or combinations > MAX_CODES:
            raise ConfigError(
                f"a code of the last {num} of {length} tokens, {self.vocab_size}^{num} combinations",
                expected=f"1 to {length} tokens and at most {MAX_CODES} combinations",
                do="use num=2 or num=3",
            )
        place = self.vocab_size ** torch.arange(num - 1, -1, -1, device=tokens.device)
        code = (tokens.long().unfold(1, num, 1) * place).sum(-1)
        return torch.nn.functional.one_hot(code, combinations).float()

    def sample(self, num: int, *, generator: torch.Generator, pool: str = "train") -> Batch:
        """Draw ``num`` independent sequences from the stationary chain.

        Args:
            num: sequences.
            generator: a CPU generator; the pool does not change what it draws.
            pool: ``train`` or ``heldout``.

        Returns:
            Batch with tokens [num, T], targets [num, T] (the token after each) and probabilities [num, T, V], the exact law of
            that token given all before it, in float32. The hidden states are not in it: no model can know more than `beliefs`.

        Raises:
            ConfigError: where ``num`` is below 1.
            UnknownNameError: where there is no such pool.
        """
        check_pool(self, pool)
        shape = (self.sequence_length + 1, check_sample_size(num))
        moves = torch.rand(shape, generator=generator, dtype=torch.float64)
        emissions = torch.rand(num, shape[0], generator=generator, dtype=torch.float64)
        hidden = draw_path(cumulative_law(self.stationary), cumulative_law(self.hidden_transition), moves)
        seen = draw_outcomes(cumulative_law(self.emission)[hidden.flatten()], emissions.flatten()).view_as(hidden)
        tokens = seen[:, :-1].contiguous()
        law = self.next_token_law(self._filter(tokens)[0])
        return Batch(inputs={"tokens": tokens}, targets=seen[:, 1:].contiguous(), probabilities=law.float())

    def batches(self, num: int, *, batch_size: int, seed: int, pool: str = "train") -> SampledBatches:
        """``num`` sequences in batches, the same at every loop; see :class:`SampledBatches`."""
        return SampledBatches(self, num, batch_size=batch_size, seed=seed, pool=pool)

    def enumerate(self, pool: str = "train", batch_size: int = 4096) -> Iterable[Batch]:
        """Every sequence of positive probability, weighted by it.

        Args:
            pool: ``train`` or ``heldout``, which have the same law.
            batch_size: at most so many sequences a batch.

        Returns:
            Re-iterable batches with tokens, exact probabilities [B, T, V] (float32) and weights [B] (float64) that sum to 1 over
            all batches; targets None.

        Raises:
            NotEnumerableError: where there are more than 2^20 sequences.
            ConfigError: where ``batch_size`` is below 1.
        """
        check_pool(self, pool)
        check_enumerable(self.name, self.vocab_size, self.sequence_length, batch_size)
        return LazyBatches(lambda: self._enumerate(batch_size))

    def _enumerate(self, batch_size: int) -> Iterator[Batch]:
        for tokens, law, weights in self._exact_laws(batch_size):
            yield Batch(inputs={"tokens": tokens}, probabilities=law.float(), weights=weights)

    def _exact_laws(self, batch_size: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        # Tokens [B, T], next-token laws [B, T, V] and probabilities [B], the last two in float64.
        for tokens in list_sequences(self.vocab_size, self.sequence_length, batch_size):
            beliefs, evidence = self._filter(tokens)
            weights = evidence.prod(1)
            possible = weights > 0
            if bool(possible.any()):
                yield tokens[possible], self.next_token_law(beliefs[possible]), weights[possible]

    def chance(self) -> Chance:
        """The stationary law of tokens as a constant answer: its largest entry, and its entropy in nats."""
        return Chance(accuracy=float(self.token_law.max()), cross_entropy=float(torch.special.entr(self.token_law).sum()))

    def optimum(self) -> Chance | None:
        """What no model beats: accuracy (1/T) Σ_t E max_y P(y | x_1 ... x_t), and the same mean of the entropy, in nats.

        Returns:
            Exact, by enumeration (once; up to seconds); None where there are more than 2^20 sequences: see `estimated_optimum`.
        """
        if self._optimum is None and is_enumerable(self.vocab_size, self.sequence_length):
            accuracy = cross_entropy = 0.0
            for _, law, weights in self._exact_laws(CHUNK):
                accuracy += float(weights @ law.amax(-1).mean(1))
                cross_entropy += float(weights @ torch.special.entr(law).sum(-1).mean(1))
            self._optimum = Chance(accuracy=accuracy, cross_entropy=cross_entropy)
        return self._optimum

    def estimated_optimum(self, num: int, seed: int) -> Estimate:
        """The best possible cross-entropy in nats, averaged over positions 1 ... T, from ``num`` sequences.

        Each sequence gives the entropy of the exact law after each of its tokens, not the loss on a drawn target, so that only
        the sampling of sequences is left in the error.

        Args:
            num: sequences, 2 or more.
            seed: of their own stream, which no batches share.

        Returns:
            Estimate with a 95 % bootstrap interval over sequences and with `chance` beside it.

        Raises:
            TooFewSamplesError: where there is one sequence. ConfigError: where there is none.
        """
        stream = derive_seed(seed, "estimated optimum")
        values = [
            torch.special.entr(self.next_token_law(self._filter(batch.inputs["tokens"])[0])).sum(-1).mean(1)
            for batch in self.batches(num, batch_size=CHUNK, seed=stream, pool="heldout")
        ]
        return estimate_mean(
            torch.cat(values),
            generator=torch.Generator().manual_seed(derive_seed(stream, "bootstrap")),
            unit="nats",
            chance=self.chance().cross_entropy,
        )
