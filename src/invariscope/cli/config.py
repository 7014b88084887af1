"""Which configuration runs: a preset, then a TOML file over it, then ``--seed``, then the flags (:mod:`invariscope.cli.run`).

A file holds what differs from the preset, nested as the configuration is::

    width = 32
    [train]
    steps = 100
    [real]
    seeds = [0, 1]
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from invariscope.errors import ConfigError, InvariscopeError
from invariscope.experiments.registry import Experiment
from invariscope.storage.records import from_json_record

__all__ = ["read_toml", "resolve_config"]


def read_toml(path: Path) -> dict[str, Any]:
    """The tables in ``path``.

    Raises:
        ConfigError: where the file cannot be read, is no text, or is no TOML; the last with the line.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"--config {path}, which cannot be read ({error.strerror})", expected="a TOML file", do="correct the path"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"--config {path}, which is no UTF-8 text", expected="a TOML file", do="correct the path") from error
    except (ValueError, RecursionError) as error:
        # tomllib's message names the line and the column; numbers of thousands of digits and deep nesting are refused by Python.
        raise ConfigError(f"--config {path}: {error}", expected="TOML, such as steps = 100", do="correct that line") from error


def resolve_config(experiment: Experiment, *, preset: str, tables: dict[str, Any], file: Path | None, seed: int | None) -> Any:
    """The experiment's configuration before the flags.

    Args:
        experiment: its package.
        preset: one of its presets.
        tables: what :func:`read_toml` read from ``file``; {} where there is none.
        file: for the messages.
        seed: the first seed; None: those of preset and file.

    Raises:
        UnknownNameError: for a name in ``tables`` that is no field, with the nearest three.
        ConfigError: for a value that cannot be carried out.
    """
    config = experiment.PRESETS[preset]
    try:
        config = from_json_record(experiment.Config, tables, base=config)
    except InvariscopeError as error:
        raise type(error)(f"--config {file}: {error.given}", expected=error.expected, do=error.do) from error
    if seed is None:
        return config
    if seed < 0:
        raise ConfigError(f"--seed {seed}", expected="a seed of at least 0", do="choose another seed")
    return config.with_first_seed(seed)
