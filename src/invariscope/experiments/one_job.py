"""A study whose measurements are one job: carried out where the engine says, kept, judged and drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from invariscope.figures import Figure
from invariscope.parallel import map_jobs, track
from invariscope.storage.claims import Claim
from invariscope.storage.claims_file import write_claims
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.storage.run_folder import RunFolder

__all__ = ["OneJobStudy"]


class MakeClaims(Protocol):
    """Claims of a configuration's findings."""

    def __call__(self, config: Any, found: Any, *, preset: str) -> Sequence[Claim]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OneJobStudy:
    """What such a study is made of.

    Args:
        name: as on the command line.
        job: dotted name of what measures, ``module:function``; called with ``config=`` and ``folder=``.
        findings: the dataclass of what it finds.
        make_claims, make_figures: of a configuration and its findings.
    """

    name: str
    job: str
    findings: type
    make_claims: MakeClaims
    make_figures: Callable[[Any, Any], Sequence[Figure]]

    def run(
        self,
        config: Any,
        folder: RunFolder,
        *,
        preset: str = "",
        engine: str = "auto",
        num_workers: int | None = None,
        progress: bool = True,
    ) -> None:
        """Carry out the study in ``folder``; what is measured there already is kept.

        Args:
            config: the study's numbers. folder: an open run folder; gets ``runs/``, ``claims.json`` and ``figures/``.
            preset: its name, for the claims.
            engine, num_workers: as in :func:`invariscope.parallel.map_jobs`. progress: show progress bars.
        """
        job = {"config": to_json_record(config), "folder": str((folder.path / "runs").resolve())}
        with track("measuring", 1, unit="studies", show=progress) as advance:
            [result] = map_jobs(self.job, [job], engine=engine, num_workers=num_workers, on_done=lambda index, found: advance())
        found = from_json_record(self.findings, result)
        for figure in self.make_figures(config, found):
            figure.save(folder.figures)
        claims = list(self.make_claims(config, found, preset=preset))
        write_claims(folder.claims_path, claims, experiment=self.name, preset=preset)
