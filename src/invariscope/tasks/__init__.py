"""Tasks: data distributions with an exact ground truth.

Every task keeps one protocol (:class:`Task`), so whatever trains, extracts or scores works on each of them and on yours.

>>> chain = MarkovChain.named("four_paper")
>>> [f"{value:.2f}" for value in chain.eigenvalues.tolist()]
['0.75+0.25j', '0.75-0.25j', '0.50+0.00j']
"""

from invariscope.tasks.describe import build_task, describe_task, factory_name
from invariscope.tasks.hidden_markov import HiddenMarkovChain
from invariscope.tasks.markov import MarkovChain
from invariscope.tasks.task import (
    CandidateMap,
    Chance,
    LazyBatches,
    SampledBatches,
    Symmetry,
    Task,
    check_pool,
    cyclic_symmetry,
    derive_seed,
    time_shift,
)

__all__ = [
    "CandidateMap",
    "Chance",
    "HiddenMarkovChain",
    "LazyBatches",
    "MarkovChain",
    "SampledBatches",
    "Symmetry",
    "Task",
    "build_task",
    "check_pool",
    "cyclic_symmetry",
    "derive_seed",
    "describe_task",
    "factory_name",
    "time_shift",
]
