"""A run's folder: made once, held by one process, resumed only by the configuration that began it.

    OUT/manifest.json  OUT/runs/  OUT/cores/  OUT/claims.json  OUT/figures/  OUT/report.html

Whenever the process is killed, it leaves a folder that the same command opens again: nothing yet, an empty folder, one with the
lock's file or a half-written temporary one, or one with a manifest whose status is still ``running``.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "out"
>>> with RunFolder.open(path, config={"steps": 400}, experiment="demo", preset="quick") as folder:
...     folder.manifest.status
'running'
>>> RunFolder.read(path).manifest.status
'finished'
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from invariscope.errors import FolderError, ForeignFileError
from invariscope.storage.atomic import is_temporary
from invariscope.storage.locks import LOCK_NAME, folder_lock
from invariscope.storage.manifest import MANIFEST_NAME, Manifest

__all__ = ["RunFolder"]

_NUM_KEYS_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunFolder:
    """The paths inside a run's folder, and its manifest as it was when the folder was opened.

    Nothing is made in advance: the functions of :mod:`invariscope.storage.atomic` make the folders that they write to.
    """

    path: Path
    manifest: Manifest

    @property
    def manifest_path(self) -> Path:
        """manifest.json."""
        return self.path / MANIFEST_NAME

    @property
    def runs(self) -> Path:
        """The folder of the trained models."""
        return self.path / "runs"

    @property
    def cores(self) -> Path:
        """The folder of the cores."""
        return self.path / "cores"

    @property
    def claims_path(self) -> Path:
        """claims.json."""
        return self.path / "claims.json"

    @property
    def figures(self) -> Path:
        """The folder of the figures."""
        return self.path / "figures"

    @property
    def report_path(self) -> Path:
        """report.html."""
        return self.path / "report.html"

    @classmethod
    @contextmanager
    def open(
        cls,
        path: Path | str,
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
    ) -> Iterator[RunFolder]:
        """Make or resume the folder at ``path`` and hold it until the context is left.

        Leaving writes the manifest's status: ``finished``, or ``failed`` where an exception passes. An interrupt (Ctrl-C) leaves
        ``running``, just as a kill does: both are resumed.

        Args:
            path: the folder.
            config: the whole resolved configuration, JSON.
            kind, experiment, preset, summary, seeds, engine, forward, device, command: as in :class:`Manifest`.

        Raises:
            FolderError: where the folder holds something else (nothing in it is touched), belongs to another configuration (both
                are named), is held by another process, or cannot be written.
        """
        path = Path(path)
        manifest = Manifest.start(
            kind=kind,
            experiment=experiment,
            preset=preset,
            summary=summary,
            config=config,
            seeds=seeds,
            engine=engine,
            forward=forward,
            device=device,
            command=command,
        )
        since = time.monotonic()
        # Before the lock, which would already leave a file in somebody else's folder; and again once nobody else can write.
        _check_is_ours(path, manifest)
        _make(path)
        with folder_lock(path):
            _check_is_ours(path, manifest)
            _sweep_temporaries(path)
            manifest.save(path)
            try:
                yield cls(path=path, manifest=manifest)
            except Exception:
                # What went wrong is to be told, not that the disk is too full to note it.
                with suppress(FolderError):
                    manifest.ended("failed", since=since).save(path)
                raise
            manifest.ended("finished", since=since).save(path)

    @classmethod
    def read(cls, path: Path | str) -> RunFolder:
        """The folder at ``path``, for reading only: no lock, nothing written.

        Raises:
            ForeignFileError: where there is no manifest of ours.
        """
        path = Path(path)
        return cls(path=path, manifest=Manifest.load(path))


def _make(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FolderError(
            f"{path}, which cannot be made ({error.strerror})",
            expected="a folder on a disk with free space that this user may write to",
            do="mend the permissions, or choose another folder with --out",
        ) from error


def _check_is_ours(path: Path, wanted: Manifest) -> None:
    """Raise unless the folder is new, was left before its manifest was written, or belongs to ``wanted``'s configuration."""
    try:
        names = sorted(entry.name for entry in path.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise FolderError(
            f"{path}, which cannot be read as a folder ({error.strerror})",
            expected="a new name, an empty folder, or the folder of the same run",
            do="choose another folder with --out",
        ) from error
    if MANIFEST_NAME in names:
        _check_same_run(path, wanted)
        return
    foreign = [name for name in names if name != LOCK_NAME and not is_temporary(name)]
    if foreign:
        raise FolderError(
            f"{path}, which holds {len(foreign)} entries that are no run of ours, such as {foreign[0]!r}, and no {MANIFEST_NAME}",
            expected="a new name, an empty folder, or the folder of the same run",
            do="choose another folder with --out",
        )


def _check_same_run(path: Path, wanted: Manifest) -> None:
    try:
        found = Manifest.load(path)
    except ForeignFileError as error:
        raise FolderError(
            f"{path}, whose {MANIFEST_NAME} is none of ours ({error.given})",
            expected="a new name, an empty folder, or the folder of the same run",
            do="choose another folder with --out",
        ) from error
    if _identity(found) == _identity(wanted):
        return
    raise FolderError(
        f"{path}, which holds {_title(found)}, for {_title(wanted)}; {_differences(found, wanted)}",
        expected="the folder of the same experiment, preset and configuration",
        do="use another --out, or the configuration that began this folder",
    )


def _identity(manifest: Manifest) -> tuple[str, ...]:
    # Neither the engine nor the machine: numbers do not depend on the one, and the other may change under a resumed run.
    return manifest.kind, manifest.experiment, manifest.preset, manifest.config_hash


def _title(manifest: Manifest) -> str:
    name = "/".join(part for part in (manifest.experiment, manifest.preset) if part)
    return f"{name or manifest.kind} (config {manifest.config_hash[:8]})"


def _differences(found: Manifest, wanted: Manifest) -> str:
    """The first keys in which two configurations differ, with both values."""
    there, here = _flat(found.config), _flat(wanted.config)
    keys = [key for key in here | there if there.get(key, _ABSENT) != here.get(key, _ABSENT)]
    if not keys:
        return "their configurations are equal"
    shown = "; ".join(
        f"{key} is {there.get(key, _ABSENT)} there and {here.get(key, _ABSENT)} here" for key in keys[:_NUM_KEYS_SHOWN]
    )
    more = len(keys) - _NUM_KEYS_SHOWN
    return shown + (f"; and {more} more" if more > 0 else "")


_ABSENT = "absent"


def _flat(config: Any, prefix: str = "") -> dict[str, str]:
    """Dotted key to value as text, for every leaf of nested dictionaries."""
    if not isinstance(config, Mapping) or not config:
        return {prefix: repr(config)}
    flat: dict[str, str] = {}
    for name, value in config.items():
        flat |= _flat(value, f"{prefix}.{name}" if prefix else str(name))
    return flat


def _sweep_temporaries(path: Path) -> None:
    """Remove what a killed writer left; nobody else writes here while the lock is held."""
    for leftover in path.rglob(".*.tmp"):
        # What the disk refuses to remove does no harm where it lies; the first file to be written is refused with the reason.
        with suppress(OSError):
            if is_temporary(leftover.name):
                leftover.unlink(missing_ok=True)
