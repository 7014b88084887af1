"""A behaviour of a language model, from pairs of prompts to a sweep over layers: what most users come for, in one call.

The pairs are encoded with the model's own tokeniser and split by group; cores come from one part and are tested on the other.
Beside them stand what a scalar margin cannot fake (:mod:`invariscope.cores.sweep_layers`): margins of two arbitrary tokens, text
that has nothing to do with the behaviour, and, where the pairs name other answers of the same classes, transfer to those.

    lm = load_language_model("smollm2-135m")
    sweep = sweep_layers(lm, read_pairs("pairs.csv"))
    print(sweep.table())
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from invariscope.batch import Batch, text_inputs
from invariscope.cores.choice_metrics import choices_from
from invariscope.cores.edit_bench import SweepSettings
from invariscope.cores.layer_sweep import LayerSweep
from invariscope.cores.sweep_layers import LayerCores, sweep_batches
from invariscope.cores.vocabulary import vocabulary_of
from invariscope.cores.whole_answers import WholeAnswers
from invariscope.sites import Objective, choices, margin
from invariscope.tasks import Behaviour, EncodedPairs, PairSet
from invariscope.tasks.encoded_pairs import check_no_common_group

if TYPE_CHECKING:
    from invariscope.models.pretrained import LanguageModel

__all__ = ["ARBITRARY", "LEAST_SPLIT", "UNRELATED", "BehaviourData", "behaviour_data", "sweep_behaviour", "sweep_layers"]

ARBITRARY: Mapping[str, tuple[str, str]] = {"the/of": (" the", " of"), "and/in": (" and", " in")}
"""Margins of two tokens that have nothing to do with any behaviour of ours, by name."""

LEAST_SPLIT = 8
"""Groups of prompts from which on some are held out."""

UNRELATED = (
    "It was raining when we left the",
    "She opened the window and looked at the",
    "The recipe asks for two cups of",
    "In the middle of the square stands a",
    "He put the kettle on and waited for the",
    "Water turns into ice when it gets",
    "On the first day of spring we walked to the",
    "The train to the coast leaves at",
    "After dinner they played a game of",
    "The map shows a narrow path through the",
    "My grandmother used to tell us stories about",
    "To open the box you need a small",
    "They painted the kitchen yellow and the hall",
    "Before the concert began, somebody dropped a",
    "A cup of tea costs two coins, and a slice of cake costs",
    "Behind the mountains the sky was turning",
)
"""Beginnings of sentences whose continuation should not change when a behaviour's core is edited."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BehaviourData:
    """What a sweep needs of one behaviour and one model.

    Args:
        extraction, heldout: prompts padded on the left; no group in both.
        unrelated: see :data:`UNRELATED`.
        settings: objective, transfers and arbitrary margins in this model's token ids.
        name: of the pairs. classes: their names, empty where they have none.
        notes: what was done to the pairs, said aloud.
        whole_answers: the held-out prompts with their answers written out; None where each answer is one token.
    """

    extraction: Sequence[Batch]
    heldout: Sequence[Batch]
    unrelated: Sequence[Batch]
    settings: SweepSettings
    name: str
    classes: tuple[str, ...]
    notes: tuple[str, ...]
    whole_answers: WholeAnswers | None


