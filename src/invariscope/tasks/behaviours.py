"""Two behaviours that are not agreement, and all built-in ones by name.

**tense**: after ``Yesterday, the shop`` the verb is ``was``, after ``Right now, the shop`` it is ``is``. **pronoun**: ``The
king said that`` goes on with ``he``, ``The queen said that`` with ``she``. Both are complete: every adverbial (or verb) stands
with every noun once. The halves have no content word in common. Groups are nouns (pairs of nouns for the pronoun), so an
interval says how much the answer depends on them.

>>> [pair.prompt for pair in pronoun_pairs().train.pairs[:2]], builtin_pairs("tense").train.classes
(['The king said that', 'The queen said that'], ('present', 'past'))
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from invariscope.errors import unknown_name
from invariscope.tasks.agreement import balanced_agreement, paper_behaviour
from invariscope.tasks.behaviour import Behaviour
from invariscope.tasks.pairs import Pair, PairSet

__all__ = ["BUILTIN_BEHAVIOURS", "builtin_pairs", "pronoun_pairs", "tense_pairs"]

_TENSES = {
    "train": (
        {"past": ("Yesterday,", "Two years ago,", "In those days,"), "present": ("Right now,", "At present,", "Now,")},
        ("shop", "train", "road", "bank", "museum", "river", "hotel", "market", "garden", "church", "tower", "kitchen"),
    ),
    "heldout": (
        {"past": ("Earlier that evening,", "During the war,"), "present": ("As we speak,", "As of today,")},
        ("school", "station", "bridge", "office", "library", "airport", "village", "factory"),
    ),
}
_PRONOUNS = {
    "train": (
        ("The {} said that", "The {} left because", "The {} stopped when"),
        (("king", "queen"), ("man", "woman"), ("father", "mother"), ("uncle", "aunt"), ("prince", "princess"), ("monk", "nun")),
    ),
    "heldout": (
        ("The {} knew that", "The {} smiled because", "The {} was happy until"),
        (("boy", "girl"), ("husband", "wife"), ("son", "daughter"), ("brother", "sister"), ("gentleman", "lady")),
    ),
}


def tense_pairs() -> Behaviour:
    """`` was`` or `` is`` after an adverbial of time and a singular subject; class 1 is past."""
    forms = {"past": " was", "present": " is"}

    def build(adverbials: dict[str, Sequence[str]], nouns: Sequence[str]) -> PairSet:
        pairs = [
            Pair(
                prompt=f"{adverbial} the {noun}",
                answers=forms[tense],
                foils=forms["present" if tense == "past" else "past"],
                group=noun,
                position="subject",
                subject=adverbial.rstrip(","),
                label=tense,
            )
            for noun in nouns
            for adverbial, tense in _alternating(adverbials)
        ]
        return PairSet(pairs, name="tense", classes=("present", "past"))

    return Behaviour(
        name="tense",
        summary="tense after an adverbial of time: was or is",
        train=build(*_TENSES["train"]),
        heldout=build(*_TENSES["heldout"]),
        transfers={"had/has": (" had", " has"), "did/does": (" did", " does")},
    )


def _alternating(adverbials: dict[str, Sequence[str]]) -> list[tuple[str, str]]:
    named = [[(adverbial, tense) for adverbial in each] for tense, each in adverbials.items()]
    return [pair for row in zip(*named, strict=True) for pair in row]


def pronoun_pairs() -> Behaviour:
    """`` he`` or `` she`` for the person of the main clause; class 1 is he."""
    forms = (" he", " she")

    def build(templates: Sequence[str], people: Sequence[tuple[str, str]]) -> PairSet:
        pairs = [
            Pair(
                prompt=template.format(people_[side]),
                answers=forms[side],
                foils=forms[1 - side],
                group="/".join(people_),
                position="subject",
                subject=people_[side],
                label=("male", "female")[side],
            )
            for people_, template, side in itertools.product(people, templates, (0, 1))
        ]
        return PairSet(pairs, name="pronoun", classes=("female", "male"))

    return Behaviour(
        name="pronoun",
        summary="the pronoun for a king or a queen: he or she",
        train=build(*_PRONOUNS["train"]),
        heldout=build(*_PRONOUNS["heldout"]),
        transfers={"his/her": (" his", " her")},
    )


BUILTIN_BEHAVIOURS: dict[str, Callable[[], Behaviour]] = {
    "agreement": balanced_agreement,
    "agreement-paper": paper_behaviour,
    "tense": tense_pairs,
    "pronoun": pronoun_pairs,
}
"""What a name stands for where a table of pairs may be given."""


def builtin_pairs(name: str) -> Behaviour:
    """The built-in behaviour of that name.

    Raises:
        UnknownNameError: with the nearest names.
    """
    if name not in BUILTIN_BEHAVIOURS:
        raise unknown_name("behaviour", name, BUILTIN_BEHAVIOURS)
    return BUILTIN_BEHAVIOURS[name]()
