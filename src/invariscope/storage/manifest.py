"""manifest.json: what was run, with which configuration, where, when, and how it ended.

Times and paths stand only here. ``config_hash`` names a configuration whatever the order of its keys; a folder is resumed only
by the configuration that began it.

>>> config_hash({"steps": 400, "width": 64}) == config_hash({"width": 64, "steps": 400})
True
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from invariscope.errors import ForeignFileError
from invariscope.storage.atomic import JSON, dump_json, encode_text, read_json, write_json
from invariscope.storage.environment import environment_facts

__all__ = ["MANIFEST_NAME", "MANIFEST_SCHEMA_VERSION", "Manifest", "Status", "config_hash"]

MANIFEST_NAME = "manifest.json"
MANIFEST_SCHEMA_VERSION = 1

Status: TypeAlias = Literal["running", "finished", "failed"]


def config_hash(config: JSON) -> str:
    """SHA-256 of ``config`` as JSON with sorted keys, in hexadecimal; 1 and 1.0 are different configurations.

    Raises:
        NonFiniteError: for NaN and infinity.
    """
    text = dump_json(config, what="the configuration", sort_keys=True)
    return hashlib.sha256(encode_text(text)).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Manifest:
    """One run's manifest; :meth:`start` makes it and :meth:`ended` closes it.

    Args:
        kind: what the folder holds: ``experiment``, or ``run`` for one trained model.
        experiment, preset: their names; empty where there is none. summary: the experiment in one line.
        config: the whole resolved configuration, JSON.
        config_hash: :func:`config_hash` of it.
        seeds: the seeds in it.
        engine, forward: what every ``auto`` was resolved to.
        environment: :func:`environment_facts`.
        device: such as ``cpu``.
        command: the command line, or what was called.
        started, finished: UTC times, ISO 8601; of the last session, where a run was resumed.
        seconds: duration of that session.
        status: ``running`` until it has ended; a killed run stays ``running`` (whether it lives shows the folder's lock).
    """

    schema_version: int = MANIFEST_SCHEMA_VERSION
    kind: str
    experiment: str
    preset: str
    summary: str
    config: dict[str, Any]
    config_hash: str
    seeds: tuple[int, ...]
    engine: str
    forward: str
    environment: dict[str, Any] = field(repr=False)
    device: str
    command: str
    started: str
    finished: str | None = None
    seconds: float | None = None
    status: Status = "running"

    @classmethod
    def start(
        cls,
        *,
        config: Mapping[str, Any],
        kind: str = "experiment",
        experiment: str = "",
        preset: str = "",
        summary: str = "",
        seeds: Sequence[int] = (),
        engine: str = "",
        forward: str = "",
        device: str = "cpu",
        command: str = "",
    ) -> Manifest:
        """A manifest of a run that begins now, on this machine."""
        return cls(
            kind=kind,
            experiment=experiment,
            preset=preset,
            summary=summary,
            # As it will be read again: tuples become lists.
            config=json.loads(dump_json(dict(config), what="the configuration")),
            config_hash=config_hash(config),
            seeds=tuple(seeds),
            engine=engine,
            forward=forward,
            environment=environment_facts(),
            device=device,
            command=command,
            started=_now(),
        )

    def ended(self, status: Status, *, since: float) -> Manifest:
        """The same manifest of a run that has ended now; ``since`` is ``time.monotonic()`` at its start."""
        seconds = round(time.monotonic() - since, 3)
        return dataclasses.replace(self, status=status, finished=_now(), seconds=seconds)

    def save(self, folder: Path | str) -> None:
        """Write ``folder/manifest.json``, as a whole or not at all."""
        value = {name.name: getattr(self, name.name) for name in dataclasses.fields(self)}
        write_json(Path(folder) / MANIFEST_NAME, value | {"seeds": list(self.seeds)})

    @classmethod
    def load(cls, folder: Path | str) -> Manifest:
        """The manifest in ``folder``.

        Raises:
            ForeignFileError: where there is none, it is damaged or somebody else's, or its hash does not fit its configuration.
        """
        path = Path(folder) / MANIFEST_NAME
        value = read_json(path)
        problem = _problem(value)
        if problem:
            raise ForeignFileError(
                f"{path}, which is no manifest of ours ({problem})",
                expected=f"a manifest that invariscope wrote, of schema version {MANIFEST_SCHEMA_VERSION}",
                do="pass the folder of a run of this version, or choose another folder with --out",
            )
        return cls(**value | {"seeds": tuple(value["seeds"])})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


_TYPES: dict[str, type | tuple[type, ...]] = {
    "schema_version": int,
    **dict.fromkeys(("kind", "experiment", "preset", "summary", "config_hash"), str),
    **dict.fromkeys(("engine", "forward", "device", "command", "started"), str),
    "config": dict,
    "seeds": list,
    "environment": dict,
    "finished": (str, type(None)),
    "seconds": (float, int, type(None)),
    "status": str,
}


def _problem(value: JSON) -> str:
    """What is wrong with the content of a manifest; empty where nothing is."""
    if not isinstance(value, dict):
        return f"a {type(value).__name__}, not an object"
    if value.get("schema_version") != MANIFEST_SCHEMA_VERSION:
        return f"schema version {value.get('schema_version')}"
    if odd := sorted(set(_TYPES) ^ set(value)):
        return f"fields that are missing or unknown: {', '.join(odd)}"
    if wrong := [name for name, kinds in _TYPES.items() if not isinstance(value[name], kinds)]:
        return f"of the wrong type: {', '.join(wrong)}"
    if value["status"] not in get_args(Status):
        return f"status {value['status']!r}"
    if value["config_hash"] != config_hash(value["config"]):
        return "its config_hash does not fit its config"
    return ""
