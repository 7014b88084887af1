"""Pairs: a behaviour of a language model, written as prompts with an answer each and a foil that it must not prefer.

Verb number, say: after ``The old keys`` the answer is `` are`` and the foil `` is``; after ``The old key`` it is the other way
round. Where every pair chooses between the same two texts, or carries a label, the pairs have **classes**, and the margin means
one thing in all of them: class 1 against class 0 (arXiv:2602.22600 takes plural minus singular). Otherwise the margin is each
pair's answer minus its foil. :mod:`invariscope.tasks.pairs_file` reads them from a table, :meth:`PairSet.encode` turns them into
token ids for one tokeniser.

Spaces. An answer follows its prompt exactly as written, with one exception: where no answer or foil of a pair starts with a
space and the prompt does not end with one, a space is put before each of them, because ``keys`` and ``are`` are meant to be two
words; ``add_space=False`` switches that off. :attr:`PairSet.notes` says how often it happened.

>>> keys = Pair(prompt="The old keys", answers="are", foils="is")
>>> pairs = PairSet([keys, Pair(prompt="The old key", answers="is", foils="are")])
>>> pairs.classes, [pairs.label_of(pair) for pair in pairs.pairs], pairs.pairs[0].answers
((' is', ' are'), [1, 0], (' are',))
>>> pairs.notes
('a space is put before the answers and foils of 2 of 2 pairs',)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from invariscope.errors import PairsError

if TYPE_CHECKING:
    from invariscope.tasks.encoded_pairs import EncodedPairs

__all__ = ["Pair", "PairSet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One prompt, what should follow it, and what should not.

    Args:
        prompt: the text before the answer.
        answers, foils: alternative texts that may follow; a single text stands for itself. None stands on both sides.
        group: pairs of one group are never on both sides of a split; None: the pair is a group of its own, together with
            others of the same prompt.
        position: the token that the pair is about: ``last`` of the prompt, the last one of its ``subject``, or an index that
            counts the prompt's tokens from 0 (a BOS token is one), negative from the end.
        subject: a word or words of the prompt; the first occurrence is meant.
        transfer_answers, transfer_foils: a second choice of the same orientation, such as were and was.
        label: the class; None: found from the answers, see :class:`PairSet`.
        line: where it stands in a file, for messages.

    Raises:
        PairsError: for an empty text, an answer among the foils, half a transfer, or a position that is none.
    """

    prompt: str
    answers: tuple[str, ...] | str
    foils: tuple[str, ...] | str
    group: str | None = None
    position: str | int = "last"
    subject: str | None = None
    transfer_answers: tuple[str, ...] | str = ()
    transfer_foils: tuple[str, ...] | str = ()
    label: str | None = None
    line: int | None = None

    def __post_init__(self) -> None:
        for name in ("answers", "foils", "transfer_answers", "transfer_foils"):
            value = getattr(self, name)
            texts = (value,) if isinstance(value, str) else tuple(dict.fromkeys(value))
            object.__setattr__(self, name, texts)
        if not self.prompt.strip():
            raise self.refuse(
                "an empty prompt", "a text before the answer", "give the words before the answer, or remove the pair"
            )
        for answers, foils, what in (
            (self.answers, self.foils, ""),
            (self.transfer_answers, self.transfer_foils, "second "),
        ):
            self._check_sides(answers, foils, what)
        self._check_position()

    def _check_sides(self, answers: Sequence[str], foils: Sequence[str], what: str) -> None:
        if what and not answers and not foils:
            return
        for side, texts in (("answer", answers), ("foil", foils)):
            if not texts or any(not text.strip() for text in texts):
                raise self.refuse(
                    f"an empty {what}{side}", f"a text for every {what}answer and {what}foil", "fill it, or remove the pair"
                )
        both = {text.strip() for text in answers} & {text.strip() for text in foils}
        if both:
            raise self.refuse(
                f"the {what}answer {min(both)!r}, which is also the {what}foil",
                "a foil that differs from the answer",
                "change the foil, or remove the pair",
            )

    def _check_position(self) -> None:
        position = self.position
        if isinstance(position, bool) or not (isinstance(position, int) or position in ("last", "subject")):
            raise self.refuse(
                f"the position {position!r}", "last, subject or an index", "count the prompt's tokens from 0 or from -1"
            )
        if position == "subject" and not self.subject:
            raise self.refuse("the position subject without a subject", "the column subject", "name the word that is meant")

    def refuse(self, given: str, expected: str, do: str) -> PairsError:
        """The error about this pair: where it stands, what was given, expected, and what to do."""
        where = f"line {self.line}" if self.line is not None else f"the pair {_shortened(self.prompt)!r}"
        return PairsError(f"{where}: {given}", expected=expected, do=do)

    def spaced(self) -> Pair:
        """The same pair with a space before its answers and foils, where the rule of the module's text asks for one."""
        if self.prompt[-1].isspace():
            return self
        changed: dict[str, tuple[str, ...]] = {}
        for sides in (("answers", "foils"), ("transfer_answers", "transfer_foils")):
            texts = [text for side in sides for text in getattr(self, side)]
            if texts and not any(text[0].isspace() for text in texts):
                changed |= {side: tuple(f" {text}" for text in getattr(self, side)) for side in sides}
        return dataclasses.replace(self, **changed) if changed else self  # pyright: ignore[reportArgumentType]  # fields by name


