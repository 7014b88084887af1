"""A tokeniser of words for tests: a token is a word with the space before it, a BOS token stands in front."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["WordTokens"]


class WordTokens:
    """Ids in the order in which tokens are met, from 1; 0 is BOS. ``Ġ`` stands for a space, as in pieces of byte-level BPE."""

    def __init__(self) -> None:
        self.known = ["<bos>"]

    def encode(self, text: str) -> list[int]:
        ids = [0]
        for piece in re.findall(r" ?[A-Za-z]+| ?[^A-Za-z ]| +", text):
            if piece not in self.known:
                self.known.append(piece)
            ids.append(self.known.index(piece))
        return ids

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self.known[i].replace(" ", "Ġ") for i in ids]
