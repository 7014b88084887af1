"""Tasks: data distributions with an exact ground truth.

Every task keeps one protocol (:class:`Task`), so whatever trains, extracts or scores works on each of them and on yours.

>>> chain = MarkovChain.named("four_paper")
>>> [f"{value:.2f}" for value in chain.eigenvalues.tolist()]
['0.75+0.25j', '0.75-0.25j', '0.50+0.00j']
"""

from invariscope.tasks.agreement import balanced_agreement, paper_agreement
from invariscope.tasks.assign_add import AssignAdd, Places
from invariscope.tasks.behaviour import Behaviour
from invariscope.tasks.behaviours import BUILTIN_BEHAVIOURS, builtin_pairs, pronoun_pairs, tense_pairs
from invariscope.tasks.blocks import (
    AssociativeRecall,
    ConditionalRetrieval,
    IndirectObject,
    KHop,
    Ngram,
    PermutationInversion,
)
from invariscope.tasks.describe import build_task, describe_task, factory_name
from invariscope.tasks.encoded_pairs import (
    EncodedPair,
    EncodedPairs,
    ExpandedBatch,
    alternative_scores,
    check_no_common_group,
)
from invariscope.tasks.hidden_markov import HiddenMarkovChain
from invariscope.tasks.markov import MarkovChain
from invariscope.tasks.pairs import Pair, PairSet
from invariscope.tasks.pairs_file import parse_pairs, read_pairs
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
    "BUILTIN_BEHAVIOURS",
    "AssignAdd",
    "AssociativeRecall",
    "Behaviour",
    "CandidateMap",
    "Chance",
    "ConditionalRetrieval",
    "EncodedPair",
    "EncodedPairs",
    "ExpandedBatch",
    "HiddenMarkovChain",
    "IndirectObject",
    "KHop",
    "LazyBatches",
    "MarkovChain",
    "Ngram",
    "Pair",
    "PairSet",
    "PermutationInversion",
    "Places",
    "SampledBatches",
    "Symmetry",
    "Task",
    "alternative_scores",
    "balanced_agreement",
    "build_task",
    "builtin_pairs",
    "check_no_common_group",
    "check_pool",
    "cyclic_symmetry",
    "derive_seed",
    "describe_task",
    "factory_name",
    "paper_agreement",
    "parse_pairs",
    "pronoun_pairs",
    "read_pairs",
    "tense_pairs",
    "time_shift",
]
