"""``invariscope verify MODEL``: layer by layer, what is read and edited at the sites of a model against plain Hugging Face.

The deviation table of :func:`invariscope.sites.verify_model`; exit status 0 where all is within the tolerance, 1 where not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from invariscope.cli.parse import parse

__all__ = ["PROMPTS", "VerifyOptions", "command"]

PROMPTS = (
    "The keys to the old cabinet",
    "When the rain stopped, the children near the river went home because",
    "1, 2, 3, 4,",
    "def add(a, b):\n    return",
)
"""What is compared unless prompts are given: of different length, words, numbers and code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """Compare a language model's sites, padded batches and edits with what plain Hugging Face computes.

    Args:
        model: a model's name, a hub id, a folder or a .gguf file.
        dtype: type of the weights.
        prompt: a prompt, repeated for several of different length; none: built-in ones.
        tolerance: largest relative deviation that passes; none: by the type of the weights (float32: 1e-5).
        debug: show the traceback of whatever goes wrong.
    """

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    prompt: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    tolerance: float | None = None
    debug: bool = False


def command(args: Sequence[str]) -> int:
    """Print the table; 1 where a deviation is above the tolerance, or something was left behind."""
    options = parse(VerifyOptions, args, prog="invariscope verify")
    # Only now: the help above needs none of it.
    from invariscope.models.pretrained import load_language_model
    from invariscope.sites import verify_model

    loaded = load_language_model(options.model, dtype=options.dtype)
    rows = [loaded.encode(prompt) for prompt in options.prompt or PROMPTS]
    found = verify_model(loaded.model, rows, tolerance=options.tolerance)
    print(found.table())
    return 0 if found.ok else 1
