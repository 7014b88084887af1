"""A fixed set of sequences, read in epochs: each sequence once an epoch, in an order of that epoch's own.

The sequences are a function of the seed and the order of epoch e of (seed, e), so the batch of any step is found without those
before it, and a resumed training reads what an uninterrupted one would have read. The last batch of an epoch is as small as it
comes out, as with PyTorch's ``DataLoader``: 3000 sequences in batches of 64 are 46 batches of 64 and one of 56
(arXiv:2602.22600 trains its Markov models so).

>>> from invariscope.tasks import MarkovChain
>>> batches = EpochBatches(MarkovChain([[0.9, 0.1], [0.5, 0.5]], 4), 10, batch_size=4, seed=0)
>>> batches.steps_per_epoch, [batches[step].num_rows for step in range(4)]
(3, [4, 4, 2, 4])
"""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from invariscope.batch import Batch
from invariscope.tasks.task import Task, derive_seed

__all__ = ["EpochBatches"]


class EpochBatches:
    """The batches of every step of a training on ``num`` sequences, which are drawn once and held.

    Args:
        task: where the sequences come from: its first pool.
        num: sequences in the set.
        batch_size: sequences a step; the last step of an epoch takes what is left.
        seed: decides the sequences and their order in each epoch.
    """

    def __init__(self, task: Task, num: int, *, batch_size: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(derive_seed(seed, "data"))
        self.data = task.sample(num, generator=generator, pool=task.pools[0])
        self.batch_size, self.seed = batch_size, seed
        self._shuffled = (-1, torch.empty(0, dtype=torch.long))

    @property
    def steps_per_epoch(self) -> int:
        """ceil(sequences / batch size)."""
        return -(-self.data.num_rows // self.batch_size)

    def order(self, epoch: int) -> Int[Tensor, "num"]:
        """The indices of the sequences as ``epoch``, counted from 0, reads them."""
        if self._shuffled[0] != epoch:
            generator = torch.Generator().manual_seed(derive_seed(self.seed, "order", epoch))
            self._shuffled = (epoch, torch.randperm(self.data.num_rows, generator=generator))
        return self._shuffled[1]

    def __getitem__(self, step: int) -> Batch:
        epoch, index = divmod(step, self.steps_per_epoch)
        return self.data.take(self.order(epoch)[index * self.batch_size : (index + 1) * self.batch_size])