def _shortened(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"...{text[-most:]}"


@dataclass(frozen=True, slots=True)
class PairSet:
    """Pairs of one behaviour, with their classes.

    With labels, the classes are the labels in the order of first appearance. Without, where all pairs choose between the same two
    texts, class 1 is the answer of the first pair and class 0 its foil. Otherwise there are no classes.

    Args:
        pairs: at least one.
        name: for reports.
        classes: the labels in an order of your own, the positive one last.
        add_space: put the space that is missing before an answer, see the module's text.

    Raises:
        PairsError: for no pairs, labels on some of them only, one class only, or answers that contradict the labels.
    """

    pairs: Sequence[Pair]
    name: str = "pairs"
    classes: Sequence[str] | None = None
    add_space: bool = True
    notes: tuple[str, ...] = dataclasses.field(default=(), init=False)

    def __post_init__(self) -> None:
        given = tuple(self.pairs)
        if not given:
            raise PairsError(
                f"{self.name} without a pair", expected="at least one prompt with answer and foil", do="add rows below the header"
            )
        pairs = tuple(pair.spaced() for pair in given) if self.add_space else given
        num = sum(new is not old for new, old in zip(pairs, given, strict=True))
        notes = (f"a space is put before the answers and foils of {num} of {len(pairs)} pairs",) if num else ()
        object.__setattr__(self, "pairs", pairs)
        object.__setattr__(self, "notes", notes)
        labelled = [pair for pair in pairs if pair.label is not None]
        if labelled:
            object.__setattr__(self, "classes", _label_classes(pairs, self.classes))
            _check_orientation(pairs)
        else:
            object.__setattr__(self, "classes", _answer_classes(pairs, self.name))
        if self.num_classes > 2:
            self.class_answers()

    @property
    def num_classes(self) -> int:
        """C: 2 where the pairs have no classes, since each still chooses between an answer and a foil."""
        return len(self.classes or ()) or 2

    def label_of(self, pair: Pair) -> int | None:
        """The number of a pair's class; None where the pairs have no classes."""
        if not self.classes:
            return None
        if pair.label is not None:
            return list(self.classes).index(pair.label)
        return int(_name_of(pair.answers) == self.classes[1])

    def sides_of(self, pair: Pair, *, transfer: bool = False) -> tuple[tuple[str, ...], ...]:
        """The alternative texts of every class, in class order: (negative, positive) with two of them."""
        if self.num_classes > 2:
            return self.class_answers(transfer=transfer)
        answers, foils = (pair.transfer_answers, pair.transfer_foils) if transfer else (pair.answers, pair.foils)
        ordered = (foils, answers) if self.label_of(pair) != 0 else (answers, foils)
        return tuple(tuple(texts) for texts in ordered)

    def class_answers(self, *, transfer: bool = False) -> tuple[tuple[str, ...], ...]:
        """With more than two classes: the answers that stand in the pairs of each.

        Raises:
            PairsError: where two classes share an answer, or a foil is no class's answer.
        """
        name = "transfer_answers" if transfer else "answers"
        found = {label: [] for label in self.classes or ()}
        for pair in self.pairs:
            found[pair.label or ""].extend(getattr(pair, name))
        home: dict[str, str | None] = {}
        for pair in self.pairs:
            for text in getattr(pair, name):
                home.setdefault(text, pair.label)
        for pair in self.pairs:
            for text in getattr(pair, name):
                if home[text] != pair.label:
                    raise pair.refuse(
                        f"the answer {text!r} of the class {pair.label!r}, which is also one of {home[text]!r}",
                        "answers of their own in each class",
                        "change the label, or the answer",
                    )
            for text in () if transfer else pair.foils:
                if home.get(text, pair.label) == pair.label:
                    raise pair.refuse(
                        f"the foil {text!r}, which is the answer of no other class",
                        "with more than two classes, the answer of another class",
                        "use the answer of a row with another label, or merge the labels into two",
                    )
        return tuple(tuple(dict.fromkeys(texts)) for texts in found.values())

    def with_answers(self, negative: str, positive: str) -> PairSet:
        """The same prompts with other answers, by class: what tests whether a core transfers to them.

        Raises:
            PairsError: where the pairs have not two classes.
        """
        if not self.classes or self.num_classes != 2:
            raise PairsError(
                f"other answers for {self.name}, which has {len(self.classes or ())} classes",
                expected="pairs with two classes",
                do="give the pairs labels, or write the other answers as answer2 and foil2",
            )
        forms = (negative, positive)
        pairs = []
        for pair in self.pairs:
            label = self.label_of(pair) or 0
            pairs.append(
                dataclasses.replace(
                    pair,
                    answers=forms[label],
                    foils=forms[1 - label],
                    label=self.classes[label],
                    transfer_answers=(),
                    transfer_foils=(),
                )
            )
        return PairSet(pairs, name=self.name, classes=self.classes, add_space=self.add_space)

    def encode(
        self,
        encode: Callable[[str], Sequence[int]],
        *,
        pieces: Callable[[Sequence[int]], Sequence[str]] | None = None,
        context_length: int | None = None,
    ) -> EncodedPairs:
        """The pairs as token ids of one tokeniser.

        Args:
            encode: from a text to the ids that the model reads, a BOS token among them where the model wants one.
            pieces: from ids to the texts of the tokens, for messages; None: messages show ids.
            context_length: most tokens that the model reads; None: not checked.

        Raises:
            PairsError: for a pair that this tokeniser cannot tell apart, with its line and its pieces.
        """
        from invariscope.tasks.pair_tokens import encode_pairs

        return encode_pairs(self, encode, pieces=pieces, context_length=context_length)


def _name_of(texts: Iterable[str]) -> str:
    return "|".join(texts)


def _label_classes(pairs: Sequence[Pair], given: Sequence[str] | None) -> tuple[str, ...]:
    for pair in pairs:
        if pair.label is None:
            raise pair.refuse(
                "no label, and other pairs have one", "a label on all pairs or on none", "fill the column, or remove it"
            )
    found = list(dict.fromkeys(pair.label or "" for pair in pairs))
    if len(found) < 2:
        raise PairsError(
            f"{len(pairs)} pairs, all with the label {found[0]!r}",
            expected="at least two classes",
            do="add pairs of another class, or remove the labels",
        )
    if given is not None and sorted(given) != sorted(found):
        raise PairsError(
            f"classes {', '.join(given)} of pairs whose labels are {', '.join(found)}",
            expected="the same names",
            do="name every label once",
        )
    return tuple(found if given is None else given)


def _answer_classes(pairs: Sequence[Pair], name: str) -> tuple[str, ...]:
    sides = {frozenset((frozenset(pair.answers), frozenset(pair.foils))) for pair in pairs}
    if len(sides) > 1:
        return ()
    first = pairs[0]
    if len(pairs) > 1 and all(set(pair.answers) == set(first.answers) for pair in pairs):
        raise PairsError(
            f"{len(pairs)} pairs of {name}, all with the answer {_name_of(first.answers)!r}",
            expected="two classes: pairs whose answer is the others' foil",
            do=f"add prompts whose answer is {_name_of(first.foils)!r}",
        )
    return (_name_of(first.foils), _name_of(first.answers))


def _check_orientation(pairs: Sequence[Pair]) -> None:
    seen: set[tuple[frozenset[str], frozenset[str], str | None]] = set()
    for pair in pairs:
        answers, foils = frozenset(pair.answers), frozenset(pair.foils)
        if (foils, answers, pair.label) in seen:
            raise pair.refuse(
                f"the answer {_name_of(pair.answers)!r} with the label {pair.label!r}, which is the foil of others of that label",
                "one side of a choice in one class",
                "exchange answer and foil, or change the label",
            )
        seen.add((answers, foils, pair.label))
