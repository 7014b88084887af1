"""How a task crosses to another process: as JSON, never as a pickle.

A description names a class and the arguments that make an equal task, ``{"factory": "module:Class", "arguments": {...}}``. It
stands in manifests and job files, can be read by a person, and works for a class of your own in any module that can be
imported.

>>> from invariscope.tasks.markov import MarkovChain
>>> description = describe_task(MarkovChain([[0.9, 0.1], [0.5, 0.5]], 8))
>>> description["factory"], sorted(description["arguments"])
('invariscope.tasks.markov:MarkovChain', ['groups', 'name', 'sequence_length', 'transition'])
>>> build_task(description).optimum() == MarkovChain([[0.9, 0.1], [0.5, 0.5]], 8).optimum()
True
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Mapping
from typing import Any

from invariscope.errors import ConfigError
from invariscope.tasks.task import Task

__all__ = ["build_task", "describe_task", "factory_name"]


def factory_name(kind: type) -> str:
    """``module:Class``, the name under which another process finds ``kind``."""
    return f"{kind.__module__}:{kind.__qualname__}"


def describe_task(task: Task) -> dict[str, Any]:
    """``task`` as JSON, from which :func:`build_task` makes an equal one in any process.

    A task of your own takes part with two methods::

        def describe(self):
            return {"factory": factory_name(type(self)), "arguments": {"modulus": self.modulus}}

        @classmethod
        def from_json(cls, *, modulus):
            return cls(modulus)

    Returns:
        ``{"factory": "module:Class", "arguments": {...}}``.

    Raises:
        ConfigError: where there is no ``describe``, where it gives something else than this, or a class that no other process
            can import.
    """
    alternative = "or use engine='inline'"
    describe = getattr(task, "describe", None)
    if describe is None:
        raise ConfigError(
            f"a task of type {type(task).__name__}, which has no describe()",
            expected="a task that can be rebuilt in another process",
            do="implement describe() -> {'factory': 'module:Class', 'arguments': {...}} and a classmethod "
            f"from_json(**arguments), {alternative}",
        )
    description = describe()
    factory = _check_description(description)
    module, _, qualified = factory.partition(":")
    if module == "__main__" or "<locals>" in qualified:
        raise ConfigError(
            f"a task whose factory is {factory!r}",
            expected="a class at the top of a module that another process can import",
            do=f"move the class into a module of its own, {alternative}",
        )
    try:
        return json.loads(json.dumps(description, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"a description of {factory!r} that is no JSON: {error}",
            expected="finite numbers, strings, lists, dictionaries and None",
            do="turn tensors into lists in describe()",
        ) from error


def build_task(description: Mapping[str, Any]) -> Task:
    """The task that ``description`` describes: imports the module and calls ``Class.from_json(**arguments)``.

    It imports the module that the description names, so build only descriptions that you trust.

    Raises:
        ConfigError: where the description has another form, the class is not found, or what it makes is no task.
    """
    factory = _check_description(description)
    module_name, _, qualified = factory.partition(":")
    try:
        kind: Any = importlib.import_module(module_name)
        for part in qualified.split("."):
            kind = getattr(kind, part)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"a task's factory {factory!r}, which cannot be imported: {error}",
            expected="module:Class, importable in this process",
            do="install the package that holds it, or put its folder on PYTHONPATH",
        ) from error
    arguments = description["arguments"]
    try:
        # Checked apart from the call, so that a TypeError inside from_json keeps its own traceback.
        inspect.signature(kind.from_json).bind(**arguments)
    except (AttributeError, TypeError) as error:
        raise ConfigError(
            f"the arguments {sorted(arguments)} for {factory!r}: {error}",
            expected="a classmethod from_json that takes them by name",
            do="let from_json take what describe() gives under 'arguments'",
        ) from error
    task = kind.from_json(**arguments)
    missing = [member for member in vars(Task) if not member.startswith("_") and not hasattr(task, member)]
    if missing:
        raise ConfigError(
            f"{factory!r}, which makes a {type(task).__name__} without {', '.join(missing)}",
            expected="a Task",
            do="add what is missing; see invariscope.tasks.Task",
        )
    return task


def _check_description(description: object) -> str:
    given = description if isinstance(description, Mapping) else {}
    factory, arguments = given.get("factory"), given.get("arguments")
    whole = isinstance(factory, str) and all(factory.partition(":")) and isinstance(arguments, Mapping)
    if not whole or set(given) != {"factory", "arguments"}:
        raise ConfigError(
            f"a task's description {str(description)[:80]!r}",
            expected="{'factory': 'module:Class', 'arguments': {...}}",
            do="return exactly these two keys from describe()",
        )
    assert isinstance(factory, str)
    return factory