def behaviour_data(
    lm: LanguageModel,
    pairs: PairSet | Behaviour,
    heldout: PairSet | None = None,
    *,
    transfers: Mapping[str, tuple[str, str]] | None = None,
    heldout_share: float = 0.3,
    batch_size: int = 64,
    seed: int = 0,
    num_arbitrary: int = 2,
    **settings: Any,
) -> BehaviourData:
    """Encode a behaviour for a model.

    Args:
        lm: the model.
        pairs: to extract from, and ``heldout`` to test on; where there is none, ``pairs`` are split by group, or, below
            :data:`LEAST_SPLIT` groups, tested on the very prompts that the cores come from: ``notes`` say so. A
            :class:`invariscope.tasks.Behaviour` brings both, and transfers.
        transfers: by name, a text of class 1 and one of class 0, one token each, that the pairs do not use. Second answers and
            foils that every pair has are one more.
        heldout_share: of the prompts, where they are split.
        batch_size: prompts at a time.
        seed: of the split.
        num_arbitrary: how many of :data:`ARBITRARY` are swept along.
        settings: of :class:`SweepSettings`: layers, projections, ranks, ...

    Raises:
        PairsError: for pairs that this tokeniser cannot tell apart, or a group on both sides.
        TooFewSamplesError: for too few groups, or a part of one class only.
        ObjectiveError: for a transfer that is no single token.
    """
    if isinstance(pairs, Behaviour):
        transfers, heldout, pairs = {**pairs.transfers, **(transfers or {})}, pairs.heldout, pairs.train
    first, second, note = _encoded(lm, pairs, heldout, heldout_share, seed)
    margins: dict[str, Objective] = {name: _margin(lm, *texts) for name, texts in (transfers or {}).items()}
    if second.transfer is not None:
        margins["second answers"] = choices_from(second.transfer, name="choices[second answers]")
    heldout_batches = second.batches(batch_size)
    answers = vocabulary_of([choices(), *margins.values()], heldout_batches)
    return BehaviourData(
        extraction=first.batches(batch_size),
        heldout=heldout_batches,
        unrelated=[Batch(inputs=text_inputs([lm.encode(text) for text in UNRELATED]))],
        settings=SweepSettings(
            objective=choices(num_classes=first.num_classes),
            transfers=margins,
            arbitrary={name: _margin(lm, *texts) for name, texts in list(ARBITRARY.items())[:num_arbitrary]},
            answers=() if answers is None else answers.ids,
            **settings,
        ),
        name=pairs.name,
        classes=first.classes,
        notes=(*first.notes, *note),
        whole_answers=WholeAnswers.of(second, batch_size),
    )


def _encoded(
    lm: LanguageModel, pairs: PairSet, heldout: PairSet | None, heldout_share: float, seed: int
) -> tuple[EncodedPairs, EncodedPairs, tuple[str, ...]]:
    """The two parts, and what has to be said about them."""

    def encode(some: PairSet) -> EncodedPairs:
        return some.encode(lm.encode, pieces=lm.pieces, context_length=lm.context_length)

    first = encode(pairs)
    if heldout is not None:
        second = encode(heldout)
        check_no_common_group(first, second)
        return first, second, ()
    num_groups = len({row.group for row in first.rows})
    if num_groups < LEAST_SPLIT:
        note = f"{num_groups} groups are too few to hold any out: effects are measured on the prompts that the cores come from"
        return first, first, (note,)
    return *first.split(heldout_share, seed), ()


def sweep_behaviour(
    lm: LanguageModel, data: BehaviourData, *, generator: torch.Generator | None = None, progress: bool = True
) -> tuple[LayerSweep, LayerCores]:
    """The sweep over the layers of ``lm``, and its cores."""
    return sweep_batches(
        lm.model,
        data.extraction,
        data.heldout,
        data.settings,
        unrelated=data.unrelated,
        whole_answers=data.whole_answers,
        model_name=lm.name,
        behaviour=data.name,
        generator=generator,
        progress=progress,
    )


def sweep_layers(
    lm: LanguageModel,
    pairs: PairSet | Behaviour,
    heldout: PairSet | None = None,
    *,
    generator: torch.Generator | None = None,
    progress: bool = True,
    **options: Any,
) -> LayerSweep:
    """Keep, remove and flip the cores of a behaviour at every layer, beside every control (arXiv:2602.22600).

    Args:
        lm: from :func:`invariscope.models.load_language_model`.
        pairs, heldout: as in :func:`behaviour_data`; ``read_pairs`` reads them from a table.
        generator: of random subspaces and bootstraps; None: seed 0.
        progress: show bars.
        options: of :func:`behaviour_data` and of :class:`SweepSettings`, such as ``layers``, ``ranks`` and ``positions``.

    Returns:
        The sweep; ``.table()`` prints it, ``.chosen`` is the layer that the rule takes.
    """
    return sweep_behaviour(lm, behaviour_data(lm, pairs, heldout, **options), generator=generator, progress=progress)[0]


def _margin(lm: LanguageModel, positive: str, negative: str) -> margin:
    return margin(positive=[lm.single_token(positive)], negative=[lm.single_token(negative)])
