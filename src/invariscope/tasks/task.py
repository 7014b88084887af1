"""What a task is: a data distribution whose answers, optimum and symmetries are known exactly.

A :class:`Task` draws batches (``sample``, ``batches``), lists its whole law where that is small enough (``enumerate``), and
says what nobody can beat (``optimum``) and what takes no knowledge (``chance``). It also states what an algorithm that solves
it may have to do inside: its symmetries, and the linear maps between hidden states (:class:`CandidateMap`) that identification
tries one after the other, so that no form is presupposed (arXiv:2602.22600).

Two rules hold for every task. Randomness comes from a generator that is passed in, and the i-th batch of a stream is a function
of (seed, pool, i) alone, so that a killed run continues with the batches it would have had. A task crosses to another process
as JSON (``describe.py``), never as a pickle.

>>> derive_seed(0, "train", 7) == derive_seed(0, "train", 7), derive_seed(0, "train", 7) == derive_seed(0, "heldout", 7)
(True, False)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Complex, Int
from torch import Tensor

from invariscope.batch import Batch
from invariscope.errors import ConfigError, PositionError, unknown_name
from invariscope.positions import Positions, Rows

__all__ = [
    "CandidateMap",
    "Chance",
    "LazyBatches",
    "SampledBatches",
    "Symmetry",
    "Task",
    "check_pool",
    "cyclic_symmetry",
    "derive_seed",
    "time_shift",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """How well one can do on a task: the best constant answer (``task.chance()``) or the best of all (``task.optimum()``).

    Args:
        accuracy: share of right answers, in [0, 1].
        cross_entropy: expected -log probability of the right answer, in nats.
    """

    accuracy: float
    cross_entropy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Symmetry:
    """Permutations of tokens and of positions that leave the law of a task as it is.

    A generator (p, q) sends the sequence s to the sequence s' with s'[q[t]] = p[s[t]]: token a becomes p[a], and what stood at
    position t stands at q[t]. Where outputs are tokens, the same p acts on them.

    Args:
        generators: one (token permutation, position permutation) each, as integers.

    Raises:
        ConfigError: where one of them is no permutation, or there is none.

    >>> Symmetry(generators=(((1, 2, 0), (1, 0)),)).act(torch.tensor([[0, 2]])).tolist()
    [[0, 1]]
    """

    generators: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]

    def __post_init__(self) -> None:
        if not self.generators:
            raise ConfigError("a Symmetry without generators", expected="at least one", do="use symmetry = None instead")
        for number, pair in enumerate(self.generators):
            for kind, permutation in zip(("token", "position"), pair, strict=True):
                if sorted(permutation) != list(range(len(permutation))):
                    raise ConfigError(
                        f"Symmetry generator {number} with the {kind} map {list(permutation)}",
                        expected=f"a permutation of 0 ... {len(permutation) - 1}",
                        do="name every index once",
                    )

    def act(self, tokens: Int[Tensor, "B T"], index: int = 0) -> Int[Tensor, "B T"]:
        """The sequences that generator number ``index`` makes of ``tokens``."""
        token, position = (torch.tensor(part, device=tokens.device) for part in self.generators[index])
        moved = torch.empty_like(tokens)
        moved[:, position] = token[tokens]
        return moved


def cyclic_symmetry(vocab_size: int, length: int) -> Symmetry:
    """The symmetry that sends each token to the next one, the last to the first, and leaves positions alone.

    >>> cyclic_symmetry(3, 2).generators
    (((1, 2, 0), (0, 1)),)
    """
    return Symmetry(generators=((tuple((x + 1) % vocab_size for x in range(vocab_size)), tuple(range(length))),))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CandidateMap:
    """A linear map that a solution of the task may carry out on its hidden state: z_j ~ A z_i.

    Args:
        name: what it is called in results, such as ``time shift``.
        pairs: ``pairs(rows) -> (i, j)``, the row indices that belong together, each [m].
        spectrum: the eigenvalues that A should have, if the task knows them; those of size zero included.
        holdout: what a split into fitted and held-out pairs must not break: ``sequence``, or the name of something else.
    """

    name: str
    pairs: Callable[[Rows], tuple[Int[Tensor, "m"], Int[Tensor, "m"]]]
    spectrum: Complex[Tensor, "k"] | None = None
    holdout: str = "sequence"


def time_shift(spectrum: Complex[Tensor, "k"] | None) -> CandidateMap:
    """The candidate map from a token to the next one of its sequence: z_{t+1} ~ A z_t.

    Args:
        spectrum: the eigenvalues that A should have, or None.

    >>> rows = Rows(b=torch.tensor([0, 0, 1, 1]), t=torch.tensor([3, 4, 3, 5]), groups=torch.tensor([0, 0, 1, 1]))
    >>> [index.tolist() for index in time_shift(None).pairs(rows)]
    [[0], [1]]
    """
    return CandidateMap(name="time shift", pairs=_neighbours, spectrum=spectrum, holdout="sequence")


def _neighbours(rows: Rows) -> tuple[Int[Tensor, "m"], Int[Tensor, "m"]]:
    # Tokens of a sequence are `span` keys apart from the next sequence's, so that a key + 1 never crosses over.
    span = int(rows.t.max()) + 2 if rows.num else 1
    keys, order = (rows.b * span + rows.t).sort()
    follows = (keys[1:] == keys[:-1] + 1).nonzero()[:, 0]
    if not len(follows):
        raise PositionError(
            f"{rows.num} rows without two neighbouring tokens of one sequence",
            expected="rows at t and t + 1",
            do="read the site at positions='all' or at a slice of two tokens or more",
        )
    return order[follows], order[follows + 1]


@runtime_checkable
class Task(Protocol):
    """A data distribution with exact ground truth. Every member is read-only.

    Write your own class with these members and everything here works on it. With ``describe()`` and ``from_json`` beside them
    (see :func:`invariscope.tasks.describe_task`) its seeds also train in parallel processes.
    """

    @property
    def name(self) -> str:
        """What the task is called in results."""
        ...

    @property
    def vocab_size(self) -> int:
        """Number of tokens that a model reads."""
        ...

    @property
    def num_outputs(self) -> int:
        """V, the number of answers that a model chooses from."""
        ...

    @property
    def sequence_length(self) -> int:
        """T, the number of tokens that a model sees."""
        ...

    @property
    def loss_positions(self) -> Positions:
        """The tokens at which an answer is due."""
        ...

    @property
    def pools(self) -> tuple[str, ...]:
        """Names of the disjoint sources of data, the one to train on first."""
        ...

    @property
    def symmetry(self) -> Symmetry | None:
        """Permutations that keep the law, or None."""
        ...

    @property
    def candidate_maps(self) -> tuple[CandidateMap, ...]:
        """Linear maps that identification tries."""
        ...

    def sample(self, num: int, *, generator: torch.Generator, pool: str = "train") -> Batch:
        """``num`` rows drawn from ``pool`` with ``generator``."""
        ...

    def enumerate(self, pool: str, batch_size: int) -> Iterable[Batch]:
        """Every row of ``pool``, weighted by its probability; NotEnumerableError says what to use instead."""
        ...

    def batches(self, num: int, *, batch_size: int, seed: int, pool: str) -> Iterable[Batch]:
        """``num`` rows in batches, re-iterable and the same every time."""
        ...

    def chance(self) -> Chance:
        """Accuracy and cross-entropy (nats) of the best constant answer."""
        ...

    def optimum(self) -> Chance | None:
        """The best that any model can do, where that is known."""
        ...


def check_pool(task: Task, pool: str) -> str:
    """Return ``pool`` if ``task`` has it.

    Raises:
        UnknownNameError: with the nearest names.
    """
    if pool not in task.pools:
        raise unknown_name(f"pool of the task {task.name!r}:", pool, task.pools)
    return pool


def derive_seed(*parts: str | int) -> int:
    """A seed in [0, 2^63) that depends on every part, and on nothing else: SHA-256 of the parts as JSON.

    ``hash`` differs between two processes, and sums such as ``seed + step`` give two runs the same batches one step apart.

    Notes:
        PyTorch's CPU generator uses the low 32 bits of a seed: among n streams, n²/2^33 pairs are expected to coincide
        (one in 10^5 runs of 300 training and 140 held-out batches shares a batch between the two).

    >>> derive_seed(1, "train", 2) == derive_seed(12, "train"), derive_seed("1") == derive_seed(1)
    (False, False)
    """
    digest = hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


@dataclass(frozen=True, slots=True, eq=False)
class SampledBatches(Sequence[Batch]):
    """``num`` rows of a task in batches that are drawn anew, and equal, at each loop: O(batch) memory whatever ``num``.

    Batch i is drawn with a generator seeded by ``derive_seed(seed, pool, i)``, so ``batches[i]`` needs none of those before it,
    and no two pools share a stream. Only the last batch may be smaller.

    Args:
        task: where rows come from.
        num: rows in all.
        batch_size: rows a batch.
        seed: of the stream.
        pool: which pool of the task.
        at_once: batches drawn together, which is faster where each is small: batch i is then drawn with the
            ``at_once`` batches of ``derive_seed(seed, pool, i // at_once)``, and its rows depend on ``at_once``.

    Raises:
        ConfigError: where ``num``, ``batch_size`` or ``at_once`` is below 1.
        UnknownNameError: where the task has no such pool.
    """

    task: Task
    num: int
    _: KW_ONLY
    batch_size: int
    seed: int
    pool: str = "train"
    at_once: int = 1
    _held: dict[int, Batch] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for name, value in (("num", self.num), ("batch_size", self.batch_size), ("at_once", self.at_once)):
            if value < 1:
                raise ConfigError(f"batches with {name}={value}", expected="1 or more", do=f"raise {name}")
        check_pool(self.task, self.pool)

    def __len__(self) -> int:
        return (self.num + self.batch_size - 1) // self.batch_size

    def __getitem__(self, index: int) -> Batch:  # pyright: ignore[reportIncompatibleMethodOverride]  # no slices: one batch at a time
        if not -len(self) <= index < len(self):
            raise IndexError(f"batch {index} of {len(self)}")
        index %= len(self)
        size = min(self.batch_size, self.num - index * self.batch_size)
        if self.at_once == 1:
            return self._drawn(index, size)
        block, within = divmod(index, self.at_once)
        if block not in self._held:
            self._held.clear()
            self._held[block] = self._drawn(block, self.batch_size * self.at_once)
        first = within * self.batch_size
        return self._held[block].take(torch.arange(first, first + size))

    def _drawn(self, index: int, size: int) -> Batch:
        generator = torch.Generator().manual_seed(derive_seed(self.seed, self.pool, index))
        return self.task.sample(size, generator=generator, pool=self.pool)


@dataclass(frozen=True, slots=True, eq=False)
class LazyBatches:
    """Batches that a function generates anew at each loop, so that an enumeration is never held whole.

    Args:
        start: makes a fresh iterator.
    """

    start: Callable[[], Iterator[Batch]]

    def __iter__(self) -> Iterator[Batch]:
        return self.start()
