"""``invariscope compare CORE_OR_RUN CORE_OR_RUN ...``: how alike saved cores or trained models are, pair by pair.

From two cores: the overlap of their write and read spans, beside chance and the central 95 % of random spans. From two runs
their cores are extracted first, at one site and from the same sequences; then also the cosine of their weights and, where both
were trained on one task, the canonical correlations of their coordinates on the same held-out inputs.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from invariscope.cli.parse import parse
from invariscope.cli.tasks import describe_run_task, run_manifest
from invariscope.errors import ConfigError, ForeignFileError, ShapeError

if TYPE_CHECKING:
    from invariscope.cores import Core
    from invariscope.estimate import Similarity
    from invariscope.tasks import SampledBatches
    from invariscope.training import Run

__all__ = ["CompareOptions", "command"]

BATCH = 256
TOLERANCE = 0.02
HEADINGS = ("pair", "measure", "value", "chance", "central 95 %", "of")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """Compare cores (FILE.safetensors) and runs (the folder of one trained model) pair by pair.

    Args:
        paths: two or more of them.
        site: where the cores of runs are extracted; not given: blocks.L.resid_mid of the last block L.
        rank: of the cores of runs; not given: the smallest that suffices, run by run.
        projection: of the cores of runs.
        sequences: that cores of runs are extracted from, and as many held-out ones that coordinates are compared on.
        seed: of the sequences.
        debug: show the traceback of whatever goes wrong.
    """

    paths: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="CORE_OR_RUN")]
    site: Annotated[str | None, tyro.conf.arg(metavar="SITE")] = None
    rank: Annotated[int | None, tyro.conf.arg(metavar="K")] = None
    projection: Literal["activation", "adjoint", "oblique"] = "adjoint"
    sequences: Annotated[int, tyro.conf.arg(metavar="N")] = 2048
    seed: Annotated[int, tyro.conf.arg(metavar="N")] = 0
    debug: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Subject:
    """One thing to compare: a core, and for a run its model and the description of its task."""

    path: Path
    core: Core
    run: Run | None = None
    task: dict[str, Any] | None = None


def command(args: Sequence[str]) -> int:
    """Print one line a pair and measure."""
    options = parse(CompareOptions, args, prog="invariscope compare")
    _check_paths(options.paths)
    subjects = [_subject(path, options) for path in options.paths]
    first = subjects[0]
    for other in subjects[1:]:
        if other.core.dim != first.core.dim:
            raise ShapeError(
                f"{first.path} with a core of dimension {first.core.dim} and {other.path} with one of {other.core.dim}",
                expected="cores that live in spaces of one dimension",
                do="compare models of one width, at sites of one kind",
            )
    rows = [row for a, b in itertools.combinations(subjects, 2) for row in _compare(a, b, options)]
    _print(subjects, rows)
    return 0


def _check_paths(paths: Sequence[Path]) -> None:
    """Refuse what can be refused without torch."""
    if len(paths) < 2:
        raise ConfigError(
            f"{len(paths)} to compare" + "".join(f": {path}" for path in paths),
            expected="two or more cores or runs",
            do="name a second one",
        )
    for path in paths:
        if path.is_dir():
            run_manifest(path)
        elif not path.is_file():
            raise ForeignFileError(
                f"{path}, which is not there", expected="a core's file or a run's folder", do="correct the path"
            )


def _subject(path: Path, options: CompareOptions) -> _Subject:
    from invariscope.cores import by_sufficiency, extract_core, load_core
    from invariscope.tasks import build_task
    from invariscope.training import load_run

    if path.is_file():
        return _Subject(path=path, core=load_core(path))
    run, description = load_run(path), describe_run_task(path)
    task = build_task(description)
    core = extract_core(
        run.model,
        _sequences(description, options, "extraction"),
        site=options.site or f"blocks.{run.model.config.num_layers - 1}.resid_mid",
        positions=task.loss_positions,
        rank=by_sufficiency(TOLERANCE) if options.rank is None else options.rank,
        projection=options.projection,
    )
    return _Subject(path=path, core=core, run=run, task=description)


def _sequences(description: dict[str, Any], options: CompareOptions, purpose: Literal["extraction", "heldout"]) -> SampledBatches:
    from invariscope.tasks import SampledBatches, build_task, derive_seed

    task = build_task(description)
    pool = task.pools[0] if purpose == "extraction" else task.pools[:2][-1]
    seed = derive_seed(options.seed, "compare", purpose)
    return SampledBatches(task, options.sequences, batch_size=BATCH, seed=seed, pool=pool)


def _compare(a: _Subject, b: _Subject, options: CompareOptions) -> list[list[str]]:
    from invariscope.cores import compare_coordinates, core_coordinates, projector_overlap, weight_cosine

    pair = f"{a.path} | {b.path}"
    of = f"ranks {a.core.rank} and {b.core.rank} of {a.core.dim}"
    rows = [
        [pair, f"overlap of {span} spans", *_numbers(projector_overlap(a.core, b.core, span=span)), of]
        for span in ("write", "read")
    ]
    if a.run is None or b.run is None:
        return rows
    if a.task is not None and a.task == b.task:
        heldout = _sequences(a.task, options, "heldout")
        (z_a, at), (z_b, _) = (core_coordinates(x.core, x.run.model, heldout) for x in (a, b) if x.run is not None)
        cca = compare_coordinates(z_a, z_b, groups=at.groups).cca
        sizes = f"n {cca.num_fit}+{cca.num_heldout}, k {cca.rank}"
        rows.append([pair, "CCA of coordinates, held out", *_numbers(cca), sizes])
        smallest = min(cca.heldout_components, default=cca.value)
        rows.append([pair, "CCA, smallest component, held out", f"{smallest:.4f}", f"{min(cca.null_components):.4f}", "-", sizes])
    else:
        rows.append([pair, "CCA of coordinates", "-", "-", "-", "their tasks differ"])
    try:
        cosine, why = f"{weight_cosine(a.run.model, b.run.model):.4f}", "all weight matrices"
    except ShapeError as error:
        cosine, why = "-", error.given
    rows.append([pair, "weight cosine", cosine, "0", "-", why])
    return rows


def _numbers(similarity: Similarity) -> list[str]:
    value = similarity.value if similarity.heldout is None else similarity.heldout
    return [
        f"{value:.4f}",
        f"{similarity.null_mean:.4f}",
        f"[{similarity.null_low:.4f}, {similarity.null_high:.4f}]",
    ]


def _print(subjects: Sequence[_Subject], rows: Sequence[Sequence[str]]) -> None:
    """A table on a terminal, lines of cells between bars elsewhere."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for subject in subjects:
        made = subject.core.provenance
        line = f"{subject.path}: {made.projection or 'a'} core of rank {subject.core.rank} at {made.site or 'an unnamed site'}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        for row in rows:
            console.print("  ".join(row), markup=False, highlight=False, soft_wrap=True)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)
