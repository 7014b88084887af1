"""Configurations and results on disk: frozen dataclasses to JSON and back, with names and kinds of values checked.

>>> @dataclasses.dataclass(frozen=True)
... class Size:
...     width: int = 64
...     layers: tuple[int, ...] = (1,)
>>> to_json_record(Size())
{'width': 64, 'layers': [1]}
>>> from_json_record(Size, {"layers": [1, 2]})
Size(width=64, layers=(1, 2))
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from invariscope.errors import ConfigError, unknown_name

__all__ = ["from_json_record", "to_json_record"]

Record = TypeVar("Record")


def to_json_record(record: Any) -> Any:
    """A record (nested dataclasses, tuples, dictionaries, plain values) as JSON values."""
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return {field.name: to_json_record(getattr(record, field.name)) for field in dataclasses.fields(record)}
    if isinstance(record, tuple | list):
        return [to_json_record(item) for item in record]
    if isinstance(record, Mapping):
        return {name: to_json_record(item) for name, item in record.items()}
    return record


def from_json_record(kind: type[Record], values: Any, *, base: Record | None = None) -> Record:
    """The record of class ``kind`` with ``values`` in place of its defaults, or of ``base``'s values.

    Args:
        kind: a dataclass whose fields are plain values, literals, tuples and dictionaries of them, or dataclasses.
        values: what :func:`to_json_record` wrote, or part of it (a TOML file).
        base: what stands where ``values`` says nothing; None: the class's defaults.

    Raises:
        UnknownNameError: for a name that is no field, with the nearest three.
        ConfigError: for a value of the wrong kind, or a missing one.
    """
    if not isinstance(values, Mapping):
        raise ConfigError(f"{values!r} for {kind.__name__}", expected="a table of fields", do="write one name = value a line")
    assert dataclasses.is_dataclass(kind), kind
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)
    known = [field.name for field in fields]
    given: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            raise unknown_name(f"field of {kind.__name__}", str(name), known)
        inner = _default(fields[known.index(name)]) if base is None else getattr(base, name)
        given[name] = _value(f"{kind.__name__}.{name}", value, hints[name], inner)
    if base is not None:
        return dataclasses.replace(typing.cast(Any, base), **given)
    missing = [field.name for field in fields if field.name not in given and _has_no_default(field)]
    if missing:
        raise ConfigError(
            f"{kind.__name__} without {', '.join(missing)}", expected="a value for every field without a default", do="add them"
        )
    return kind(**given)


def _default(field: dataclasses.Field[Any]) -> Any:
    """What a partly given inner record is completed from: the field's own default, which may differ from its class's."""
    value = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
    return value if dataclasses.is_dataclass(value) and not isinstance(value, type) else None


def _has_no_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


_WRONG = object()


def _value(name: str, value: Any, hint: Any, base: Any) -> Any:
    found = _convert(name, value, hint, base)
    if found is _WRONG:
        expected = hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint).replace("typing.", "")
        raise ConfigError(f"{name} = {value!r}", expected=expected, do="correct the value")
    return found


def _convert(name: str, value: Any, hint: Any, base: Any = None) -> Any:
    """``value`` as ``hint`` asks for it, or ``_WRONG``."""
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return from_json_record(hint, value, base=base)
    if origin is typing.Literal:
        return value if value in options else _WRONG
    if origin in (typing.Union, types.UnionType):
        return _convert_union(name, value, options)
    if origin is tuple:
        return _convert_tuple(name, value, options)
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            return _WRONG
        items = {key: _convert(name, item, options[1]) for key, item in value.items()}
        return _WRONG if any(item is _WRONG for item in items.values()) else items
    if hint is type(None):
        return None if value is None else _WRONG
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return _as_float(value)
    if isinstance(value, bool) and hint is not bool:
        return _WRONG
    return value if isinstance(value, hint) else _WRONG


def _convert_union(name: str, value: Any, options: tuple[Any, ...]) -> Any:
    for option in options:
        if dataclasses.is_dataclass(option) and not isinstance(value, Mapping):
            continue
        found = _convert(name, value, option)
        # 1 is an int before it is a float.
        if found is not _WRONG and (type(found) is type(value) or not isinstance(value, int)):
            return found
    return next((found for option in options if (found := _convert_plain(value, option)) is not _WRONG), _WRONG)


def _convert_plain(value: Any, option: Any) -> Any:
    return _as_float(value) if option is float and isinstance(value, int) and not isinstance(value, bool) else _WRONG


def _as_float(value: int) -> Any:
    try:
        return float(value)
    except OverflowError:  # an integer of more than 308 digits
        return _WRONG


def _convert_tuple(name: str, value: Any, options: tuple[Any, ...]) -> Any:
    if not isinstance(value, tuple | list):
        return _WRONG
    repeated = len(options) == 2 and options[1] is Ellipsis
    if not repeated and len(value) != len(options):
        return _WRONG
    hints = [options[0]] * len(value) if repeated else options
    items = tuple(_convert(name, item, hint) for item, hint in zip(value, hints, strict=True))
    return _WRONG if any(item is _WRONG for item in items) else items
