"""Block-list tasks: inductive reasoning over lists of blocks, with exact symmetries (arXiv:2607.11875)."""

from invariscope.tasks.blocks.chains import KHop
from invariscope.tasks.blocks.families import Family, Vocabulary
from invariscope.tasks.blocks.listing import Representatives
from invariscope.tasks.blocks.names import IndirectObject
from invariscope.tasks.blocks.placements import Placement
from invariscope.tasks.blocks.recall import AssociativeRecall, PermutationInversion
from invariscope.tasks.blocks.scenes import Scene, arrangements
from invariscope.tasks.blocks.task import BlockTask
from invariscope.tasks.blocks.triples import ConditionalRetrieval, Ngram

__all__ = [
    "AssociativeRecall",
    "BlockTask",
    "ConditionalRetrieval",
    "Family",
    "IndirectObject",
    "KHop",
    "Ngram",
    "PermutationInversion",
    "Placement",
    "Representatives",
    "Scene",
    "Vocabulary",
    "arrangements",
]
