"""``invariscope tokens MODEL "text"``: how a text is split, what is put before it, and which token is the last.

A core is read at a token and an answer is one or more tokens: this shows both before anything is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from invariscope.cli.parse import parse

__all__ = ["TokensOptions", "command"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensOptions:
    """One line a token: its position as positions count, its id, its text, and what is special about it.

    Args:
        model: a model's name, a hub id, a folder or a .gguf file.
        text: the text; several are shown one after the other.
        debug: show the traceback of whatever goes wrong.
    """

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
    text: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="TEXT ...")]
    debug: bool = False


def command(args: Sequence[str]) -> int:
    """Print the tokens of every text."""
    options = parse(TokensOptions, args, prog="invariscope tokens")
    # Only now: the help above needs none of it.
    from invariscope.models.pretrained import load_language_model

    lm = load_language_model(options.model)
    print(f"{lm.name}: BOS token: {lm.bos}")
    for text in options.text:
        ids = lm.encode(text)
        print(f"{text!r}: {len(ids)} tokens")
        for position, (token, piece) in enumerate(zip(ids, lm.pieces(ids), strict=True)):
            marks = [
                *(["BOS"] if position == 0 and token == lm.tokenizer.bos_token_id and lm.bos != "none" else []),
                *(["last"] if position == len(ids) - 1 else []),
            ]
            print(f"  {position:>4}  {token:>7}  {piece!r}{'  ' + ', '.join(marks) if marks else ''}")
    return 0
