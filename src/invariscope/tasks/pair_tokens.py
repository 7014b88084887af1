"""How one pair becomes token ids: the border between prompt and answer, what the answers share, the token that is meant.

>>> from invariscope.tasks.pairs import Pair, PairSet
>>> pairs = PairSet([Pair(prompt="He", answers="sat", foils="sang")])
>>> [row] = encode_pairs(pairs, lambda text: list(text.encode())).rows
>>> bytes(row.prompt), [bytes(side) for side in row.choices], [bytes(side[0]) for side in row.continuations]
(b'He sa', [b'n', b't'], [b'ng', b't'])
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator, Sequence

from invariscope.tasks.encoded_pairs import EncodedPair, EncodedPairs
from invariscope.tasks.pairs import Pair, PairSet

__all__ = ["encode_pairs"]

Encode = Callable[[str], Sequence[int]]
Pieces = Callable[[Sequence[int]], Sequence[str]]


def encode_pairs(
    pairs: PairSet, encode: Encode, *, pieces: Pieces | None = None, context_length: int | None = None
) -> EncodedPairs:
    """``pairs`` as token ids; see :meth:`invariscope.tasks.PairSet.encode`.

    Raises:
        PairsError: for a prompt that is no prefix of prompt and answer, for answer and foil that share every token, for a subject
            that is not in its prompt, an index that the prompt does not have, and a prompt longer than the context.
    """
    reader = _Reader(encode, pieces)
    group_numbers: dict[tuple[str, str], int] = {}
    rows, num_moved, num_appended = [], 0, 0
    for pair, sides, second in _sides(pairs):
        prompt = pair.prompt.rstrip(" ")
        space = pair.prompt[len(prompt) :]
        num_moved += bool(space)
        ids, tails, subject = reader.read(pair, prompt, space, sides)
        shared = _shared(tails)
        num_appended += bool(shared)
        rests = tuple(tuple(tail[len(shared) :] for tail in side) for side in tails)
        _check_difference(pair, tails, rests, reader)
        transfer = reader.read_transfer(pair, prompt, space, second, shared) if all(second) else None
        longest = max(len(tail) for side in tails for tail in side)
        if context_length is not None and len(ids) + longest > context_length:
            raise pair.refuse(
                f"a prompt of {len(ids)} tokens with {longest} of an answer",
                f"at most {context_length}, what the model reads",
                "shorten the prompt, or leave it out",
            )
        whole = (*ids, *shared)
        key = ("prompt", pair.prompt) if pair.group is None else ("group", pair.group)
        rows.append(
            EncodedPair(
                prompt=whole,
                choices=tuple(tuple(dict.fromkeys(rest[0] for rest in side)) for side in rests),
                continuations=rests,
                label=pairs.label_of(pair),
                group=group_numbers.setdefault(key, len(group_numbers)),
                group_name=pair.group,
                marked=_marked(pair, len(ids), len(whole), subject),
                transfer=transfer,
                line=pair.line,
            )
        )
    notes = list(pairs.notes)
    for num, what in (
        (num_moved, "the space at the end of the prompt is read as the beginning of the answers"),
        (num_appended, "what answers and foils begin with is appended to the prompt"),
    ):
        if num:
            notes.append(f"{what} in {num} of {len(rows)} pairs")
    found = EncodedPairs(rows=tuple(rows), name=pairs.name, classes=tuple(pairs.classes or ()), notes=tuple(notes))
    if found.multi_token:
        found = dataclasses.replace(found, notes=(*found.notes, _SEVERAL))
    return found


_SEVERAL = (
    "answers of several tokens: a core is taken at the first that differs, whole answers score their summed log-probability"
)


def _sides(pairs: PairSet) -> Iterator[tuple[Pair, Sequence[Sequence[str]], Sequence[Sequence[str]]]]:
    """Each pair with the texts of every class, and with those of the second choice."""
    if pairs.num_classes > 2:
        # The same for all pairs, and found by reading all of them.
        sides, second = pairs.class_answers(), pairs.class_answers(transfer=True)
        yield from ((pair, sides, second) for pair in pairs.pairs)
    else:
        yield from ((pair, pairs.sides_of(pair), pairs.sides_of(pair, transfer=True)) for pair in pairs.pairs)


class _Reader:
    """Token ids of texts, each asked for once."""

    def __init__(self, encode: Encode, pieces: Pieces | None) -> None:
        self.encode = functools.cache(lambda text: tuple(int(token) for token in encode(text)))
        self._pieces = pieces

    def show(self, ids: Sequence[int]) -> str:
        return " ".join(map(repr, self._pieces(list(ids)) if self._pieces is not None else ids)) or "nothing"

    def tail(self, pair: Pair, before: str, after: str) -> tuple[int, ...]:
        """The tokens that ``after`` adds to ``before``.

        Raises:
            PairsError: where the tokeniser merges across the border.
        """
        first, both = self.encode(before), self.encode(before + after)
        if not first or both[: len(first)] != first or len(both) == len(first):
            raise pair.refuse(
                f"{after!r}, which this tokeniser merges with the text before it: {self.show(first)} becomes {self.show(both)}",
                "the prompt's tokens, then those of what follows",
                "end the prompt at a word, and begin the answer with a space",
            )
        return both[len(first) :]

    def read(
        self, pair: Pair, prompt: str, space: str, sides: Sequence[Sequence[str]]
    ) -> tuple[tuple[int, ...], list[list[tuple[int, ...]]], int | None]:
        tails = [[self.tail(pair, prompt, space + text) for text in side] for side in sides]
        subject = None
        if pair.position == "subject":
            found = re.search(rf"(?<!\w){re.escape(pair.subject or '')}(?!\w)", prompt)
            if found is None:
                raise pair.refuse(
                    f"the subject {pair.subject!r}, which is not in the prompt",
                    "a word of the prompt, as it is written there",
                    "correct the column subject",
                )
            rest = prompt[found.end() :]
            subject = len(self.encode(prompt)) - 1 - (len(self.tail(pair, prompt[: found.end()], rest)) if rest else 0)
        return self.encode(prompt), tails, subject

    def read_transfer(
        self, pair: Pair, prompt: str, space: str, sides: Sequence[Sequence[str]], shared: tuple[int, ...]
    ) -> tuple[tuple[int, ...], ...]:
        tails = [[self.tail(pair, prompt, space + text) for text in side] for side in sides]
        fits = all(len(tail) > len(shared) and tail[: len(shared)] == shared for side in tails for tail in side)
        first = [{tail[len(shared)] for tail in side} for side in tails] if fits else []
        if not fits or _overlap(first):
            shown = "; ".join(self.show(tail) for side in tails for tail in side)
            raise pair.refuse(
                f"second answers and foils whose first tokens do not tell them apart: {shown}",
                "one that differs where those of answer and foil do",
                "choose others, or leave answer2 and foil2 empty",
            )
        return tuple(tuple(dict.fromkeys(tail[len(shared)] for tail in side)) for side in tails)


def _overlap(sides: Sequence[set[int]]) -> bool:
    return len(set().union(*sides)) < sum(map(len, sides))


def _shared(tails: Sequence[Sequence[tuple[int, ...]]]) -> tuple[int, ...]:
    every = [tail for side in tails for tail in side]
    num = 0
    while all(len(tail) > num for tail in every) and len({tail[num] for tail in every}) == 1:
        num += 1
    return every[0][:num]


def _check_difference(
    pair: Pair, tails: Sequence[Sequence[tuple[int, ...]]], rests: Sequence[Sequence[tuple[int, ...]]], reader: _Reader
) -> None:
    shown = "; ".join(reader.show(tail) for side in tails for tail in side)
    if any(not rest for side in rests for rest in side):
        raise pair.refuse(
            f"an answer and a foil that share every token of the shorter one: {shown}",
            "answers and foils of which none begins the other",
            "choose others, or end the shorter one with a full stop",
        )
    first = [{rest[0] for rest in side} for side in rests]
    if _overlap(first):
        raise pair.refuse(
            f"answers and foils that begin alike, but not all of them: {shown}",
            "a first token on one side only, or one that all share",
            "put these alternatives in rows of their own",
        )


def _marked(pair: Pair, num: int, num_whole: int, subject: int | None) -> int:
    if pair.position == "last":
        return num_whole - 1
    if subject is not None:
        return subject
    position = int(pair.position)
    if not -num <= position < num:
        raise pair.refuse(
            f"the position {position} in a prompt of {num} tokens", f"{-num} to {num - 1}", "choose a token of the prompt"
        )
    return position % num
