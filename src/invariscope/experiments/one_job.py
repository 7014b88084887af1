"""A study whose measurements are one job: carried out where the engine says, and kept."""

from __future__ import annotations

from typing import Any, TypeVar

from invariscope.parallel import map_jobs, track
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.storage.run_folder import RunFolder

__all__ = ["run_one_job"]

Found = TypeVar("Found")


def run_one_job(
    function: str,
    kind: type[Found],
    config: Any,
    folder: RunFolder,
    *,
    engine: str,
    num_workers: int | None,
    progress: bool,
) -> Found:
    """What ``function(config=, folder=)`` finds, as a record.

    Args:
        function: its dotted name, ``module:function``. kind: the dataclass of its findings.
        config: the study's. folder: gets ``runs/``, where the job keeps what it finds.
        engine, num_workers: as in :func:`invariscope.parallel.map_jobs`. progress: show a progress bar.
    """
    job = {"config": to_json_record(config), "folder": str((folder.path / "runs").resolve())}
    with track("measuring", 1, unit="studies", show=progress) as advance:
        [result] = map_jobs(function, [job], engine=engine, num_workers=num_workers, on_done=lambda index, found: advance())
    return from_json_record(kind, result)
