"""Which pairs a command means: a table in a file, or a behaviour that ships with the library, by name.

>>> read_behaviour("tense").name
'tense'
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from invariscope.errors import ConfigError

if TYPE_CHECKING:
    from invariscope.tasks import Behaviour, PairSet

__all__ = ["read_behaviour"]


def read_behaviour(name: str) -> PairSet | Behaviour:
    """The pairs in the file ``name``, or the built-in behaviour of that name; a file goes first.

    Raises:
        ConfigError: for what is neither. ForeignFileError, PairsError: for a bad table, as :func:`invariscope.tasks.read_pairs`.
    """
    from invariscope.tasks.behaviours import BUILTIN_BEHAVIOURS, builtin_pairs
    from invariscope.tasks.pairs_file import read_pairs

    if name in BUILTIN_BEHAVIOURS and not Path(name).exists():
        return builtin_pairs(name)
    if not Path(name).exists() and Path(name).suffix != ".csv":
        raise ConfigError(
            f"{name!r}, which is neither a file nor a built-in behaviour",
            expected=f"a CSV file, or one of {', '.join(BUILTIN_BEHAVIOURS)}",
            do="correct the path",
        )
    return read_pairs(name)
