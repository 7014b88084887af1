"""Subject-verb agreement: does a language model choose ``are`` after a plural subject and ``is`` after a singular one?

Two sets of prompts, built by code from invented sentences, equal for equal seeds. :func:`paper_agreement` is the one of
arXiv:2602.22600: a subject, a connector, and an attractor of the *opposite* number, ``The key near the cabinets``. There the
attractor's number says the answer as well as the subject's does, the other way round. :func:`balanced_agreement` closes that way
out: simple (``The old keys``), prepositional, and relative clauses in the past tense (``The author that the guards met``, whose
verb shows no number), subject number x attractor number crossed, and no noun, adjective, preposition or verb of the held-out
prompts in those to extract from.

Class 1 is plural, so the margin is are - is. A core from is and are alone should also turn verbs that were not in its
objective: ``transfers`` names them.

>>> behaviour = balanced_agreement(num_train=12, num_heldout=12, seed=0)
>>> behaviour.train.classes, len(behaviour.train.pairs)
(('singular', 'plural'), 12)
>>> pair = next(pair for pair in behaviour.heldout.pairs if pair.group.startswith("relative"))
>>> len(pair.prompt.split()), pair.answers + pair.foils in ((" are", " is"), (" is", " are"))
(6, True)
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch

from invariscope.tasks.behaviour import Behaviour, draw, quarters
from invariscope.tasks.pairs import Pair, PairSet

__all__ = ["CLASSES", "TRANSFERS", "balanced_agreement", "paper_agreement", "paper_behaviour"]

CLASSES = ("singular", "plural")
"""Class 0 and class 1."""

TRANSFERS = {"were/was": (" were", " was"), "have/has": (" have", " has"), "do/does": (" do", " does")}
"""Verbs outside the objective: plural and singular form."""

VERBS = {"singular": " is", "plural": " are"}
PAPER_PROMPTS = 1200


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """Content words of one half."""

    things: tuple[str, ...]
    people: tuple[str, ...]
    adjectives: tuple[str, ...]
    prepositions: tuple[str, ...]
    verbs: tuple[str, ...]


_TRAIN = _Words(
    things=(
        "key",
        "table",
        "book",
        "chair",
        "lamp",
        "clock",
        "ticket",
        "wheel",
        "bottle",
        "door",
        "rope",
        "button",
        "mirror",
        "car",
    ),
    people=("author", "guard", "doctor", "student", "farmer", "pilot", "driver", "artist", "singer", "nurse", "lawyer", "waiter"),
    adjectives=("old", "new", "small", "young", "famous", "quiet"),
    prepositions=("near", "behind", "beside"),
    verbs=("saw", "liked", "remembered", "noticed"),
)
_HELDOUT = _Words(
    things=("cabinet", "letter", "window", "boat", "bridge", "engine", "plate", "coin", "pillow", "picture"),
    people=("teacher", "worker", "soldier", "actor", "writer", "player", "manager", "dancer"),
    adjectives=("big", "tired", "strange", "great"),
    prepositions=("above", "under"),
    verbs=("met", "knew", "admired"),
)
_PAPER_HEADS = ("key", "label", "picture", "report", "letter", "book", "box", "door", "poster")
_PAPER_ATTRACTORS = ("cabinet", "table", "house", "car", "garden", "window", "school", "shop", "bridge")
_PAPER_CONNECTORS = ("near", "by", "on", "behind", "under", "beside")


def _form(noun: str, number: str) -> str:
    if number == "singular":
        return noun
    return f"{noun}es" if noun.endswith(("x", "s", "ch")) else f"{noun}s"


def _pair(prompt: str, *, noun: str, number: str, kind: str) -> Pair:
    other = CLASSES[1 - CLASSES.index(number)]
    return Pair(
        prompt=prompt,
        answers=VERBS[number],
        foils=VERBS[other],
        group=f"{kind}/{noun}",
        position="subject",
        subject=_form(noun, number),
        label=number,
    )


def _simple(words: _Words, num: int, generator: torch.Generator) -> list[Pair]:
    found = []
    for number in CLASSES:
        combinations = itertools.product(words.things + words.people, words.adjectives)
        for noun, adjective in draw(combinations, num // 2, generator):
            found.append(_pair(f"The {adjective} {_form(noun, number)}", noun=noun, number=number, kind="simple"))
    return found


def _crossed(words: _Words, num: int, generator: torch.Generator, kind: str) -> list[Pair]:
    nouns, links = (words.things, words.prepositions) if kind == "prepositional" else (words.people, words.verbs)
    found = []
    for number, of_attractor in itertools.product(CLASSES, CLASSES):
        combinations = [(*two, link) for two in itertools.permutations(nouns, 2) for link in links]
        for noun, attractor, link in draw(combinations, num // 4, generator):
            subject, other = _form(noun, number), _form(attractor, of_attractor)
            prompt = f"The {subject} {link} the {other}" if kind == "prepositional" else f"The {subject} that the {other} {link}"
            found.append(_pair(prompt, noun=noun, number=number, kind=kind))
    return found


def _balanced(words: _Words, num: int, generator: torch.Generator, what: str) -> PairSet:
    simple, prepositional, relative = quarters(num, 3, what)
    pairs = _simple(words, simple, generator)
    pairs += _crossed(words, prepositional, generator, "prepositional")
    pairs += _crossed(words, relative, generator, "relative")
    return PairSet(draw(pairs, len(pairs), generator), name="agreement", classes=CLASSES)


def balanced_agreement(num_train: int = 512, num_heldout: int = 192, seed: int = 0) -> Behaviour:
    """Agreement with subject and attractor number crossed; see the module's text.

    A group is a kind of prompt with a subject noun, ``relative/author``. A third of the prompts is of each kind.

    Args:
        num_train: prompts to extract from, a multiple of 4. num_heldout: to test on.
        seed: of the choice and order of the prompts.

    Raises:
        ConfigError: for other numbers.
    """
    generator = torch.Generator().manual_seed(seed)
    return Behaviour(
        name="agreement",
        summary="subject-verb agreement: are or is, attractors balanced",
        train=_balanced(_TRAIN, num_train, generator, "prompts to extract from"),
        heldout=_balanced(_HELDOUT, num_heldout, generator, "held-out prompts"),
        transfers=TRANSFERS,
    )


def paper_agreement(seed: int = 0) -> PairSet:
    """1200 prompts with an attractor of the opposite number, half of them plural (arXiv:2602.22600).

    9 heads x 9 attractors x 6 connectors are 486 prompts a number. 600 are asked for: each stands once, and 114 of them twice. A
    group is a head.

    Args:
        seed: of the prompts that stand twice, and of the order.
    """
    generator = torch.Generator().manual_seed(seed)
    pairs = []
    for number, opposite in (CLASSES, CLASSES[::-1]):
        combinations = itertools.product(_PAPER_HEADS, _PAPER_CONNECTORS, _PAPER_ATTRACTORS)
        for noun, connector, attractor in draw(combinations, PAPER_PROMPTS // 2, generator):
            prompt = f"The {_form(noun, number)} {connector} the {_form(attractor, opposite)}"
            pairs.append(_pair(prompt, noun=noun, number=number, kind="prepositional"))
    return PairSet(draw(pairs, len(pairs), generator), name="agreement-paper", classes=CLASSES)


def paper_behaviour(seed: int = 0) -> Behaviour:
    """:func:`paper_agreement` as two halves: four of its nine heads, drawn with the seed, are held out; attractors are shared."""
    pairs = paper_agreement(seed).pairs
    heads = set(draw(_PAPER_HEADS, 4, torch.Generator().manual_seed(seed)))
    train, heldout = (
        PairSet(
            [pair for pair in pairs if ((pair.group or "").split("/")[1] in heads) is held],
            name="agreement-paper",
            classes=CLASSES,
        )
        for held in (False, True)
    )
    return Behaviour(
        name="agreement-paper",
        summary="subject-verb agreement: are or is, attractors of the opposite number",
        train=train,
        heldout=heldout,
        transfers=TRANSFERS,
    )
