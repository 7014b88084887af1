"""Which task a command means: a chain by name, a description in a file, or what a run's manifest says it was trained on.

A description is the JSON that :func:`invariscope.tasks.describe_task` gives. Building one imports the module that it names, so
build only those that you trust.

>>> read_task("four_real", context_length=8)
MarkovChain('four_real', num_states=4, sequence_length=8)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invariscope.errors import ConfigError, ForeignFileError
from invariscope.storage.atomic import read_json
from invariscope.storage.manifest import Manifest

if TYPE_CHECKING:
    from invariscope.tasks import Task

__all__ = ["describe_run_task", "read_task", "run_manifest"]

DEFAULT_LENGTH = 16


def read_task(given: str, *, context_length: int) -> Task:
    """The task called ``given``, or described in the file of that name.

    Args:
        given: the name of a chain that ships with the library, or a path that ends in ``.json``.
        context_length: of the models; a named chain gets sequences of at most that many tokens, and of at most 16.

    Raises:
        UnknownNameError: for an unknown chain, with the nearest names. ForeignFileError: for a file that is no JSON.
        ConfigError: for a description that makes no task.
    """
    from invariscope.tasks import MarkovChain, build_task

    if not given.endswith(".json"):
        return MarkovChain.named(given, min(DEFAULT_LENGTH, context_length))
    description: Any = read_json(Path(given))
    if not isinstance(description, Mapping):
        raise ForeignFileError(
            f"{given}, which describes no task",
            expected='{"factory": "module:Class", "arguments": {...}}',
            do="write what describe_task(task) gives",
        )
    return build_task(description)


def run_manifest(folder: Path) -> Manifest:
    """The manifest of one trained model's folder.

    Raises:
        ForeignFileError: where the folder holds no manifest of ours. ConfigError: where it holds something else than one run.
    """
    manifest = Manifest.load(folder)
    if manifest.kind != "run":
        raise ConfigError(
            f"{folder}, whose manifest is of kind {manifest.kind!r}",
            expected="the folder of one trained model, such as runs/four/seed-0000",
            do="give one of the folders in its runs/",
        )
    return manifest


def describe_run_task(folder: Path) -> dict[str, Any]:
    """The description of the task that the run in ``folder`` was trained on.

    Raises:
        ConfigError: where the task has no description; and as :func:`run_manifest` does.
    """
    description = run_manifest(folder).config.get("task")
    if not isinstance(description, dict) or set(description) != {"factory", "arguments"}:
        raise ConfigError(
            f"{folder}, whose manifest does not describe its task",
            expected="a task with describe(), so that it can be built again",
            do="name it with --task NAME or --task description.json",
        )
    return description
