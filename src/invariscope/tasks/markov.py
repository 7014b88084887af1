"""Markov chains: the smallest task whose best solution, and whose spectrum, are known exactly.

A sequence starts from the stationary law π (π T = π) and moves by T[x, y] = P(next = y | now = x). A model that has learnt it
predicts the row T[x] of the last token x. No model does better than the entropy rate Σ_x π_x H(T[x]), and without knowledge
of x the best is the entropy of π. The conditional mean of a code z_x = M (e_x - π) moves by A with A M = M Tᵀ, so the operator
found in a core has the eigenvalues of T without the 1 (arXiv:2602.22600). That is what a measured spectrum is held against,
beside the spectrum of plain transition counts, whose error no estimator from the same sample escapes.

A network codes log T, not T: `law_log_rank` says how many directions an exact code of the log-probabilities needs.

>>> chain = MarkovChain([[0.9, 0.1], [0.5, 0.5]], sequence_length=4)
>>> [round(p, 4) for p in chain.stationary.tolist()], [round(value.real, 4) for value in chain.eigenvalues.tolist()]
([0.8333, 0.1667], [0.4])
>>> batch = chain.sample(3, generator=torch.Generator().manual_seed(0))
>>> batch.inputs["tokens"].shape, batch.probabilities.shape
(torch.Size([3, 4]), torch.Size([3, 4, 2]))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor

from invariscope.batch import Batch, check_batches
from invariscope.errors import ConfigError, ObjectiveError, ShapeError, TooFewSamplesError
from invariscope.positions import Positions
from invariscope.tasks.chain_algebra import (
    check_transition,
    double_centred_log_rank,
    is_cyclic,
    nontrivial_spectrum,
    stationary_law,
)
from invariscope.tasks.describe import factory_name
from invariscope.tasks.sequences import (
    check_enumerable,
    check_length,
    check_sample_size,
    cumulative_law,
    draw_path,
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
    time_shift,
)
from invariscope.tasks.wanted_spectrum import Spectrum, find_transition

__all__ = ["MarkovChain"]

Matrix: TypeAlias = "Float[Tensor, 'V V'] | np.ndarray | Sequence[Sequence[float]]"


class MarkovChain:
    """A stationary Markov chain over V states; token = state.

    Args:
        transition: T[x, y] = P(next = y | now = x), [V, V]; rows sum to 1 within 1e-6 and are normalised in float64.
        sequence_length: T, the tokens a model sees; one more state is drawn, the last target.
        name: what results call it.
        groups: a label of each state, [V], for measures within a group; None where there is none.

    Attributes:
        transition: the matrix, [V, V] float64.
        num_states: V; also `vocab_size` and `num_outputs`.
        stationary: π, [V] float64.
        entropy_rate: Σ_x π_x H(T[x]), in nats.
        eigenvalues: those of T without the one equal to 1, those of size zero included, [V-1] complex128, by real part and then
            imaginary part, largest first.
        groups: [V] or None.
        law_log_rank: numerical rank of log T after removing the mean of each row (a softmax does not see it) and of each column
            (the bias carries it): the directions that an exact code of log-probabilities needs; None where T has zeros.
        symmetry: the cyclic shift of states where T is invariant under it, else None.
        candidate_maps: the time shift, with `eigenvalues` as its spectrum.

    Raises:
        TransitionMatrixError: where ``transition`` is no transition matrix, or the chain is reducible or periodic.
        ShapeError: where ``groups`` does not hold one label a state.
        ConfigError: where ``sequence_length`` is below 1.

    Notes:
        Both pools, ``train`` and ``heldout``, have the same law and separate random streams; short sequences occur in both.
    """

    loss_positions: Positions = "all"
    pools: tuple[str, ...] = ("train", "heldout")

    def __init__(
        self,
        transition: Matrix,
        sequence_length: int = 16,
        *,
        name: str = "markov",
        groups: Int[Tensor, "V"] | Sequence[int] | None = None,
    ) -> None:
        self.transition: Float[Tensor, "V V"] = check_transition(transition)
        self.num_states = self.vocab_size = self.num_outputs = len(self.transition)
        self.sequence_length = check_length(sequence_length)
        self.name = name
        self.groups: Int[Tensor, "V"] | None = None if groups is None else torch.as_tensor(groups).long().clone()
        if self.groups is not None and self.groups.shape != (self.num_states,):
            raise ShapeError(
                f"groups of shape {list(self.groups.shape)} with a transition of shape {list(self.transition.shape)}",
                expected=f"[{self.num_states}]",
                do="give one label a state",
            )
        self.stationary: Float[Tensor, "V"] = stationary_law(self.transition)
        self.entropy_rate: float = float(self.stationary @ torch.special.entr(self.transition).sum(1))
        self.eigenvalues: Complex[Tensor, "V-1"] = nontrivial_spectrum(self.transition)
        self.law_log_rank: int | None = double_centred_log_rank(self.transition)
        self.symmetry: Symmetry | None = cyclic_symmetry(self.num_states, sequence_length) if is_cyclic(self.transition) else None
        self.candidate_maps: tuple[CandidateMap, ...] = (time_shift(self.eigenvalues),)
        self._law = self.transition.float()
        self._cumulative = cumulative_law(self.transition)
        self._cumulative_start = cumulative_law(self.stationary)

    @classmethod
    def named(cls, name: str, sequence_length: int = 16) -> MarkovChain:
        """A chain that ships with the library.

        ``four_paper`` is T = .75 I + .25 (cyclic shift) of arXiv:2602.22600; ``four_real`` and ``four_complex`` have a real
        spectrum and a complex pair; in ``four_rank_two`` two states share a row (the control: two directions suffice);
        ``clustered_12`` and ``spread_12`` have twelve states and a log transition of rank 3; ``overlapping_12`` has full rank.

        Raises:
            UnknownNameError: with the nearest three names.
        """
        chain = shipped_chain("observed", name)
        return cls(chain["transition"], sequence_length, name=name, groups=chain.get("groups"))

    @classmethod
    def dirichlet(
        cls, num_states: int, concentration: float = 1.0, *, generator: torch.Generator, sequence_length: int = 16
    ) -> MarkovChain:
        """A random chain whose rows are independent draws from a symmetric Dirichlet law.

        Args:
            num_states: V.
            concentration: of every entry; small ones give nearly deterministic rows, large ones nearly uniform rows.
            generator: where randomness comes from.
            sequence_length: tokens a model sees.

        Raises:
            ConfigError: where ``concentration`` is not a positive number, or there are fewer than 2 states.
            TransitionMatrixError: where the draw is reducible or periodic, as very small concentrations make it.
        """
        if num_states < 2 or not 0 < concentration < float("inf"):
            raise ConfigError(
                f"a Dirichlet chain of {num_states} states with concentration {concentration}",
                expected="2 states or more and a positive concentration",
                do="use 1.0 for rows that are uniform over all laws",
            )
        # PyTorch draws Dirichlet samples from its global generator only; NumPy takes a seed of its own.
        seed = int(torch.randint(2**62, (), generator=generator))
        rows = np.random.default_rng(seed).dirichlet(np.full(num_states, float(concentration)), size=num_states)
        return cls(rows, sequence_length, name=f"dirichlet-{num_states}")

    @classmethod
    def with_spectrum(
        cls,
        eigenvalues: Spectrum,
        *,
        generator: torch.Generator,
        num_states: int | None = None,
        sequence_length: int = 16,
    ) -> MarkovChain:
        """A random chain whose transition matrix has the eigenvalues 1 and ``eigenvalues``, within 1e-10.

        Args:
            eigenvalues: the wanted ones without the 1, in any order, real or in conjugate pairs, of modulus below 1; those below
                1e-8 count as zero, as in `eigenvalues`.
            generator: where randomness comes from.
            num_states: V; None: one more than there are eigenvalues. Those not given are zero.
            sequence_length: tokens a model sees.

        Raises:
            TransitionMatrixError: where no chain has such eigenvalues, or none was found, with the number of tries.

        Notes:
            How it is found, and what can be reached, stands in ``wanted_spectrum.py``.

        >>> chain = MarkovChain.with_spectrum([0.8, -0.3], generator=torch.Generator().manual_seed(0))
        >>> [round(value.real, 9) for value in chain.eigenvalues.tolist()]
        [0.8, -0.3]
        """
        transition = find_transition(eigenvalues, generator=generator, num_states=num_states)
        return cls(transition, sequence_length, name=f"spectrum-{len(transition)}")

    def __repr__(self) -> str:
        return f"MarkovChain({self.name!r}, num_states={self.num_states}, sequence_length={self.sequence_length})"

    def describe(self) -> dict[str, Any]:
        """The chain as JSON; see :func:`invariscope.tasks.build_task`."""
        return {
            "factory": factory_name(type(self)),
            "arguments": {
                "transition": self.transition.tolist(),
                "sequence_length": self.sequence_length,
                "name": self.name,
                "groups": None if self.groups is None else self.groups.tolist(),
            },
        }

    @classmethod
    def from_json(
        cls, *, transition: list[list[float]], sequence_length: int, name: str, groups: list[int] | None = None
    ) -> MarkovChain:
        """The chain that :meth:`describe` describes, equal to the last bit."""
        return cls(transition, sequence_length, name=name, groups=groups)

    def sample(self, num: int, *, generator: torch.Generator, pool: str = "train") -> Batch:
        """Draw ``num`` independent sequences from the stationary chain.

        Args:
            num: sequences.
            generator: a CPU generator; the pool does not change what it draws.
            pool: ``train`` or ``heldout``.

        Returns:
            Batch with tokens [num, T], targets [num, T] (the state after each token) and probabilities [num, T, V], the row of
            the transition matrix in float32.

        Raises:
            ConfigError: where ``num`` is below 1.
            UnknownNameError: where there is no such pool.
        """
        check_pool(self, pool)
        shape = (self.sequence_length + 1, check_sample_size(num))
        uniform = torch.rand(shape, generator=generator, dtype=torch.float64)
        states = draw_path(self._cumulative_start, self._cumulative, uniform)
        tokens = states[:, :-1].contiguous()
        return Batch(inputs={"tokens": tokens}, targets=states[:, 1:].contiguous(), probabilities=self._law[tokens])

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
        check_enumerable(self.name, self.num_states, self.sequence_length, batch_size)
        return LazyBatches(lambda: self._enumerate(batch_size))

    def _enumerate(self, batch_size: int) -> Iterator[Batch]:
        for tokens in list_sequences(self.num_states, self.sequence_length, batch_size):
            weights = self.stationary[tokens[:, 0]] * self.transition[tokens[:, :-1], tokens[:, 1:]].prod(1)
            possible = weights > 0
            if bool(possible.any()):
                kept = tokens[possible]
                yield Batch(inputs={"tokens": kept}, probabilities=self._law[kept], weights=weights[possible])

    def chance(self) -> Chance:
        """The stationary law as a constant answer: its largest entry, and its entropy in nats."""
        return Chance(accuracy=float(self.stationary.max()), cross_entropy=float(torch.special.entr(self.stationary).sum()))

    def optimum(self) -> Chance:
        """What no model beats: accuracy Σ_x π_x max_y T[x, y], and the entropy rate in nats."""
        return Chance(accuracy=float(self.stationary @ self.transition.amax(1)), cross_entropy=self.entropy_rate)

    def count_matrix(self, batches: Iterable[Batch]) -> Int[Tensor, "V V"]:
        """How often each state followed each in ``batches``: counts[x, y], over all tokens and targets.

        Raises:
            ObjectiveError: where a batch has no targets.
            ShapeError: where targets are not one a token, or are no states of this chain.
        """
        counts = torch.zeros(self.num_states**2, dtype=torch.long)
        for batch in check_batches(batches):
            if batch.targets is None:
                raise ObjectiveError(
                    "a batch without targets",
                    expected="batches that were sampled, with one target a token",
                    do="use batches(num, batch_size=..., seed=..., pool=...)",
                )
            tokens, targets = batch.inputs["tokens"].cpu(), batch.targets.cpu()
            if tokens.shape != targets.shape or max(int(tokens.max()), int(targets.max())) >= self.num_states:
                raise ShapeError(
                    f"tokens {list(tokens.shape)} up to {int(tokens.max())} and targets {list(targets.shape)} up to "
                    f"{int(targets.max())}",
                    expected=f"equal shapes and states below {self.num_states}",
                    do="count batches of this very chain",
                )
            pairs = (tokens * self.num_states + targets).flatten()
            counts += torch.bincount(pairs, minlength=self.num_states**2)
        return counts.reshape(self.num_states, self.num_states)

    def counted_eigenvalues(self, batches: Iterable[Batch]) -> Complex[Tensor, "V-1"]:
        """Eigenvalues of the row-normalised counts without the 1: the sampling error that any estimator has.

        Returns:
            [V-1] complex128, ordered as `eigenvalues`.

        Raises:
            TooFewSamplesError: where a state was never left, with its number.
        """
        counts = self.count_matrix(batches).double()
        unseen = (counts.sum(1) == 0).nonzero()[:, 0].tolist()
        if unseen:
            raise TooFewSamplesError(
                f"batches in which the states {unseen} never occur",
                expected="every state at least once",
                do="draw more sequences",
            )
        return nontrivial_spectrum(counts / counts.sum(1, keepdim=True))
